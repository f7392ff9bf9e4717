"""What a verb is given: photos, folders, globs, `-` for paths on stdin; and boxes to caption. Several at a time."""

from __future__ import annotations

import glob
import json
import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regiontalk.errors import InputError, UsageError
from regiontalk.types import BoxXYXY

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
STDIN = "-"
AHEAD = 2  # photos for each worker that are under way before the first one's result is taken

_Identity = tuple[int, int]  # device and inode
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Photos:
    """Paths in the order they were given, folders' sorted, each once; whether they can be opened shows later."""

    paths: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """One line for each folder that cannot be read."""
    hidden: list[str] = field(default_factory=list)
    """Names of photos that start with a dot (`._x.jpg` is how macOS keeps what it knows of x.jpg)."""


def find_photos(given: Iterable[str], leave_out: Path | None = None) -> Photos:
    """The photos that are meant by paths, folders, globs and `-`.

    A folder gives every file below it with a photo's suffix. Linked folders are followed, each folder once.
    `leave_out` is a folder that is not entered, unless it is given itself.
    """
    found = Photos()
    for path in _expand(given):
        if os.path.isdir(path):  # noqa: PTH112  (a Path would drop "./" and the like from what is printed)
            _walk(path, found, leave_out)
        else:
            found.paths.append(path)
    found.paths = list(dict.fromkeys(found.paths))
    return found


def _expand(given: Iterable[str]) -> Iterator[str]:
    for path in given:
        if path == STDIN:
            yield from _paths_on_stdin()
        elif os.path.lexists(path) or not glob.has_magic(path):
            yield path
        else:
            # Without a match the pattern itself goes on, to be named as a file that is not there.
            yield from sorted(glob.glob(path, recursive=True)) or [path]  # noqa: PTH207


def _paths_on_stdin() -> list[str]:
    """One path a line, or separated by NUL (`find -print0`) if there is one."""
    data = sys.stdin.buffer.read()
    paths = data.split(b"\0") if b"\0" in data else [line.removesuffix(b"\r") for line in data.split(b"\n")]
    return [os.fsdecode(path) for path in paths if path]


def _walk(top: str, found: Photos, leave_out: Path | None) -> None:
    paths: list[str] = []
    seen = {_identity(top)}
    if leave_out is not None and leave_out.is_dir():
        seen.add(_identity(leave_out))
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        inside = []
        for entry in _entries(folder, found):
            if _is_folder(entry):
                inside.append(entry)
            elif entry.name.lower().endswith(SUFFIXES):
                (found.hidden if entry.name.startswith(".") else paths).append(entry.path)
        for entry in inside:
            if not entry.name.startswith(".") and (identity := _identity(entry.path)) not in seen:
                seen.add(identity)
                waiting.append(entry.path)
    found.paths += sorted(paths)


def _entries(folder: str, found: Photos) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        found.skipped.append(f"{folder}: {error.strerror or error}")
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself
        return False


def _identity(folder: str | Path) -> _Identity:
    status = os.stat(folder)  # noqa: PTH116
    return status.st_dev, status.st_ino


@dataclass(frozen=True)
class GivenBoxes:
    """Boxes to caption: one list for a single photo, or lists by path."""

    source: str
    single: tuple[BoxXYXY, ...] | None
    by_path: Mapping[str, tuple[BoxXYXY, ...]] = field(default_factory=dict)

    def check(self, photos: Sequence[str]) -> None:
        """One list fits one photo; a path in the file that is none of the photos is most likely mistyped."""
        if self.single is not None and len(photos) != 1:
            raise UsageError(
                f"{self.source}: one list of boxes for {len(photos)} photos",
                hint='a JSON file {"path": [[x0, y0, x1, y1], …], …} gives each photo its own',
            )
        known = {os.path.normpath(photo) for photo in photos}
        for path in self.by_path:
            if path not in known:
                raise UsageError(f"{self.source}: {path} is none of the photos given")

    def of(self, photo: str) -> tuple[BoxXYXY, ...]:
        if self.single is not None:
            return self.single
        boxes = self.by_path.get(os.path.normpath(photo))
        if boxes is None:
            raise InputError(f"{photo}: no boxes for it in {self.source}")
        return boxes


def read_boxes(given: str) -> GivenBoxes:
    """Boxes from `x0,y0,x1,y1;…` or from a JSON file: a list of boxes, or lists of boxes by path."""
    try:
        return GivenBoxes("--boxes", tuple(_as_box(box.split(",")) for box in given.strip(" ;").split(";")))
    except ValueError as error:
        if not os.path.lexists(given):
            raise UsageError(f"--boxes {given}: neither a file nor x0,y0,x1,y1;…: {error}") from error
    return _read_boxes_file(given)


def _read_boxes_file(path: str) -> GivenBoxes:
    if not Path(path).is_file():
        raise InputError(f"{path}: not a file")
    try:
        content = json.loads(Path(path).read_bytes())
        if isinstance(content, dict):
            by_path = {os.path.normpath(photo): _as_boxes(boxes, photo) for photo, boxes in content.items()}
            return GivenBoxes(path, None, by_path)
        return GivenBoxes(path, _as_boxes(content))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON with boxes: {error}", hint="[[x0, y0, x1, y1], …]") from error


def _as_boxes(value: Any, photo: str = "") -> tuple[BoxXYXY, ...]:
    place = f"{photo}: " if photo else ""
    if not isinstance(value, list):
        raise ValueError(f"{place}{_shortly(value)} is not a list of boxes")
    boxes = []
    for number, box in enumerate(value):
        if not isinstance(box, list) or any(type(side) not in (int, float) for side in box):
            raise ValueError(f"{place}box {number}: {_shortly(box)} is not a list of numbers")
        try:
            boxes.append(_as_box(box))
        except ValueError as error:
            raise ValueError(f"{place}box {number}: {error}") from error
    return tuple(boxes)


def _as_box(sides: Sequence[str | float]) -> BoxXYXY:
    try:
        x0, y0, x1, y1 = (float(side) for side in sides)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{_shortly(sides)} is not four numbers") from error
    if not all(map(math.isfinite, (x0, y0, x1, y1))) or x0 >= x1 or y0 >= y1:
        raise ValueError(f"{_shortly(sides)} is not left, top, right, bottom")
    return x0, y0, x1, y1


def _shortly(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def in_order(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`work` done in threads, a few items ahead; results in the items' order."""
    pool = ThreadPoolExecutor(workers)
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) >= AHEAD * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
