"""One HTML page about a dense captioning result: figures, curves, and the best and worst images.

The page is self-contained: charts are inline SVG, pictures are embedded.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from PIL import Image

from regiontalk import boxes, drawing
from regiontalk.boxes import Floats
from regiontalk.data.merged_truth import TruthImage
from regiontalk.errors import RegionTalkError
from regiontalk.evaluation.average_precision import IOU_THRESHOLDS, LANGUAGE_THRESHOLDS, curves
from regiontalk.evaluation.dense_ap import DenseEvaluation, DenseResult
from regiontalk.evaluation.matching import boxes_of
from regiontalk.evaluation.reference_scores import label
from regiontalk.files import replacing
from regiontalk.types import ImageRegions, Region

EXAMPLES = 4  # best and as many worst
LONG_SIDE = 640  # pixels of an embedded picture
COLOURS = ("#444", "#fdbb84", "#fc8d59", "#ef6548", "#d7301f", "#b30000", "#7f0000")
STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.3em .7em;text-align:right}
th{font-weight:600}td:first-child,th:first-child{text-align:left}
.heat td{min-width:3.6em}.charts{display:flex;flex-wrap:wrap;gap:1em}
figure{margin:0}figcaption{font-size:13px;color:#555}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1em;margin:0 0 2em}.pair img{width:100%}
.note{color:#555}"""

PhotoReader = Callable[[str], Image.Image]


@dataclass(frozen=True)
class Example:
    """An image with its truth and its predictions, and its own mAP."""

    truth: TruthImage
    regions: tuple[Region, ...]
    map: float


