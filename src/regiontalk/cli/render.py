"""Results for the terminal and in other programs' formats.

An exporter turns photos into a value for `json`; `EXPORTERS` names them. Boxes are pixels of the upright photo
unless a format has its own convention; photos and regions are numbered from 1 where a format wants numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from regiontalk import __version__
from regiontalk.cli import console
from regiontalk.drawing import PALETTE
from regiontalk.errors import one_line
from regiontalk.types import BoxXYXY, Description, ImageRegions, Region, Sentence

LINES = ("hf",)  # formats of one object a line instead of one whole


def print_result(photo: ImageRegions | Description) -> None:
    """A table of a photo's regions or sentences."""
    heading = Text(one_line(photo.path), style="bold")
    heading.append(f"  {photo.width}×{photo.height}", style="not bold dim")
    console.out().print(heading)
    if isinstance(photo, ImageRegions):
        _print_regions(photo)
    else:
        _print_sentences(photo)


def _print_sentences(photo: Description) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for said in (Sentence(photo.sentence, photo.logprob), *photo.alternatives):
        table.add_row(f"{said.logprob:.2f}", Text(one_line(said.sentence)))
    console.out().print(table)


def _print_regions(photo: ImageRegions) -> None:
    """The squares are the colours that the regions have in drawn pictures and on the page."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", style="dim", no_wrap=True)
    for number, region in enumerate(photo.regions):
        key = Text("■", style="rgb({},{},{})".format(*PALETTE[number % len(PALETTE)]))
        box = " ".join(f"{side:.0f}" for side in region.xyxy)
        table.add_row(key, f"{region.score:.2f}", Text(one_line(region.caption)), box)
    console.out().print(table if photo.regions else Text("  nothing found", style="dim"))


def to_coco(photos: Sequence[ImageRegions]) -> dict[str, Any]:
    """COCO annotations: `images`, `annotations` (bbox is x, y, width, height) and one category.

    Each annotation has its `caption` and `score`; the list of annotations alone is a COCO results file.
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image_id, photo in enumerate(photos, start=1):
        images.append({"id": image_id, "file_name": photo.path, "width": photo.width, "height": photo.height})
        for region in photo.regions:
            left, top, width, height = _xywh(region.xyxy)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": 1,
                    "bbox": [left, top, width, height],
                    "area": round(width * height, 2),
                    "iscrowd": 0,
                    "caption": region.caption,
                    "score": round(region.score, 6),
                }
            )
    return {
        "info": {"description": f"regiontalk {__version__}", "version": "1.0"},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "region", "supercategory": "region"}],
    }


def to_visual_genome(photos: Sequence[ImageRegions]) -> list[dict[str, Any]]:
    """Visual Genome's `region_descriptions.json`: an entry a photo, a phrase a region.

    `path` and `score` are ours: Visual Genome keeps file names in a second file, `image_data.json`.
    """
    entries = []
    region_id = 0
    for image_id, photo in enumerate(photos, start=1):
        regions = []
        for region in photo.regions:
            region_id += 1
            left, top, width, height = _xywh(region.xyxy)
            box = {"x": left, "y": top, "width": width, "height": height}
            identity = {"region_id": region_id, "image_id": image_id}
            regions.append({**identity, **box, "phrase": region.caption, "score": round(region.score, 6)})
        entries.append({"id": image_id, "path": photo.path, "regions": regions})
    return entries


def to_hugging_face(photos: Sequence[ImageRegions]) -> list[dict[str, Any]]:
    """Lines of `metadata.jsonl` for Hugging Face's `imagefolder`: `objects` has a list for each property.

    bbox is x, y, width, height, as its object detection data sets have it.
    """
    return [
        {
            "file_name": photo.path,
            "width": photo.width,
            "height": photo.height,
            "objects": {
                "id": list(range(len(photo.regions))),
                "bbox": [list(_xywh(region.xyxy)) for region in photo.regions],
                "caption": [region.caption for region in photo.regions],
                "score": [round(region.score, 6) for region in photo.regions],
            },
        }
        for photo in photos
    ]


def to_label_studio(photos: Sequence[ImageRegions]) -> list[dict[str, Any]]:
    """Label Studio tasks with predictions: a rectangle and a text a region, in percent of the photo.

    For a labelling set-up with `<RectangleLabels name="label" toName="image">` (label `region`) and a
    `<TextArea name="caption" toName="image" perRegion="true">`.
    """
    return [
        {
            "data": {"image": photo.path},
            "predictions": [
                {
                    "model_version": photo.model,
                    "result": [
                        part
                        for number, region in enumerate(photo.regions)
                        for part in _label_studio_parts(photo, region, f"region-{number}")
                    ],
                }
            ],
        }
        for photo in photos
    ]


def _label_studio_parts(photo: ImageRegions, region: Region, identity: str) -> list[dict[str, Any]]:
    """Two results with the same id are one region."""
    left, top, width, height = _xywh(region.xyxy)
    box = {
        "x": round(100 * left / photo.width, 4),
        "y": round(100 * top / photo.height, 4),
        "width": round(100 * width / photo.width, 4),
        "height": round(100 * height / photo.height, 4),
        "rotation": 0,
    }
    common = {
        "id": identity,
        "to_name": "image",
        "original_width": photo.width,
        "original_height": photo.height,
        "image_rotation": 0,
        "score": round(region.score, 6),
    }
    label = {"from_name": "label", "type": "rectanglelabels", "value": {**box, "rectanglelabels": ["region"]}}
    text = {"from_name": "caption", "type": "textarea", "value": {**box, "text": [region.caption]}}
    return [{**common, **label}, {**common, **text}]


def _xywh(box_xyxy: BoxXYXY) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = (round(side, 2) for side in box_xyxy)
    return x0, y0, round(x1 - x0, 2), round(y1 - y0, 2)


EXPORTERS: dict[str, Callable[[Sequence[ImageRegions]], Any]] = {
    "coco": to_coco,
    "vg": to_visual_genome,
    "hf": to_hugging_face,
    "labelstudio": to_label_studio,
}
