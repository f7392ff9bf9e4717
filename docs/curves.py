"""A run's curves as an SVG picture, drawn from its `log.jsonl`: one small chart for each loss and
dev figure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from regiontalk.errors import DataError
from regiontalk.io.files import read_json_lines

CURVES = "curves.svg"
WIDTH, HEIGHT, GAP = 200, 110, 46
COLUMNS = 4
MAX_DOTTED_POINTS = 20
POINTS = 120  # a curve of more is thinned out by means
NOT_CURVES = frozenset({"step", "seconds", "rate", "photos_per_second", "dev"})

Curve = list[tuple[float, float]]


def read_curves(log: Path) -> dict[str, Curve]:
    """Every loss and, as `dev …`, every dev figure of a log, over steps."""
    curves: dict[str, Curve] = {}
    for place, entry in read_json_lines(log):
        try:
            step = float(entry["step"])
            values = {name: value for name, value in entry.items() if name not in NOT_CURVES}
            values |= {f"dev {name}": value for name, value in entry.get("dev", {}).items()}
            for name, value in values.items():
                curves.setdefault(name, []).append((step, float(value)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{place}: not an entry of a training log: {error}") from error
    return curves


def draw_curves(curves: dict[str, Curve]) -> str:
    """The charts in rows, as one SVG."""
    rows = -(-len(curves) // COLUMNS)
    width, height = COLUMNS * (WIDTH + GAP) + GAP, rows * (HEIGHT + GAP) + GAP // 2
    charts = []
    for place, (name, curve) in enumerate(curves.items()):
        x, y = GAP + place % COLUMNS * (WIDTH + GAP), GAP // 2 + place // COLUMNS * (HEIGHT + GAP)
        charts.append(f'<g transform="translate({x} {y})">{_chart(name, thinned(curve))}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="10"><rect width="{width}" height="{height}" fill="#fff"/>'
        + "".join(charts)
        + "</svg>\n"
    )


def thinned(curve: Curve) -> Curve:
    """At most `POINTS` points, each the mean of a stretch: single batches are noise."""
    stretch = -(-len(curve) // POINTS)
    parts = (
        [curve[start : start + stretch] for start in range(0, len(curve), stretch)] if curve else []
    )
    return [
        (_mean([step for step, _ in part]), _mean([value for _, value in part])) for part in parts
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _chart(name: str, curve: Curve) -> str:
    last = max(step for step, _ in curve)
    low, high = min(value for _, value in curve), max(value for _, value in curve)
    span = high - low or 1.0
    points = [
        (WIDTH * step / last, HEIGHT - HEIGHT * (value - low) / span) for step, value in curve
    ]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dotted = (
        points if len(points) <= MAX_DOTTED_POINTS else []
    )  # a line through one point would not be seen
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="#c33"/>' for x, y in dotted)
    return (
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>'
        f'<polyline points="{drawn}" fill="none" stroke="#c33" stroke-width="1.2"/>{dots}'
        f'<text x="0" y="-5" font-weight="bold">{escape(name)}</text>'
        f'<text x="-3" y="8" text-anchor="end">{high:.3g}</text>'
        f'<text x="-3" y="{HEIGHT}" text-anchor="end">{low:.3g}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 12}" text-anchor="end">step {last:.0f}</text>'
    )
