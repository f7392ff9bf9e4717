"""How well scores and confidences are calibrated: the share of right regions against them, as
figures and as a diagram.

The score is about the place: a region is right when it overlaps a true region of its photo by an
IoU of 0.5, so when people found something worth a phrase in that place. Several regions may be
right about one thing. The truth covers only what people mentioned, so a region on a real thing that
nobody mentioned counts as wrong, and calibrated scores are too low. The confidence is about the
words: of the regions that overlap a true one, those are right whose caption names it
(`names.is_right`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from regiontalk import boxes
from regiontalk.inference.calibration import Scores, Verdicts
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.evaluation.names import is_right, truths_near
from regiontalk.results import ImageRegions, Region

RIGHT_IOU = 0.5
BIN_COUNT = 10
DIAGRAM_SIDE = 220  # pixels
DIAGRAM_GAP = 44  # pixels between two diagrams
LARGEST_DOT = 11.0


@dataclass(frozen=True)
class Judged:
    """The regions of some photos with their scores, and whether each is right."""

    scores: Scores
    right: Verdicts
    photos: int


@dataclass(frozen=True)
class Bin:
    """The regions whose scores lie in a tenth of the scale."""

    low: float
    count: int
    score: float
    """The mean score of the regions."""
    right: float
    """The share of right ones; on the diagram's diagonal it is the mean score."""


def judge(photo: ImageRegions, record: Record) -> Judged:
    """Judges the regions of a photo, in its pixels, by its record, which may have other pixels."""
    right = [bool(truths) for _, truths in _near(photo, record)]
    return _judged([region.score for region in photo.regions], right)


def judge_words(photo: ImageRegions, record: Record) -> Judged:
    """Judges, by their confidences, the captions of regions that lie on true ones."""
    near = (
        (region, region.confidence, truths) for region, truths in _near(photo, record) if truths
    )
    known = [
        (sure, is_right(region.caption, truths))
        for region, sure, truths in near
        if sure is not None
    ]
    return _judged([sure for sure, _ in known], [right for _, right in known])


def _near(photo: ImageRegions, record: Record) -> Iterable[tuple[Region, list[TrueRegion]]]:
    """The regions, each with the true regions that it lies on."""
    scaled = boxes.scale(
        boxes_of(photo.regions), record.width / photo.width, record.height / photo.height
    )
    return zip(photo.regions, truths_near(scaled, record, RIGHT_IOU), strict=True)


def _judged(scores: Sequence[float], right: Sequence[bool]) -> Judged:
    return Judged(np.array(scores, dtype=np.float64), np.array(right, dtype=bool), 1)


def joined(parts: Sequence[Judged]) -> Judged:
    """The judgements of all photos as one."""
    scores = [part.scores for part in parts]
    right = [part.right for part in parts]
    return Judged(
        np.concatenate([np.zeros(0), *scores]),
        np.concatenate([np.zeros(0), *right]).astype(bool),
        sum(part.photos for part in parts),
    )


def reliability(scores: Scores, right: Verdicts) -> list[Bin]:
    """Bins of equal width, without empty ones."""
    places = np.clip((scores * BIN_COUNT).astype(int), 0, BIN_COUNT - 1)
    bins = []
    for number in range(BIN_COUNT):
        inside = places == number
        if inside.any():
            mean = float(scores[inside].mean())
            share = float(right[inside].mean())
            bins.append(Bin(number / BIN_COUNT, int(inside.sum()), mean, share))
    return bins


def expected_error(bins: Sequence[Bin]) -> float:
    """The expected calibration error: the mean distance of scores from shares of right regions."""
    total = sum(part.count for part in bins)
    return sum(part.count * abs(part.score - part.right) for part in bins) / total if total else 0.0


def summary(judged: Judged, scores: Scores, threshold: float = 0.5) -> dict[str, Any]:
    """Figures of `scores` for regions that were judged, among them what a threshold leaves."""
    bins = reliability(scores, judged.right)
    kept = scores >= threshold
    return {
        "expected_calibration_error": expected_error(bins),
        "threshold": threshold,
        "regions_per_photo": float(kept.sum()) / max(judged.photos, 1),
        "right": float(judged.right[kept].mean()) if kept.any() else None,
        "bins": [vars(part) for part in bins],
    }


def draw_reliability(diagrams: Mapping[str, Sequence[Bin]]) -> str:
    """Diagrams side by side, as one SVG; the area of a dot shows how many regions it stands for."""
    width = len(diagrams) * (DIAGRAM_SIDE + DIAGRAM_GAP) + DIAGRAM_GAP
    height = DIAGRAM_SIDE + 2 * DIAGRAM_GAP
    drawn = []
    for number, (title, bins) in enumerate(diagrams.items()):
        left = DIAGRAM_GAP + number * (DIAGRAM_SIDE + DIAGRAM_GAP)
        diagram = _diagram(title, bins)
        drawn.append(f'<g transform="translate({left} {DIAGRAM_GAP})">{diagram}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="sans-serif" font-size="10">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>' + "".join(drawn) + "</svg>\n"
    )


def _diagram(title: str, bins: Sequence[Bin]) -> str:
    most = max((part.count for part in bins), default=1)
    dots = [
        f'<circle cx="{DIAGRAM_SIDE * part.score:.1f}" cy="{DIAGRAM_SIDE * (1 - part.right):.1f}" '
        f'r="{max(2.0, LARGEST_DOT * (part.count / most) ** 0.5):.1f}" '
        'fill="#c33" fill-opacity="0.7">'
        f"<title>{part.count} regions: score {part.score:.2f}, right {part.right:.2f}</title>"
        "</circle>"
        for part in bins
    ]
    line = " ".join(
        f"{DIAGRAM_SIDE * part.score:.1f},{DIAGRAM_SIDE * (1 - part.right):.1f}" for part in bins
    )
    return (
        f'<rect width="{DIAGRAM_SIDE}" height="{DIAGRAM_SIDE}" fill="none" stroke="#bbb"/>'
        f'<path d="M0 {DIAGRAM_SIDE} L{DIAGRAM_SIDE} 0" stroke="#bbb" stroke-dasharray="4"/>'
        f'<polyline points="{line}" fill="none" stroke="#c33" stroke-width="1.2"/>{"".join(dots)}'
        f'<text x="0" y="-20" font-weight="bold">{escape(title)}</text>'
        f'<text x="0" y="-7">expected error {expected_error(bins):.4f}</text>'
        '<text x="-3" y="8" text-anchor="end">1</text>'
        f'<text x="-3" y="{DIAGRAM_SIDE}" text-anchor="end">0</text>'
        f'<text x="{DIAGRAM_SIDE}" y="{DIAGRAM_SIDE + 12}" text-anchor="end">score 1</text>'
        f'<text x="0" y="{DIAGRAM_SIDE + 12}">right, against the score</text>'
    )
