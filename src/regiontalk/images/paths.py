"""Finds the photos that paths, folders, patterns and stdin name, and processes several of them at a
time."""

from __future__ import annotations

import glob
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from regiontalk.errors import ImageError, InputError, RegionTalkError, UsageError
from regiontalk.images.limits import HEADER_BYTES, Limits, format_of
from regiontalk.images.moments import SUFFIXES as VIDEO_SUFFIXES
from regiontalk.images.photo import Photo

SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".jpe",
    ".png",
    ".webp",
    ".gif",
    ".bmp",
    ".tif",
    ".tiff",
    ".avif",
    ".heic",
    ".heif",
)
WITH_VIDEOS = (*SUFFIXES, *VIDEO_SUFFIXES)
STDIN = "-"
LARGEST_STDIN = 1 << 28  # bytes
LONGEST_PATH = 4096
PHOTOS_AHEAD = 2  # photos per worker that are in progress before the first result is taken

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class Photos:
    """Paths in the given order, those of a folder sorted, each once; they have not been opened
    yet."""

    paths: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """One line for each folder that cannot be read."""
    hidden: list[str] = field(default_factory=list)
    """Photos whose names start with a dot (macOS writes its metadata of x.jpg to `._x.jpg`)."""
    outside: list[str] = field(default_factory=list)
    """Photos and folders behind links that lead out of the given folder, if they are left out."""
    stdin: bytes | None = None
    """The photo itself if stdin has one instead of paths; its path is `-`."""

    def source(self, path: str) -> str | bytes:
        """What to open: the path, or the bytes from stdin."""
        return self.stdin if path == STDIN and self.stdin is not None else path

    def can_be_opened(self, limits: Limits) -> bool:
        """Whether any of them can probably be opened, by a quick check. If not, no model needs to
        be loaded."""
        return any(_opens(self.source(path), limits) for path in self.paths)


def _opens(source: str | bytes, limits: Limits) -> bool:
    try:
        Photo(source, limits).check()
    except ImageError:
        return False
    return True


def find_photos(
    given: Iterable[str],
    leave_out: Path | None = None,
    suffixes: tuple[str, ...] = SUFFIXES,
    inside: Path | None = None,
) -> Photos:
    """The photos that paths, folders, globs and `-` name.

    A folder gives every file below it with a photo's suffix. Linked folders are followed, each
    folder once. `leave_out` is a folder that is not entered, unless it is given itself. With
    `inside`, links in folders that lead out of that folder are left out.
    """
    photos = Photos()
    for path in _expand(given, photos):
        # A Path would drop "./" and the like from what is printed.
        if os.path.isdir(path):  # noqa: PTH112
            _walk(path, photos, leave_out, suffixes, inside)
        else:
            photos.paths.append(path)
    photos.paths = list(dict.fromkeys(photos.paths))
    return photos


def _expand(given: Iterable[str], photos: Photos) -> Iterator[str]:
    for path in given:
        if path == STDIN:
            yield from _read_stdin(photos)
        elif os.path.lexists(path) or not glob.has_magic(path):
            yield path
        else:
            # Without a match the pattern itself is kept, and reported later as a missing file.
            yield from sorted(glob.glob(path, recursive=True)) or [path]  # noqa: PTH207


def _read_stdin(photos: Photos) -> list[str]:
    """One path per line, or separated by NUL (`find -print0`); or the bytes of one photo."""
    data = sys.stdin.buffer.read(LARGEST_STDIN + 1)
    if len(data) > LARGEST_STDIN:
        raise InputError(f"stdin: more than {LARGEST_STDIN >> 20} MiB")
    if format_of(data[:HEADER_BYTES]) and not _exists(os.fsdecode(data.partition(b"\n")[0])):
        photos.stdin = data
        return [STDIN]
    lines = (
        data.split(b"\0")
        if b"\0" in data
        else [line.removesuffix(b"\r") for line in data.split(b"\n")]
    )
    paths = [os.fsdecode(line) for line in lines if line]
    if len(paths) > 1 and not any("://" in path or _exists(path) for path in paths):
        raise InputError(
            "stdin: neither a photo nor paths of photos", hint=f"it starts with {paths[0][:40]!r}"
        )
    return paths


def _exists(path: str) -> bool:
    return len(path) <= LONGEST_PATH and os.path.lexists(path)


def _walk(
    top: str,
    photos: Photos,
    leave_out: Path | None,
    suffixes: tuple[str, ...],
    inside: Path | None,
) -> None:
    paths: list[str] = []
    home = None if inside is None else inside.resolve()
    seen = {identity(top)}
    if leave_out is not None and leave_out.is_dir():
        seen.add(identity(leave_out))
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        folders = []
        for entry in _entries(folder, photos):
            is_folder = _is_folder(entry)
            is_hidden = entry.name.startswith(".")
            if is_hidden if is_folder else not entry.name.lower().endswith(suffixes):
                continue
            if home is not None and entry.is_symlink() and _leads_out(entry.path, home):
                photos.outside.append(entry.path)
            elif is_folder:
                folders.append(entry)
            else:
                (photos.hidden if is_hidden else paths).append(entry.path)
        for entry in folders:
            if (folder_identity := identity(entry.path)) not in seen:
                seen.add(folder_identity)
                waiting.append(entry.path)
    photos.paths += sorted(paths)


def _entries(folder: str, photos: Photos) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        photos.skipped.append(f"{folder}: {error.strerror or error}")
        return []


def _leads_out(path: str, home: Path) -> bool:
    """False for links that lead nowhere, which are reported when they are opened."""
    try:
        return not Path(path).resolve(strict=True).is_relative_to(home)
    except (OSError, RuntimeError):  # RuntimeError: a loop, before Python 3.13
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads back to itself
        return False


def identity(path: str | Path) -> object:
    """A value that is equal for all paths of a file or folder."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):  # not there, or no file name at all
        return os.path.abspath(path)  # noqa: PTH100
    return status.st_dev, status.st_ino


def attempts(
    ask: Callable[[Item], Result], photos: Iterable[Item], workers: int
) -> Iterator[Result | RegionTalkError]:
    """The result of `ask` for every photo, in their order; or the error if the photo is the
    cause."""
    with closing(_futures(ask, photos, workers)) as futures:
        for future in futures:
            try:
                result = future.result()
            except (InputError, UsageError) as error:
                yield error
            else:
                yield result


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Runs `work` in threads, a few items ahead; results in the items' order."""
    with closing(_futures(work, items, workers)) as futures:
        for future in futures:
            yield future.result()


def _futures(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Generator[Future[Result], None, None]:
    """The oldest future, as soon as a few items are under way; those that were not asked for are
    cancelled when it is closed."""
    pool = ThreadPoolExecutor(workers)
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) >= PHOTOS_AHEAD * workers:
                yield under_way.popleft()
        while under_way:
            yield under_way.popleft()
    finally:
        pool.shutdown(cancel_futures=True)
