"""RefCOCO, RefCOCO+ and RefCOCOg (Kazemzadeh et al. 2014, Yu et al. 2016), as published by
lichengunc/refer.

A folder has `instances.json` (COCO's boxes) and `refs(unc).p`, `refs(umd).p` or `refs(google).p`: a
pickled list of expressions. The same list as `refs(unc).json` works too. An expression is a region
of type "referring"; its `entity` is the number of COCO's annotation. `id` is COCO's number of the
photo, so that `data join` can add the regions to COCO.

A photo is in the split of its expressions. In Google's split some photos have expressions in
several splits: test takes precedence over dev, and dev over train.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regiontalk.errors import DataError
from regiontalk.io.files import read_file, read_json
from regiontalk.io.typed import WithMore, to_dataclass
from regiontalk.lab.data.formats.coco import Photo, photo_of, take_entries
from regiontalk.lab.data.formats.fields import xywh_box
from regiontalk.lab.data.formats.sources import Format, Item, Source, split_of
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.results import BoxXYXY

INSTANCES = "instances.json"
REFERENCES = [
    f"refs({split_by}).{suffix}"
    for split_by in ("unc", "umd", "google")
    for suffix in ("p", "json")
]
FROM_LAST = ("test", "dev", "train")
_BROKEN = (  # what reading a damaged pickle raises
    *(pickle.UnpicklingError, struct.error, EOFError, ArithmeticError, LookupError),
    *(ValueError, TypeError, AttributeError, AssertionError, MemoryError),
)


@dataclass(frozen=True)
class _Expression(WithMore):
    sent: str
    """The sentence in lower case, without punctuation; `raw` is the original text."""


@dataclass(frozen=True)
class _Reference(WithMore):
    """The expressions for one object in a photo."""

    image_id: int
    ann_id: int
    split: str
    sentences: tuple[_Expression, ...]


@dataclass
class _Described:
    """The references of one photo, and the place of the first."""

    place: str
    splits: set[str] = field(default_factory=set)
    regions: list[TrueRegion] = field(default_factory=list)


def read(source: Source) -> Iterator[Item]:
    path = source.path if source.path.is_file() else _find_references(source.path)
    photos, boxes = _read_instances(path.with_name(INSTANCES))
    described: dict[int, _Described] = {}
    for place, reference in _read_references(path):
        if reference.ann_id not in boxes or reference.image_id not in photos:
            raise DataError(
                f"{place}: {INSTANCES} has no annotation {reference.ann_id} or no photo of it"
            )
        photo = described.setdefault(reference.image_id, _Described(place))
        photo.splits.add(split_of(reference.split, place))
        photo.regions += (
            TrueRegion(
                boxes[reference.ann_id], expression.sent, "referring", entity=str(reference.ann_id)
            )
            for expression in reference.sentences
        )
    for identity, photo in described.items():
        image = photos[identity]
        split = next(split for split in FROM_LAST if split in photo.splits)
        split = source.split_for(str(identity), image.name, default=split)
        record = Record(
            image.name,
            image.width,
            image.height,
            split,
            regions=tuple(photo.regions),
            id=str(identity),
        )
        yield Item(photo.place, record)


FORMAT = Format(read, ("", "train2014", "images", "images/mscoco/images/train2014"))


def _find_references(folder: Path) -> Path:
    for name in REFERENCES:
        if (folder / name).exists():
            return folder / name
    raise DataError(
        f"{folder}: no refs(unc).p, refs(umd).p or refs(google).p",
        hint="or give the file as SOURCE",
    )


def _read_instances(path: Path) -> tuple[dict[int, Photo], dict[int, BoxXYXY]]:
    photos: dict[int, Photo] = {}
    boxes: dict[int, BoxXYXY] = {}

    def take_image(entry: Mapping[str, Any], place: str) -> None:  # noqa: ARG001
        photos[int(entry["id"])] = photo_of(entry)

    def take_annotation(entry: Mapping[str, Any], place: str) -> None:  # noqa: ARG001
        boxes[int(entry["id"])] = xywh_box(*entry["bbox"])

    take_entries(path, {"images": take_image, "annotations": take_annotation})
    return photos, boxes


def _read_references(path: Path) -> Iterator[tuple[str, _Reference]]:
    entries = read_json(path) if path.suffix == ".json" else _unpickle(path)
    if not isinstance(entries, list):
        raise DataError(f"{path}: not a list of references")
    for number, entry in enumerate(entries, start=1):
        place = f"{path}, item {number}"
        yield place, to_dataclass(_Reference, entry, place)


def _unpickle(path: Path) -> Any:
    try:
        return _PlainUnpickler(
            io.BytesIO(read_file(path)), encoding="utf-8", errors="replace"
        ).load()
    except _BROKEN as error:
        raise DataError(f"{path}: not a pickled list of plain values: {error}") from error


class _PlainUnpickler(pickle._Unpickler):
    """Reads only lists, dictionaries, texts and numbers, because other pickles could run any code.

    Uses the unpickler written in Python: a few bytes can make the one in C allocate gigabytes. Byte
    arrays, which do so in both, are rejected.
    """

    dispatch = {  # noqa: RUF012
        key: load for key, load in pickle._Unpickler.dispatch.items() if key != pickle.BYTEARRAY8[0]
    }

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")
