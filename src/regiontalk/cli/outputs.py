"""Writes results: to stdout, a data file, a page, pictures or sidecars. A user's own files are
never overwritten."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from regiontalk.cli import console, render
from regiontalk.errors import DiskFull, InputError, OutputError, UsageError
from regiontalk.images.limits import MOST_MEGAPIXELS, Limits
from regiontalk.images.paths import identity
from regiontalk.images.photo import Photo
from regiontalk.io.files import FreeNames, json_line, open_file, read_file, replacing
from regiontalk.results import AltText, Description, ImageRegions, Tags
from regiontalk.show.page import writing_page

Result = ImageRegions | Description | AltText | Tags
Put = Callable[[Any], object]
"""Takes a `Result`: all of one kind."""

PAGES = (".html", ".htm")
OF_OTHERS = (".csv", ".vtt")  # formats that such a name asks for
DATA = (".json", ".jsonl", *OF_OTHERS)
PICTURES = (".jpg", ".jpeg", ".png", ".webp")
LONGEST_SIDES = {
    ".jpg": 65_500,
    ".jpeg": 65_500,
    ".webp": 16_383,
}  # pixels that libjpeg and libwebp can write
MARK = "regiontalk"  # in the EXIF field Software of every picture that was drawn
XMP = "xmp"
FOLDERS = ("yolo",)  # formats that are a folder of files
VTT = "vtt"
FORMATS = ("coco", "vg", "hf", "labelstudio", "csv", VTT, *FOLDERS, XMP)
# How pages and data files written by us begin.
_OURS = re.compile(
    rb'\[?\s*\{"(schema": ?"regiontalk/|info": ?\{"description": ?"regiontalk )'
    rb"|path,width,height,x0,y0,"
    rb"|WEBVTT\n\nNOTE RegionTalk\n"
    rb'|<!doctype html>(?s:.)*(<title>RegionTalk|name="generator" content="regiontalk)'
)


@dataclass(frozen=True)
class Wanted:
    """The output, from `-o`, `--json`, `--format` and `--force`."""

    output: Path | None
    as_json: bool = False
    export: str | None = None
    force: bool = False
    shards: bool = False
    """A folder that a cluster writes to."""

    def __post_init__(self) -> None:
        if self.shards and (self.output is None or self.as_json or self.export is not None):
            raise UsageError(
                "--engine ray writes a folder of JSON lines, or of Parquet if its name ends in "
                ".parquet",
                hint="-o FOLDER, without --json and --format",
            )
        if self.as_json and self.export is not None:
            raise UsageError("--json cannot be used with --format")
        if self.kind is None:
            raise UsageError(
                f"{self.output}: cannot be written in this format",
                hint="a folder, or a name that ends in "
                f"{', '.join((*PAGES[:1], *DATA, *PICTURES))}",
            )
        if self.kind == "data" and self.export is not None and self._suffix != self._own_suffix:
            raise UsageError(
                f"{self.output}: --format {self.export} gives a {self._own_suffix} file"
            )
        if self.export in FOLDERS and self.kind != "data set":
            raise UsageError(f"--format {self.export} writes a folder of files", hint="-o FOLDER")

    @property
    def _suffix(self) -> str:
        """The suffix of the output in lower case; empty for a folder."""
        return "" if self.output is None or self.output.is_dir() else self.output.suffix.lower()

    @property
    def _own_suffix(self) -> str:
        return {"hf": ".jsonl", "csv": ".csv", VTT: ".vtt"}.get(str(self.export), ".json")

    @property
    def kind(self) -> str | None:
        """The kind of output; empty for stdout only, None for what cannot be written."""
        if self.shards:
            return "shards"
        if self.export == XMP:
            return "sidecars" if not self._suffix else None
        if self.output is None:
            return ""
        if not self._suffix:
            return "data set" if self.export in FOLDERS else "pictures"
        kinds = {"page": PAGES, "data": DATA, "picture": PICTURES}
        return next((kind for kind, suffixes in kinds.items() if self._suffix in suffixes), None)

    @property
    def folder(self) -> Path | None:
        """The folder of pictures or sidecars; pictures in it are not processed as photos."""
        return self.output if self.kind in ("pictures", "sidecars") else None

    @property
    def is_data(self) -> bool:
        """Whether the output is for programs."""
        return self.as_json or self.kind in ("data", "shards") or self.export not in (None, XMP)

    @property
    def is_of_others(self) -> bool:
        """A format of other programs. They cannot mark what is not shown, so they do not get it."""
        return self.export not in (None, XMP) or self._suffix in OF_OTHERS

    @property
    def holds_json(self) -> bool:
        """Whether a file of our own JSON is written."""
        return self.kind == "data" and self.export is None and self._suffix not in OF_OTHERS

    @property
    def prints(self) -> bool:
        """Whether anything is printed. With `-o`, that is only data (--json, --format) in addition
        to pictures or a page."""
        return self.kind == "" or (self.is_data and self.kind in ("page", "picture", "pictures"))


@contextmanager
def opening(wanted: Wanted, photos: Sequence[str], finished: Container[str] = ()) -> Iterator[Put]:
    """A function that writes each result to all outputs. Files are written atomically.

    Outputs that cannot or must not be written are rejected here, before anything is computed.
    `InputError`: a result cannot be written because of its photo. `finished` photos already have
    their picture or sidecar.
    """
    with _writing(wanted, photos, finished) as write, _printing(wanted) as show:

        def put(photo: Result) -> None:
            write(photo)
            show(photo)

        yield put


def _writing(
    wanted: Wanted, photos: Sequence[str], finished: Container[str]
) -> AbstractContextManager[Put]:
    """Writes results to the output, if there is one."""
    if wanted.kind == "sidecars":
        return nullcontext(_sidecars(wanted, photos, finished))
    if wanted.output is None:
        return nullcontext(lambda _: None)
    if wanted.kind == "data set":
        from regiontalk.lab.data.formats.exports import FOLDERS as WRITERS

        return WRITERS[str(wanted.export)](wanted.output)
    if wanted.kind in ("picture", "pictures"):
        return nullcontext(_pictures(wanted, wanted.output, photos, finished))
    spare([wanted.output], photos, wanted.force)
    return (
        writing_page(wanted.output)
        if wanted.kind == "page"
        else _data(wanted.output, wanted.export)
    )


@contextmanager
def _data(output: Path, export: str | None) -> Iterator[Put]:
    suffix = output.suffix.lower()
    with replacing(output) as partial, partial.open("wb") as file:
        if export is not None or suffix in OF_OTHERS:
            from regiontalk.lab.data.formats.exports import exporting

            with exporting(export or suffix.removeprefix("."), file.write, output.parent) as put:
                yield put
        elif suffix == ".jsonl":
            yield lambda photo: file.write(json_line(photo.to_dict()))
        else:  # one JSON array, one photo per line
            separators = iter([b"[\n"])
            yield lambda photo: file.write(
                next(separators, b",\n") + json_line(photo.to_dict()).rstrip(b"\n")
            )
            file.write(next(separators, b"") + b"\n]\n")


def _pictures(wanted: Wanted, output: Path, photos: Sequence[str], finished: Container[str]) -> Put:
    if wanted.kind == "picture":
        if len(photos) != 1:
            raise UsageError(f"{output}: one picture for {len(photos)} photos", hint="-o FOLDER")
        targets = {photos[0]: output}
    else:
        _check_folder(output)
        names = FreeNames()
        targets = {photo: output / _picture_name(photo, names) for photo in photos}
    there = {photo for photo in photos if photo in finished and targets[photo].is_file()}
    spare([targets[photo] for photo in photos if photo not in there], photos, wanted.force)
    return lambda photo: None if photo.path in there else _save_picture(photo, targets[photo.path])


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: a file, not a folder")


def _picture_name(photo: str, names: FreeNames) -> str:
    """The photo's name, as .jpg if its format cannot be written; x-2.jpg for a second x.jpg."""
    path = Path(photo)
    return (
        names.take(path.stem, path.suffix)
        if path.suffix.lower() in PICTURES
        else names.take(path.name, ".jpg")
    )


