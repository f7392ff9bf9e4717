"""Regions that people corrected on the page, saved as a data set for `regiontalk train`.

corrections/annotations.jsonl   a record for each corrected photo; those of the folder stay there
corrections/photos/             copies of photos that were dropped on the page
corrections/kept.jsonl          records whose photo was deleted or replaced; it may come back

A correction belongs to the bytes of its photo, whatever the photo is called. If only the metadata
of a photo change, its pixels are compared instead."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from regiontalk.errors import DataError, InputError, UsageError
from regiontalk.images.limits import HEADER_BYTES, Limits, format_of
from regiontalk.images.photo import Photo
from regiontalk.io.files import read_lines, replacing, write_json_lines
from regiontalk.io.typed import to_dataclass
from regiontalk.lab.data.checking import region_problems
from regiontalk.lab.data.records import (
    ANNOTATIONS,
    Record,
    TrueRegion,
    annotations_path,
    parse_record,
    stream_records,
)
from regiontalk.results import BoxXYXY
from regiontalk.search.build import digest_of
from regiontalk.search.index import Index
from regiontalk.search.sqlite import database
from regiontalk.serve.settings import CORRECTIONS

KEPT_FILE = "kept.jsonl"
PREVIEW_SIDE = 64  # pixels of the long side, which are compared
MOST_REGIONS = 1000
LONGEST_CAPTION = 1000


@dataclass(frozen=True)
class Marked:
    xyxy: BoxXYXY
    caption: str


@dataclass(frozen=True)
class Correction:
    """The data that the page sends."""

    regions: tuple[Marked, ...]

    @classmethod
    def of(cls, data: object) -> Correction:
        correction = to_dataclass(cls, data, "regions", UsageError)
        if len(correction.regions) > MOST_REGIONS:
            raise UsageError(f"{len(correction.regions)} regions; the limit is {MOST_REGIONS}")
        if any(len(region.caption) > LONGEST_CAPTION for region in correction.regions):
            raise UsageError(f"a caption of more than {LONGEST_CAPTION} characters")
        return correction


class PhotoFacts(NamedTuple):
    """What a correction says of its photo."""

    image: str
    """The photo's name in the records (`Corrections.name_of`)."""
    digest: str | None
    """The digest of its bytes; None if the photo cannot be read now."""
    size: tuple[int, int]
    pixels: str | None = None
    """The digest of what it shows (`pixels_of`); None if that is not needed."""


def pixels_of(photo: Path | bytes, limits: Limits) -> str:
    """A digest of what a photo shows, whatever its metadata say."""
    return digest_of(Photo(photo, limits).preview(PREVIEW_SIDE).image.tobytes()).hex()


