"""Hugging Face's `imagefolder`: lines of `metadata.jsonl` in the folder of the photos.

`objects` has a list for each property: `bbox` (x, y, width, height in pixels) and `caption` (or
`category`, as text), and may have `score`. `text` (or a `caption` outside `objects`) is a sentence
about the photo. SOURCE is the file or its folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regiontalk.io.files import read_json_lines
from regiontalk.lab.data.formats.fields import (
    SCORES,
    as_object,
    as_size,
    as_text,
    box_xywh,
    scores_of,
    xywh_box,
)
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_entries
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.results import ImageRegions

METADATA = "metadata.jsonl"


def to_hugging_face(photo: ImageRegions) -> dict[str, Any]:
    """A photo's line."""
    regions = photo.to_dict()["regions"]
    objects: dict[str, Any] = {
        "id": [region["id"] for region in regions],
        "bbox": [list(box_xywh(region["xyxy"])) for region in regions],
        "caption": [region["caption"] for region in regions],
        "score": [region["score"] for region in regions],
    }
    if any("confidence" in region for region in regions):
        objects["confidence"] = [region.get("confidence") for region in regions]
    return {
        "file_name": photo.path,
        "width": photo.width,
        "height": photo.height,
        "objects": objects,
    }


def seen_from(folder: Path, photo: ImageRegions) -> ImageRegions:
    """An absolute path in the folder becomes relative: `datasets` refuses absolute ones."""
    path = Path(photo.path)
    is_inside = path.is_absolute() and path.is_relative_to(folder.absolute())
    return replace(photo, path=str(path.relative_to(folder.absolute()))) if is_inside else photo


def read(source: Source) -> Iterator[Item]:
    path = source.path / METADATA if source.path.is_dir() else source.path
    return read_entries(read_json_lines(path), lambda entry, _: _record(entry, source))


FORMAT = Format(read)


def _record(entry: Mapping[str, Any], source: Source) -> Record:
    name = as_text(entry["file_name"], "file_name")
    width, height = as_size(entry["width"], entry["height"]) if "width" in entry else (0, 0)
    sentences = (as_text(entry[key], key).strip() for key in ("text", "caption") if key in entry)
    return Record(
        name,
        width,
        height,
        source.split_for(name, default="train"),
        sentences=tuple(sentence for sentence in sentences if sentence),
        regions=tuple(_regions(as_object(entry.get("objects", {})))),
    )


def _regions(objects: Mapping[str, Any]) -> Iterator[TrueRegion]:
    boxes = objects.get("bbox", ())
    names = next(
        (objects[key] for key in ("caption", "category", "categories") if key in objects), ()
    )
    if len(boxes) != len(names):
        raise ValueError(f"{len(boxes)} boxes and {len(names)} captions")
    for number, (box, name) in enumerate(zip(boxes, names, strict=True)):
        scores = {key: objects[key][number] for key in SCORES if key in objects}
        yield TrueRegion(xywh_box(*box), as_text(name, "caption"), **scores_of(scores))
