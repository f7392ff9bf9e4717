"""Shared by the readers of other formats: a source, and one image of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path, PurePosixPath
from typing import Any

from regiontalk.errors import DataError
from regiontalk.io.files import read_file, read_json
from regiontalk.lab.data.formats.fields import as_object, reading
from regiontalk.lab.data.records import SPLITS, Record, TrueRegion, join_paths

SPLIT_NAMES = {name: name for name in SPLITS} | {
    "val": "dev",
    "valid": "dev",
    "validation": "dev",
    "restval": "train",  # Karpathy's name for the part of COCO's val photos that he trains on
    "testing": "test",
    "testa": "test",  # RefCOCO: people
    "testb": "test",  # RefCOCO: everything else
    "training": "train",
}

NO_SPLIT = ""


@dataclass(frozen=True)
class Source:
    """A downloaded data set, in its own layout.

    `splits` maps an image's name (file name or number, as text) to its split; None: the source has
    its own splits.
    """

    path: Path
    images: Path | None = None
    splits: Mapping[str, str] | None = None

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def image_folder(self) -> Path:
        return self.folder if self.images is None else self.images

    def with_lists(self, splits: Mapping[str, str]) -> Source:
        """The source with the split lists of its download, unless there are none or a split file
        was given."""
        return replace(self, splits=splits) if splits and self.splits is None else self

    def locate(self, image: str, form: Format) -> tuple[str, bool]:
        """A photo's absolute path and whether it exists; for a missing photo the first path that
        was tried.

        The usual folders of the format are searched, also for the file name only: all of COCO's
        photos may be in one folder. For formats that people write by hand, paths are used as they
        are.
        """
        names = dict.fromkeys((image, image if form.own else PurePosixPath(image).name))
        paths = [
            join_paths(self.image_folder, folder, name)
            for folder, name in product(form.photo_folders, names)
        ]
        existing = next((path for path in paths if os.path.isfile(path)), None)  # noqa: PTH113
        return existing or paths[0], existing is not None

    def split_for(self, *names: str, default: str) -> str:
        """The split of an image of these names (or paths); `NO_SPLIT` if the split file does not
        have it."""
        if self.splits is None:
            return default
        both = chain.from_iterable((name, PurePosixPath(name).name) for name in names)
        return next((self.splits[name] for name in both if name in self.splits), NO_SPLIT)


@dataclass(frozen=True)
class Item:
    """One image as a source describes it; boxes may extend beyond the image.

    `place` (file and line) and `region_places` are for messages. `record.width` and `height` are 0
    if the source has no size.
    """

    place: str
    record: Record
    region_places: tuple[str, ...] = ()
    fractions: bool = False
    """Boxes are in fractions of the photo's width and height."""

    def region_place(self, number: int) -> str:
        return (
            self.region_places[number]
            if self.region_places
            else f"{self.place}, region {number + 1}"
        )


@dataclass(frozen=True)
class Skipped:
    """An image that cannot be used: its place in the source, the kind of problem, and the
    message."""

    place: str
    kind: str
    reason: str


@dataclass(frozen=True)
class Format:
    """How another format is read. `photo_folders` are the usual folders of photos in its download.

    `own`: people write it by hand, so an empty box is reported as an error instead of being
    dropped; `drops`: a rule of the data set that drops single regions; it gives the reason.
    """

    read: Callable[[Source], Iterator[Item | Skipped]]
    photo_folders: tuple[str, ...] = ("",)
    min_regions: int = 0
    max_regions: int | None = None
    own: bool = False
    drops: Callable[[TrueRegion], str | None] = lambda region: None  # noqa: ARG005


def read_entries(
    entries: Iterable[tuple[str, Any]], to_record: Callable[[Mapping[str, Any], str], Record]
) -> Iterator[Item]:
    """An item for each JSON object, from the object and its place, which errors name."""
    for place, entry in entries:
        with reading(place):
            record = to_record(as_object(entry), place)
        yield Item(place, record)


def split_of(name: str, place: str) -> str:
    """Our name of a split, from any of the usual names."""
    split = SPLIT_NAMES.get(name.strip().lower())
    if split is None:
        raise DataError(f"{place}: unknown split {name!r}", hint=f"one of {', '.join(SPLIT_NAMES)}")
    return split


def read_split_file(path: Path) -> dict[str, str]:
    """A split file: `{"train": [...], "val": [...], "test": [...]}`, lists of image names or
    numbers."""
    table = read_json(path)
    if not isinstance(table, dict) or not all(isinstance(names, list) for names in table.values()):
        raise DataError(
            f"{path}: not a split file", hint='{"train": [names], "val": [...], "test": [...]}'
        )
    splits: dict[str, str] = {}
    for split, names in table.items():
        add_to_split(splits, [str(name) for name in names], split_of(split, str(path)), path)
    return splits


def add_to_split(splits: dict[str, str], names: list[str], split: str, path: Path) -> None:
    """Adds the split of every name; a name in two splits is an error."""
    for name in names:
        if splits.setdefault(name, split) != split:
            raise DataError(f"{path}: {name} is in {splits[name]} and in {split}")


def read_split_lists(paths: Mapping[str, Path]) -> dict[str, str]:
    """The split of every name in lists of names, one per line; `paths` are by split, and may be
    missing."""
    splits: dict[str, str] = {}
    for split, path in paths.items():
        if path.exists():
            add_to_split(splits, read_lines(path), split, path)
    return splits


def read_text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8 text at byte {error.start + 1}: {error.reason}"
        ) from error


def read_lines(path: Path) -> list[str]:
    return [line.strip() for line in read_text(path).split("\n") if line.strip()]