class Corrections:
    """The data set in a folder. Writers wait for each other: threads, and other servers of the same
    folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    @classmethod
    def of(cls, index: Index) -> Corrections:
        return cls(index.place / CORRECTIONS)

    def name_of(self, photo: Path) -> str:
        """A photo as a record names it, so that the folder of photos can be moved."""
        return os.path.relpath(photo, self._folder).replace(os.sep, "/")

    def read(self, photo: PhotoFacts) -> tuple[Record | None, bool]:
        """The record of the photo; if there is none, whether one of an earlier photo of this name
        is kept."""
        with self._lock:
            records = self._every()
        record = next((record for record in records if _is_of(record, photo)), None)
        return record, record is None and any(other.image == photo.image for other in records)

    def save(self, photo: PhotoFacts, correction: Correction) -> Record:
        """Replaces the record of the photo, atomically. The record of an earlier photo of this name
        is kept."""
        image, digest, size, pixels = photo
        regions = tuple(
            TrueRegion(region.xyxy, region.caption.strip()) for region in correction.regions
        )
        new = Record(image, *size, digest=digest, pixels=pixels, regions=regions)
        for number, region in enumerate(regions, start=1):
            for problem in region_problems(region, new):
                raise UsageError(f"region {number}: {problem}")
        with self._writing():
            others = [record for record in self._present() if not _is_of(record, photo)]
            present = [record for record in others if record.image != image]
            self._write([*present, new], [record for record in others if record.image == image])
        return new

    def delete(self, photo: PhotoFacts) -> None:
        """Drops the record of the photo, if there is one."""
        with self._lock:
            if not any(_is_of(record, photo) for record in self._every()):
                return
        with self._writing():
            kept = self._kept()
            present = self._present()
            for name, records in ((KEPT_FILE, kept), (ANNOTATIONS[0], present)):
                others = [record for record in records if not _is_of(record, photo)]
                if len(others) < len(records):
                    self._write_file(name, others)

    def keep(self, photo: bytes) -> str:
        """Saves a copy of a dropped photo; returns its name in the records."""
        kind = format_of(photo[:HEADER_BYTES]) or ""
        path = self._folder / "photos" / f"{hashlib.sha256(photo).hexdigest()[:24]}.{kind.lower()}"
        if not path.exists():
            with replacing(path) as partial:
                partial.write_bytes(photo)
        return self.name_of(path)

    def follow(self, index: Index) -> None:
        """Lets the records name their photos where they are now, by an index that is up to date.

        Records of photos that were deleted or replaced are put aside; they come back with their
        photo.
        """
        if not any((self._folder / name).exists() for name in (*ANNOTATIONS, KEPT_FILE)):
            return
        digests = {self.name_of(path): digest.hex() for path, digest in index.digests().items()}
        names = {digest: name for name, digest in digests.items()}
        with self._writing():
            present = list[Record]()
            gone = list[Record]()
            for record in self._every():
                if self._is_in_place(record, digests):
                    present.append(record)
                elif record.digest in names:
                    present.append(replace(record, image=names[record.digest]))
                elif self._shows_the_same(record, index):
                    present.append(replace(record, digest=digests[record.image]))
                else:
                    gone.append(record)
            if present != self._present():
                self._write(present, gone)

    def _is_in_place(self, record: Record, digests: Mapping[str, str]) -> bool:
        """Whether the image of a record has its name; believed if nothing is known about it."""
        if record.digest is None:
            return True
        if record.image in digests:
            return digests[record.image] == record.digest
        return (self._folder / record.image).exists()

    def _shows_the_same(self, record: Record, index: Index) -> bool:
        """Whether only the metadata of its image have changed."""
        path = self._folder / record.image
        limits = Limits() if index.model is None else index.model.limits
        try:
            return path.exists() and pixels_of(path, limits) == record.pixels
        except InputError:
            return False

    # The files

    def _present(self) -> list[Record]:
        """The records of photos that are there: the data set."""
        try:
            annotations_path(self._folder)
        except DataError:  # none yet
            return []
        return list(stream_records(self._folder))

    def _kept(self) -> list[Record]:
        path = self._folder / KEPT_FILE
        if not path.exists():
            return []
        return [parse_record(line, f"{path}, line {number}") for number, line in read_lines(path)]

    def _every(self) -> list[Record]:
        """All records; of those of the same photo, the one in the data set."""
        present = self._present()
        known = {_key(record) for record in present}
        return present + [record for record in self._kept() if _key(record) not in known]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Lets one thread of one process write at a time."""
        with self._lock, closing(self._take_lock()):
            yield

    def _take_lock(self) -> sqlite3.Connection:
        with database.explaining(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            return database.take_lock(self._folder, database.MAX_WAIT)

    def _write(self, present: list[Record], gone: list[Record]) -> None:
        """What goes is kept before it leaves the data set, so that no end of the program loses
        it. Nothing is ever dropped from what is kept."""
        if gone:
            kept = {_key(record): record for record in [*self._kept(), *gone]}
            self._write_file(KEPT_FILE, kept.values())
        self._write_file(ANNOTATIONS[0], present)

    def _write_file(self, name: str, records: Iterable[Record]) -> None:
        write_json_lines(self._folder / name, (record.to_dict() for record in records))


def _key(record: Record) -> str:
    """What a record is about: bytes, or in a record of an older version a name."""
    return record.digest or record.image


def _is_of(record: Record, photo: PhotoFacts) -> bool:
    if record.digest is not None and photo.digest is not None:
        shows_the_same = photo.pixels is not None and record.pixels == photo.pixels
        return record.digest == photo.digest or (shows_the_same and record.image == photo.image)
    return (record.image, record.width, record.height) == (photo.image, *photo.size)
