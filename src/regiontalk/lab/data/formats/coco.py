"""COCO (Lin et al. 2014): `captions_*.json` and/or `instances_*.json`, or any single file of that
format.

A caption is a sentence of the photo. An instance is a region of type "object" whose phrase is the
name of its category; an instance with a caption has that as its phrase, and no type. Crowds are
skipped. The split comes from the file's name (train2017, val2014).

We write each caption as `caption` and as a separate category: programs show an annotation by its
category, and most drop unknown keys, so the captions are kept in the files that they write.
FiftyOne takes `score` for its `confidence` and cannot read a file that has both: ours is
`caption_confidence`. It keeps `caption` as it was, so in the files that it writes, the category has
what people corrected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from regiontalk import __version__
from regiontalk.errors import DataError
from regiontalk.io.json_stream import stream_members
from regiontalk.lab.data.formats.fields import (
    Scores,
    as_object,
    as_size,
    as_text,
    box_xywh,
    reading,
    scores_of,
    xywh_box,
)
from regiontalk.lab.data.formats.sources import Format, Item, Source, split_of
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.results import BoxXYXY, ImageRegions

_PART = re.compile(r"(?:captions|instances)_(?P<part>(?:train|val|test)\d*)\.json")
CONFIDENCE = "caption_confidence"
SUPERCATEGORY = "region"


class Photo(NamedTuple):
    """An entry of `images`."""

    name: str
    width: int
    height: int


def photo_of(entry: Mapping[str, Any]) -> Photo:
    return Photo(
        as_text(entry["file_name"], "file_name"), *as_size(entry["width"], entry["height"])
    )


def take_entries(path: Path, takes: Mapping[str, Callable[[Mapping[str, Any], str], None]]) -> None:
    """Passes every entry of a file's lists, and its place, to the function for the list."""
    numbers: Counter[str] = Counter()
    for key, entry in stream_members(path):
        if key in takes:
            numbers[key] += 1
            place = f"{path}, {key} item {numbers[key]}"
            with reading(place):
                takes[key](as_object(entry), place)


class _Object(NamedTuple):
    """An annotation with a box: its phrase is that of the category, if there is one."""

    box_xyxy: BoxXYXY
    caption: str | None
    category: int | None
    scores: Scores


@dataclass
class _Described:
    """The data of a photo from the files of one part."""

    place: str
    photo: Photo | None = None
    sentences: list[str] = field(default_factory=list)
    objects: list[_Object] = field(default_factory=list)


@dataclass
class _Part:
    """The photos of train2017, val2017 or another part, from one or several files."""

    name: str
    photos: dict[int, _Described] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)

    def read(self, path: Path) -> None:
        takes = {
            "images": self._take_image,
            "annotations": self._take_annotation,
            "categories": self._take_category,
        }
        take_entries(path, takes)

    def _take_image(self, entry: Mapping[str, Any], place: str) -> None:
        self.photos.setdefault(int(entry["id"]), _Described(place)).photo = photo_of(entry)

    def _take_annotation(self, entry: Mapping[str, Any], place: str) -> None:
        described = self.photos.setdefault(int(entry["image_id"]), _Described(place))
        if entry.get("iscrowd"):
            return
        caption = as_text(entry["caption"], "caption").strip() if "caption" in entry else None
        if caption is None or "bbox" in entry:
            box_xyxy = xywh_box(*entry["bbox"])
            is_from_fiftyone = entry.get("supercategory") == SUPERCATEGORY
            by_category = caption is None or is_from_fiftyone
            category = int(entry["category_id"]) if by_category else None
            described.objects.append(_Object(box_xyxy, caption, category, _scores(entry)))
        elif caption:
            described.sentences.append(caption)

    def _take_category(self, entry: Mapping[str, Any], place: str) -> None:  # noqa: ARG002
        self.categories[int(entry["id"])] = as_text(entry["name"], "name")

    def item(self, identity: int, described: _Described, source: Source) -> Item:
        photo = described.photo
        if photo is None:
            raise DataError(f"{described.place}: no image has the id {identity}")
        default = (
            split_of(self.name.rstrip("0123456789"), described.place) if self.name else "train"
        )
        record = Record(
            f"{self.name}/{photo.name}" if self.name else photo.name,
            photo.width,
            photo.height,
            source.split_for(str(identity), photo.name, default=default),
            sentences=tuple(described.sentences),
            regions=tuple(self._region(thing, described.place) for thing in described.objects),
            id=str(identity),
        )
        return Item(described.place, record)

    def _region(self, thing: _Object, place: str) -> TrueRegion:
        box_xyxy, caption, category, scores = thing
        if category is None:
            assert caption is not None
            return TrueRegion(box_xyxy, caption, **scores)
        if category not in self.categories:
            raise DataError(f"{place}: no category has the id {category} of one of its objects")
        name = self.categories[category]
        if caption is None:
            return TrueRegion(box_xyxy, name, "object", **scores)
        is_corrected = name != caption
        return TrueRegion(box_xyxy, name) if is_corrected else TrueRegion(box_xyxy, name, **scores)


