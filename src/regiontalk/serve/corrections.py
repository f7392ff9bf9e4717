"""Regions that people corrected on the page, saved as a data set for `regiontalk train`.

corrections/annotations.jsonl   a record for each corrected photo; photos of the folder are not copied
corrections/photos/             copies of photos that were dropped on the page
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from regiontalk.errors import DataError, UsageError
from regiontalk.images.limits import HEADER_BYTES, format_of
from regiontalk.io.files import json_line, replacing
from regiontalk.io.typed import to_dataclass
from regiontalk.lab.data.checking import region_problems
from regiontalk.lab.data.records import (
    ANNOTATIONS,
    Record,
    TrueRegion,
    annotations_path,
    stream_records,
)
from regiontalk.results import BoxXYXY
from regiontalk.search.sqlite import database

NAME = "corrections"
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


class Corrections:
    """The data set in a folder. Writers wait for each other: threads, and other servers of the same
    folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()

    def place_of(self, photo: Path) -> str:
        """A photo as a record names it, so that the folder of photos can be moved."""
        return os.path.relpath(photo, self._folder).replace(os.sep, "/")

    def read(self, image: str) -> Record | None:
        with self._lock:
            return self._records().get(image)

    def save(self, image: str, size: tuple[int, int], correction: Correction) -> Record:
        """Replaces the record of the photo, atomically."""
        regions = tuple(
            TrueRegion(region.xyxy, region.caption.strip()) for region in correction.regions
        )
        record = Record(image, *size, regions=regions)
        for number, region in enumerate(regions, start=1):
            for problem in region_problems(region, record):
                raise UsageError(f"region {number}: {problem}")
        with self._lock, closing(self._take_lock()):
            self._write({**self._records(), image: record})
        return record

    def delete(self, image: str) -> None:
        """Drops the record of the photo, if there is one."""
        with self._lock:
            if image not in self._records():
                return
            with closing(self._take_lock()):
                records = self._records()
                records.pop(image, None)
                self._write(records)

    def _write(self, records: Mapping[str, Record]) -> None:
        with replacing(self._folder / ANNOTATIONS[0]) as partial:
            partial.write_bytes(b"".join(json_line(one.to_dict()) for one in records.values()))

    def keep(self, photo: bytes) -> str:
        """Saves a copy of a dropped photo; returns its name in the records."""
        kind = format_of(photo[:HEADER_BYTES]) or ""
        path = self._folder / "photos" / f"{hashlib.sha256(photo).hexdigest()[:24]}.{kind.lower()}"
        if not path.exists():
            with replacing(path) as partial:
                partial.write_bytes(photo)
        return self.place_of(path)

    def _take_lock(self) -> sqlite3.Connection:
        with database.explaining(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            return database.take_lock(self._folder, database.WAIT)

    def _records(self) -> dict[str, Record]:
        try:
            annotations_path(self._folder)
        except DataError:  # none yet
            return {}
        return {record.image: record for record in stream_records(self._folder)}
