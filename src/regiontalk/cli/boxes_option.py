"""`--boxes`: boxes to caption, from the command line or from a JSON file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from regiontalk.errors import DataError, InputError, UsageError
from regiontalk.io.files import read_json
from regiontalk.io.typed import shorten, to_dataclass
from regiontalk.results import BoxXYXY

Boxes = tuple[BoxXYXY, ...]


@dataclass(frozen=True)
class GivenBoxes:
    """Boxes to caption: one list for a single photo, or lists by path."""

    source: str
    single: Boxes | None
    by_path: Mapping[str, Boxes] = field(default_factory=dict)

    def check(self, photos: Sequence[str]) -> None:
        """One list is for one photo; a path in the file that is not one of the photos is probably
        mistyped."""
        if self.single is not None and len(photos) != 1:
            raise UsageError(
                f"{self.source}: one list of boxes for {len(photos)} photos",
                hint='a JSON file {"path": [[x0, y0, x1, y1], …], …} gives each photo its own',
            )
        known = {os.path.normpath(photo) for photo in photos}
        for path in self.by_path:
            if path not in known:
                raise UsageError(f"{self.source}: {path} is not one of the given photos")

    def of(self, photo: str) -> Boxes:
        if self.single is not None:
            return self.single
        boxes = self.by_path.get(os.path.normpath(photo))
        if boxes is None:
            raise InputError(f"{photo}: no boxes for it in {self.source}")
        return boxes


def read_boxes(text: str) -> GivenBoxes:
    """Boxes from `x0,y0,x1,y1;…` or from a JSON file: a list of boxes, or lists of boxes by
    path."""
    try:
        single = tuple(_parse_box(box) for box in text.strip(" ;").split(";"))
    except ValueError as error:
        if not os.path.lexists(text):
            raise UsageError(
                f"--boxes {text}: neither a file nor x0,y0,x1,y1;…: {error}"
            ) from error
        return _read_boxes_file(text)
    return GivenBoxes("--boxes", single)


def _parse_box(text: str) -> BoxXYXY:
    try:
        x0, y0, x1, y1 = (float(side) for side in text.split(","))
    except ValueError as error:
        raise ValueError(f"{shorten(text)} is not four numbers") from error
    _check_sides((x0, y0, x1, y1))
    return x0, y0, x1, y1


def _check_sides(box: BoxXYXY) -> None:
    x0, y0, x1, y1 = box
    if not all(map(math.isfinite, box)) or x0 >= x1 or y0 >= y1:
        raise ValueError(f"{list(box)} is not left, top, right, bottom")


@dataclass(frozen=True)
class _BoxesInFile:
    boxes: Boxes = ()
    photos: Mapping[str, Boxes] = field(default_factory=dict)


def _read_boxes_file(path: str) -> GivenBoxes:
    try:
        content = read_json(Path(path))
        one_list = isinstance(content, list)
        read = to_dataclass(_BoxesInFile, {"boxes" if one_list else "photos": content}, path)
    except DataError as error:
        raise InputError(error.message, hint="[[x0, y0, x1, y1], …]") from error
    for box in chain(read.boxes, *read.photos.values()):
        try:
            _check_sides(box)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error
    by_path = {os.path.normpath(photo): boxes for photo, boxes in read.photos.items()}
    return GivenBoxes(path, read.boxes if one_list else None, by_path)
