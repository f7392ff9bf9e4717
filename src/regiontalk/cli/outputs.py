"""Where results go: stdout, a file of data, a page, annotated pictures. Originals are never written over."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from regiontalk.cli import console, render
from regiontalk.data import exports
from regiontalk.errors import UsageError
from regiontalk.files import json_line, replacing
from regiontalk.page import writing_page
from regiontalk.types import Description, ImageRegions

Result = ImageRegions | Description
Put = Callable[[Any], object]
"""Takes a `Result`: all of one kind."""

PAGES = (".html", ".htm")
DATA = (".json", ".jsonl", ".csv")
PICTURES = (".jpg", ".jpeg", ".png", ".webp")
MARK = "regiontalk"  # in the EXIF field Software of every picture that was drawn


@dataclass(frozen=True)
class Wanted:
    """What `-o`, `--json` and `--format` ask for together."""

    output: Path | None
    as_json: bool
    export: str | None

    def __post_init__(self) -> None:
        if self.as_json and self.export is not None:
            raise UsageError("--json and --format are two forms of the same data: give one")
        if self.export in exports.FOLDERS and (self.output is None or self._kind):
            raise UsageError(f"--format {self.export} writes a folder of files", hint="-o FOLDER")
        if self.output is not None and self._kind == ".csv" and self.export != "csv":
            raise UsageError(f"{self.output}: is written with --format csv")
        if self.output is not None and self._kind not in (*PAGES, *DATA, *PICTURES, ""):
            raise UsageError(
                f"{self.output}: cannot be written in this format",
                hint=f"a folder, or a name that ends in {', '.join((*PAGES[:1], *DATA, *PICTURES))}",
            )

    @property
    def _kind(self) -> str:
        """The suffix in lower case; nothing for a folder."""
        assert self.output is not None
        return "" if self.output.is_dir() else self.output.suffix.lower()

    @property
    def page(self) -> Path | None:
        return self.output if self.output is not None and self._kind in PAGES else None

    @property
    def data(self) -> Path | None:
        return self.output if self.output is not None and self._kind in DATA else None

    @property
    def picture(self) -> Path | None:
        return self.output if self.output is not None and self._kind in PICTURES else None

    @property
    def folder(self) -> Path | None:
        """Of pictures, not of a data set."""
        return self.output if self.output is not None and not self._kind and not self.is_dataset else None

    @property
    def is_dataset(self) -> bool:
        return self.export in exports.FOLDERS

    @property
    def is_data(self) -> bool:
        return self.as_json or self.export is not None or self.data is not None

    @property
    def prints(self) -> bool:
        """With `-o` nothing is printed, but data that was asked for beside pictures or a page."""
        return self.output is None or (self.is_data and self.data is None and not self.is_dataset)

    @property
    def fills_terminal(self) -> bool:
        return self.prints and sys.stdout.isatty()


@contextmanager
def opening(wanted: Wanted, photos: Sequence[str]) -> Iterator[Put]:
    """A function that takes each result to all places it should go to. Files are whole or not there.

    What cannot or must not be written is said here, before anything is computed.
    """
    with _writing(wanted, photos) as write, _printing(wanted) as show:

        def put(photo: Result) -> None:
            write(photo)
            show(photo)

        yield put


@contextmanager
def _writing(wanted: Wanted, photos: Sequence[str]) -> Iterator[Put]:
    if wanted.output is None:
        yield lambda _: None
        return
    if wanted.export in exports.FOLDERS:
        with exports.FOLDERS[wanted.export](wanted.output) as put:
            yield put
        return
    targets = _targets(wanted, photos)
    _spare_originals(list(targets.values()) or [wanted.output], photos)
    if wanted.page is not None:
        with writing_page(wanted.page) as put:
            yield put
    elif wanted.data is not None:
        with replacing(wanted.data) as partial, partial.open("wb") as file:
            if wanted.export is None:
                yield lambda photo: file.write(json_line(photo.to_dict()))
            else:
                with exports.exporting(wanted.export, file.write, wanted.data.parent) as put:
                    yield put
    else:
        yield lambda photo: _save_picture(photo, targets[photo.path])


@contextmanager
def _printing(wanted: Wanted) -> Iterator[Put]:
    if not wanted.prints:
        yield lambda _: None
    elif wanted.export is not None:
        with exports.exporting(wanted.export, console.print_bytes) as put:
            yield put
    elif wanted.as_json:
        yield lambda photo: console.print_json(photo.to_dict())
    else:
        yield render.print_result


def _targets(wanted: Wanted, photos: Sequence[str]) -> dict[str, Path]:
    """The picture that is drawn of each photo; none for pages and data."""
    if wanted.picture is not None:
        if len(photos) != 1:
            raise UsageError(f"{wanted.picture}: one picture for {len(photos)} photos", hint="-o FOLDER")
        return {photos[0]: wanted.picture}
    if wanted.folder is None:
        return {}
    if wanted.folder.exists() and not wanted.folder.is_dir():
        raise UsageError(f"{wanted.folder}: a file, not a folder for pictures")
    taken: set[str] = set()
    return {photo: wanted.folder / _free_name(photo, taken) for photo in photos}


def _free_name(photo: str, taken: set[str]) -> str:
    """The photo's name, as .jpg if it is of a kind that is only read; x-2.jpg for a second x.jpg."""
    name = Path(photo).name
    path = Path(name if name.lower().endswith(PICTURES) else f"{name}.jpg")
    number, free = 1, path.name
    while free.casefold() in taken:  # "X.jpg" is "x.jpg" on many systems
        number += 1
        free = f"{path.stem}-{number}{path.suffix}"
    taken.add(free.casefold())
    return free


def _spare_originals(targets: Sequence[Path], photos: Sequence[str]) -> None:
    """Never onto a photo that is read; a picture that is there already only if it was drawn by this program."""
    originals = {_identity(photo) for photo in photos}
    for target in targets:
        if not os.path.lexists(target):
            continue
        if _identity(target) in originals or not _may_be_replaced(target):
            raise UsageError(f"{target}: is there already and will not be written over", hint="give another place")


def _identity(path: str | Path) -> object:
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):  # not there, or no file name at all
        return os.path.abspath(path)  # noqa: PTH100
    return status.st_dev, status.st_ino


def _may_be_replaced(target: Path) -> bool:
    if target.suffix.lower() not in PICTURES:
        return not target.is_dir()
    try:
        with Image.open(target, formats=("JPEG", "PNG", "WEBP")) as picture:
            return picture.getexif().get(ExifTags.Base.Software) == MARK
    except Exception:  # whatever it is, it is not ours
        return False


def _save_picture(photo: Result, target: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Software] = MARK
    with replacing(target) as partial:
        photo.draw().save(partial, exif=exif, quality=92)