def _save_picture(photo: Result, target: Path) -> None:
    try:
        save_picture(photo.draw(), target)
    except DiskFull:
        raise
    except OutputError as error:  # larger than the format allows, a name too long
        raise InputError(f"{photo.path}: its picture cannot be written: {error}") from error


def save_picture(picture: Image.Image, target: Path) -> None:
    """Writes a picture with our mark in it, so that a later run may replace it."""
    longest = LONGEST_SIDES.get(target.suffix.lower())
    if longest is not None and max(picture.size) > longest:
        raise OutputError(
            f"{target}: {target.suffix} allows at most {longest:,} pixels per side",
            hint="PNG allows more",
        )
    exif = Image.Exif()
    exif[ExifTags.Base.Software] = MARK
    with replacing(target) as partial:
        picture.save(partial, exif=exif, quality=92)


def _sidecars(wanted: Wanted, photos: Sequence[str], finished: Container[str]) -> Put:
    """Beside the photos, or in a folder."""
    from regiontalk.lab.data.formats.xmp import sidecar_of

    targets = {photo: sidecar_of(photo) for photo in photos}
    if wanted.output is not None:
        _check_folder(wanted.output)
        targets = {photo: wanted.output / sidecar.name for photo, sidecar in targets.items()}
    written: dict[Path, str] = {}

    def put(photo: AltText) -> None:
        target = targets[photo.path]
        if written.setdefault(target, photo.path) != photo.path:
            raise InputError(
                f"{photo.path}: {target} belongs to {written[target]}",
                hint="without -o each has its own",
            )
        if photo.path not in finished or not target.is_file():
            _save_sidecar(photo, target, wanted.force)

    return put