def _scores(entry: Mapping[str, Any]) -> Scores:
    """Files of version 0.9 and before have the confidence as `confidence`."""
    return scores_of({**entry, "confidence": entry.get(CONFIDENCE, entry.get("confidence"))})


def _score_fields(region: Mapping[str, Any]) -> dict[str, float]:
    scores = scores_of(region)
    fields = {}
    if "score" in scores:
        fields["score"] = scores["score"]
    if "confidence" in scores:
        fields[CONFIDENCE] = scores["confidence"]
    return fields


def to_coco(photos: Sequence[ImageRegions]) -> dict[str, Any]:
    """`images`, `annotations` with box, caption and scores, and a category for each caption.

    The list of annotations alone is a COCO results file.
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    categories: dict[str, int] = {}
    for image_id, photo in enumerate(photos, start=1):
        images.append(
            {"id": image_id, "file_name": photo.path, "width": photo.width, "height": photo.height}
        )
        for region in photo.to_dict()["regions"]:
            box = box_xywh(region["xyxy"])
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": categories.setdefault(region["caption"], len(categories) + 1),
                    "bbox": list(box),
                    "area": round(box[2] * box[3], 2),
                    "iscrowd": 0,
                    "caption": region["caption"],
                    **_score_fields(region),
                }
            )
    return {
        "info": {"description": f"regiontalk {__version__}", "version": "1.0"},
        "images": images,
        "annotations": annotations,
        "categories": [
            {"id": n, "name": name, "supercategory": SUPERCATEGORY}
            for name, n in categories.items()
        ],
    }


def read(source: Source) -> Iterator[Item]:
    seen: dict[int, str] = {}
    for name, paths in _files(source).items():
        part = _Part(name)
        for path in paths:
            part.read(path)
        for identity, photo in part.photos.items():
            if seen.setdefault(identity, name) != name:
                raise DataError(
                    f"{photo.place}: image {identity} is in {seen[identity]} too",
                    hint="COCO 2014 and 2017 share photos: keep the files of one year in a folder",
                )
            yield part.item(identity, photo, source)


FORMAT = Format(read, ("", "images", ".."))


def _files(source: Source) -> dict[str, list[Path]]:
    """The files of every part; a single file is one part."""
    if source.path.is_file():
        match = _PART.fullmatch(source.path.name)
        return {match["part"] if match else "": [source.path]}
    inner = source.path / "annotations"
    folder = inner if inner.is_dir() else source.path
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.json")):
        if match := _PART.fullmatch(path.name):
            files.setdefault(match["part"], []).append(path)
    if not files:
        raise DataError(
            f"{folder}: neither captions_*.json nor instances_*.json", hint="or give one file"
        )
    return files