def choose_examples(image_maps: Mapping[str, float], count: int = EXAMPLES) -> tuple[list[str], list[str]]:
    """Paths of the best and of the worst images; none is in both."""
    ranked = sorted(image_maps, key=lambda path: (-image_maps[path], path))
    best = ranked[: min(count, (len(ranked) + 1) // 2)]
    return best, ranked[len(best) :][-count:][::-1]


def write_report(
    path: Path,
    evaluation: DenseEvaluation,
    result: DenseResult,
    predictions: Iterable[ImageRegions],
    open_photo: PhotoReader,
) -> None:
    """Writes the page. `predictions` are read once more, for the images shown; `open_photo` may raise an error."""
    image_maps = evaluation.image_maps()
    best, worst = choose_examples(image_maps)
    shown = {image.path: image.regions for image in predictions if image.path in {*best, *worst}}
    examples = {
        name: Example(evaluation.truths[name], shown.get(name, ()), image_maps[name]) for name in (*best, *worst)
    }
    parts = [
        _summary(result),
        _heat_map(result),
        _charts(curves(evaluation.pool(), evaluation.rules), result.metric),
        _gallery("Best images", [examples[name] for name in best], open_photo),
        _gallery("Worst images", [examples[name] for name in worst], open_photo),
    ]
    title = "Dense captioning: evaluation"
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
        f"<h1>{title}</h1>{''.join(parts)}</html>\n"
    )
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")


def _summary(result: DenseResult) -> str:
    rows = [
        ("mAP (30 cells)", f"{100 * result.map:.2f}"),
        ("mAP over language thresholds ≥ 0.1", f"{100 * result.map_strict:.2f}"),
        ("mAP of the boxes alone", f"{100 * result.detection_map:.2f}"),
        (f"{result.metric} against the image's references", f"{result.language:.3f}"),
    ]
    for name, values in result.reference_scores.items():
        figures = f"{100 * values['map']:.2f} / {100 * values['map_strict']:.2f}"
        rows.append((f"true boxes: {label(name, values)}, mAP / ≥ 0.1", figures))
    cells = "".join(f"<tr><td>{escape(name)}<td>{value}" for name, value in rows)
    counts = f"{result.images} images, {result.truths} truths, {result.detections} detections"
    return f"<p class=note>Protocol {escape(result.protocol)}; {counts}.<table>{cells}</table>"


def _heat_map(result: DenseResult) -> str:
    head = "".join(f"<th>&gt; {score:g}" for score in LANGUAGE_THRESHOLDS)
    rows = ""
    for iou, values, alone in zip(IOU_THRESHOLDS, result.ap, result.detection_ap, strict=True):
        cells = "".join(_heat_cell(value) for value in (alone, *values))
        rows += f"<tr><th>IoU {iou:g}{cells}"
    metric = escape(result.metric)
    return f"<h2>AP per threshold</h2><table class=heat><tr><th>{metric}<th>any{head}{rows}</table>"


def _heat_cell(value: float) -> str:
    """Darker is better; white on dark."""
    ink = "#fff" if value > 0.5 else "#222"
    return f'<td style="background:rgba(8,81,156,{value:.3f});color:{ink}">{100 * value:.1f}'


def _charts(precision: Floats, metric: str) -> str:
    """A chart per IoU with a line per language threshold; `precision` is (5, 7, levels)."""
    figures = "".join(
        f"<figure>{_chart(lines)}<figcaption>IoU {iou:g}</figcaption></figure>"
        for iou, lines in zip(IOU_THRESHOLDS, precision, strict=True)
    )
    names = ["boxes alone", *(f"{metric} > {score:g}" for score in LANGUAGE_THRESHOLDS)]
    legend = " ".join(
        f'<span style="color:{colour}">■ {escape(name)}</span>' for colour, name in zip(COLOURS, names, strict=True)
    )
    return f"<h2>Precision over recall</h2><p>{legend}<div class=charts>{figures}</div>"


def _chart(lines: Floats) -> str:
    """200 × 200 with a frame; recall to the right, precision upwards."""
    drawn = ""
    for colour, line in zip(COLOURS, lines, strict=True):
        points = " ".join(
            f"{200 * level / (len(line) - 1):.1f},{200 - 200 * value:.1f}" for level, value in enumerate(line)
        )
        drawn += f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    frame = '<rect width="200" height="200" fill="none" stroke="#999"/>'
    ticks = '<text x="-4" y="8" text-anchor="end">1</text><text x="-4" y="204" text-anchor="end">0</text>'
    ticks += '<text x="200" y="216" text-anchor="end">recall 1</text>'
    return f'<svg viewBox="-20 -6 230 228" width="205" font-size="11">{frame}{drawn}{ticks}</svg>'


def _gallery(title: str, examples: Sequence[Example], open_photo: PhotoReader) -> str:
    blocks = ""
    for example in examples:
        truth = example.truth
        canvas = _canvas(truth, open_photo)
        # As many predictions as there are truths: more would hide the photo.
        top = sorted(example.regions, key=lambda region: -region.score)[: len(truth.references)]
        people = _picture(canvas, truth, truth.boxes_xyxy, [" / ".join(one) for one in truth.references])
        model = _picture(canvas, truth, boxes_of(top), [region.caption for region in top])
        blocks += (
            f"<h3>{escape(truth.path)} <small>mAP {100 * example.map:.1f}</small></h3><div class=pair>"
            f"<figure>{people}<figcaption>truth: {len(truth.references)}</figcaption></figure>"
            f"<figure>{model}<figcaption>best {len(top)} of {len(example.regions)} predictions</figcaption>"
            "</figure></div>"
        )
    return f"<h2>{title}</h2>{blocks}" if blocks else ""


def _canvas(truth: TruthImage, open_photo: PhotoReader) -> Image.Image:
    """The photo, made small; a grey rectangle of its shape where the photo cannot be opened."""
    factor = min(1.0, LONG_SIDE / max(truth.width, truth.height))
    size = (max(1, round(truth.width * factor)), max(1, round(truth.height * factor)))
    try:
        return open_photo(truth.path).resize(size)
    except RegionTalkError:
        return Image.new("RGB", size, (200, 200, 200))


def _picture(canvas: Image.Image, truth: TruthImage, boxes_xyxy: Floats, captions: Sequence[str]) -> str:
    scaled = boxes.scale(boxes_xyxy, canvas.width / truth.width, canvas.height / truth.height)
    buffer = io.BytesIO()
    drawing.draw_regions(canvas, scaled, captions).save(buffer, "JPEG", quality=85)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="" src="data:image/jpeg;base64,{data}">'