def _save_sidecar(photo: AltText, target: Path, force: bool) -> None:
    from regiontalk.lab.data.formats import xmp
    from regiontalk.lab.data.formats.fields import reading

    existing = read_file(target) if os.path.lexists(target) else None
    with reading(str(target)):
        size = (photo.width, photo.height)
        orientation = xmp.orientation_of(photo.path)
        content = xmp.Found(photo.text, photo.regions, photo.tags)
        data = xmp.to_xmp(content, size, orientation, existing, force)
    try:
        with replacing(target) as partial:
            partial.write_bytes(data)
    except DiskFull:
        raise
    except OutputError as error:
        raise InputError(error.message) from error


def _printing(wanted: Wanted) -> AbstractContextManager[Put]:
    if not wanted.prints:
        return nullcontext(lambda _: None)
    if wanted.export is not None:
        from regiontalk.lab.data.formats.exports import exporting

        return exporting(wanted.export, console.print_bytes)
    if wanted.as_json:
        return nullcontext(lambda photo: console.print_json(photo.to_dict()))
    return nullcontext(render.print_result if sys.stdout.isatty() else render.print_lines)


def spare(targets: Sequence[Path], photos: Sequence[str], force: bool) -> None:
    """Never overwrites a photo that is read, a pipe or a device; a file that is not ours only with
    `force`."""
    originals = {identity(photo) for photo in photos}
    for target in targets:
        if not os.path.lexists(target):
            continue
        problem = f"{target}: already exists and will not be overwritten"
        if identity(target) in originals or (target.exists() and not target.is_file()):
            raise UsageError(problem, hint="give another place")
        if not force and not _is_ours(target):
            raise UsageError(problem, hint="another name, or --force to replace it")


def _is_ours(target: Path) -> bool:
    """Whether we wrote a file, or it is empty."""
    try:
        if target.suffix.lower() in PICTURES:
            return Photo(target, Limits(megapixels=MOST_MEGAPIXELS)).software == MARK
        with open_file(target) as file:
            head = file.read(4096)
    except Exception:  # not a picture of ours
        return False
    return not head or _OURS.match(head) is not None
