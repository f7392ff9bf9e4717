"""COCO (Lin et al. 2014): `captions_*.json` and/or `instances_*.json`, and any single file of that form.

A caption is a sentence of the photo; an instance is a region whose phrase is the name of its category, with
type "object". Crowds are skipped. The split comes from the file's name (train2017, val2014).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regiontalk.data.json_stream import stream_members
from regiontalk.data.records import Record, TrueRegion
from regiontalk.data.sources import (
    Format,
    Item,
    Source,
    as_object,
    as_size,
    as_text,
    reading,
    split_of,
    xywh_box,
)
from regiontalk.errors import DataError
from regiontalk.types import BoxXYXY

_PART = re.compile(r"(?:captions|instances)_(?P<part>(?:train|val|test)\d*)\.json")


@dataclass
class _Photo:
    """What the files of one part say of a photo."""

    place: str
    name: str | None = None
    size: tuple[int, int] = (0, 0)
    sentences: list[str] = field(default_factory=list)
    objects: list[tuple[BoxXYXY, int]] = field(default_factory=list)


@dataclass
class _Part:
    """The photos of train2017, val2017 or another part, from one or several files."""

    name: str
    photos: dict[int, _Photo] = field(default_factory=dict)
    categories: dict[int, str] = field(default_factory=dict)

    def read(self, path: Path) -> None:
        takes = {"images": self._take_image, "annotations": self._take_annotation}
        takes["categories"] = self._take_category
        numbers: Counter[str] = Counter()
        for key, entry in stream_members(path):
            if key in takes:
                numbers[key] += 1
                place = f"{path}, {key} item {numbers[key]}"
                with reading(place):
                    takes[key](as_object(entry), place)

    def _take_image(self, entry: Mapping[str, Any], place: str) -> None:
        photo = self.photos.setdefault(int(entry["id"]), _Photo(place))
        photo.name = as_text(entry["file_name"], "file_name")
        photo.size = as_size(entry["width"], entry["height"])

    def _take_annotation(self, entry: Mapping[str, Any], place: str) -> None:
        photo = self.photos.setdefault(int(entry["image_id"]), _Photo(place))
        if entry.get("iscrowd"):
            return
        if "caption" in entry:
            sentence = as_text(entry["caption"], "caption").strip()
            photo.sentences += [sentence] if sentence else []
        else:
            photo.objects.append((xywh_box(*entry["bbox"]), int(entry["category_id"])))

    def _take_category(self, entry: Mapping[str, Any], place: str) -> None:  # noqa: ARG002
        self.categories[int(entry["id"])] = as_text(entry["name"], "name")

    def item(self, identity: int, photo: _Photo, source: Source) -> Item:
        if photo.name is None:
            raise DataError(f"{photo.place}: no image has the id {identity}")
        default = split_of(self.name.rstrip("0123456789"), photo.place) if self.name else "train"
        record = Record(
            f"{self.name}/{photo.name}" if self.name else photo.name,
            *photo.size,
            source.split_for(str(identity), photo.name, default=default),
            sentences=tuple(photo.sentences),
            regions=tuple(TrueRegion(box, self._category(name, photo), "object") for box, name in photo.objects),
            id=str(identity),
        )
        return Item(photo.place, record)

    def _category(self, identity: int, photo: _Photo) -> str:
        if identity not in self.categories:
            raise DataError(f"{photo.place}: no category has the id {identity} of one of its objects")
        return self.categories[identity]


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
    """The files of every part; a single file is a part of its own."""
    if source.path.is_file():
        return {_part_name(source.path): [source.path]}
    inner = source.path / "annotations"
    folder = inner if inner.is_dir() else source.path
    files: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.json")):
        if _PART.fullmatch(path.name):
            files.setdefault(_part_name(path), []).append(path)
    if not files:
        raise DataError(f"{folder}: neither captions_*.json nor instances_*.json", hint="or give one file")
    return files


def _part_name(path: Path) -> str:
    match = _PART.fullmatch(path.name)
    return match["part"] if match else ""
