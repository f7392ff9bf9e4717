"""Which photos are meant by paths, folders, patterns and a stream, and work on several of them at a time."""

from __future__ import annotations

import glob
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from regiontalk.errors import InputError, RegionTalkError, UsageError

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif")
STDIN = "-"
AHEAD = 2  # photos for each worker that are under way before the first one's result is taken

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
            # Without a match the pattern itself is kept, to be named as a file that is not there.
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


def _identity(folder: str | Path) -> tuple[int, int]:
    """Device and inode."""
    status = os.stat(folder)  # noqa: PTH116
    return status.st_dev, status.st_ino


def attempts(ask: Callable[[str], Result], photos: Iterable[str], workers: int) -> Iterator[Result | RegionTalkError]:
    """What `ask` says of every photo, in the photos' order; or, where it is the photo's fault, why not."""

    def attempt(photo: str) -> Result | RegionTalkError:
        try:
            return ask(photo)
        except (InputError, UsageError) as error:
            return error

    return in_order(attempt, photos, workers)


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
