"""One HTML page about a dense captioning result: figures, and the best and worst images, embedded
in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from PIL import Image

from regiontalk import boxes
from regiontalk.boxes import Floats
from regiontalk.errors import RegionTalkError
from regiontalk.images.photo import reduced
from regiontalk.io.files import replacing
from regiontalk.lab.data.merged_truth import TruthImage
from regiontalk.lab.evaluation.average_precision import IOU_THRESHOLDS, LANGUAGE_THRESHOLDS
from regiontalk.lab.evaluation.dense_ap import DenseEvaluation, DenseResult
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.evaluation.reference_scores import label
from regiontalk.results import ImageRegions, Region
from regiontalk.show import drawing
from regiontalk.show.page import jpeg_base64

EXAMPLES_EACH = 4  # best and as many worst
LONG_SIDE = 640  # pixels of an embedded picture
STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.3em .7em;text-align:right}
th{font-weight:600}td:first-child,th:first-child{text-align:left}
.heat td{min-width:3.6em}
figure{margin:0}figcaption{font-size:13px;color:#555}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1em;margin:0 0 2em}.pair img{width:100%}
.note{color:#555}"""

PhotoReader = Callable[[str], Image.Image]


def choose_examples(
    image_maps: Mapping[str, float], count: int = EXAMPLES_EACH
) -> tuple[list[str], list[str]]:
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
    """Writes the page. `predictions` are read once more, for the images shown; `open_photo` may
    raise an error."""
    image_maps = evaluation.image_maps()
    best, worst = choose_examples(image_maps)
    shown = {image.path: image.regions for image in predictions if image.path in {*best, *worst}}
    parts = [_summary(result), _heat_map(result)]
    for heading, names in (("Best images", best), ("Worst images", worst)):
        parts += [f"<h2>{heading}</h2>"] if names else []
        for name in names:
            parts.append(
                _example(evaluation.truths[name], shown.get(name, ()), image_maps[name], open_photo)
            )
    title = "Dense captioning: evaluation"
    page = (
        "<!doctype html><html lang=en><meta "
        f"charset=utf-8><title>{title}</title><style>{STYLE}</style>"
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


def _example(
    truth: TruthImage, regions: Sequence[Region], own_map: float, open_photo: PhotoReader
) -> str:
    canvas = _canvas(truth, open_photo)
    # As many predictions as there are truths: more would hide the photo.
    top = sorted(regions, key=lambda region: -region.score)[: len(truth.references)]
    people = _picture(
        canvas, truth, truth.boxes_xyxy, [" / ".join(references) for references in truth.references]
    )
    model = _picture(canvas, truth, boxes_of(top), [region.caption for region in top])
    return (
        f"<h3>{escape(truth.path)} <small>mAP {100 * own_map:.1f}</small></h3><div class=pair>"
        f"<figure>{people}<figcaption>truth: {len(truth.references)}</figcaption></figure>"
        f"<figure>{model}<figcaption>best {len(top)} of {len(regions)} "
        "predictions</figcaption></figure></div>"
    )


def _canvas(truth: TruthImage, open_photo: PhotoReader) -> Image.Image:
    """The photo, made small; a grey rectangle of its shape where the photo cannot be opened."""
    try:
        return reduced(open_photo(truth.path), LONG_SIDE)
    except RegionTalkError:
        factor = min(1.0, LONG_SIDE / max(truth.width, truth.height))
        size = (max(1, round(truth.width * factor)), max(1, round(truth.height * factor)))
        return Image.new("RGB", size, (200, 200, 200))


def _picture(
    canvas: Image.Image, truth: TruthImage, boxes_xyxy: Floats, captions: Sequence[str]
) -> str:
    scaled = boxes.scale(boxes_xyxy, canvas.width / truth.width, canvas.height / truth.height)
    data = jpeg_base64(drawing.draw_regions(canvas, scaled, captions), 85)
    return f'<img alt="" src="data:image/jpeg;base64,{data}">'
