"""Writes data sets: atomically, and the same bytes for the same input."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regiontalk.errors import DataError, UsageError
from regiontalk.io.files import json_file, json_line, new_folder
from regiontalk.lab.data.records import ANNOTATIONS, Record

DESCRIPTION = "dataset.json"
_OWN_FILE = re.compile(rf"{re.escape(DESCRIPTION)}|annotations\.jsonl(\.gz)?|images-\d+\.tar")


@dataclass
class Counts:
    """Counts of what has been written, in total and per split."""

    splits: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        counter = self.splits.setdefault(record.split, Counter())
        counter["images"] += 1
        counter["regions"] += len(record.regions)
        counter["sentences"] += len(record.sentences)

    def __getitem__(self, what: str) -> int:
        return sum(counter[what] for counter in self.splits.values())

    def to_dict(self) -> dict[str, Any]:
        names = ("images", "regions", "sentences")
        splits = {}
        for split in sorted(self.splits):
            splits[split] = {name: self.splits[split][name] for name in names}
        return {name: self[name] for name in names} | {"splits": splits}


def write_dataset(
    out: Path,
    force: bool,
    source: Path | None,
    how: Mapping[str, Any],
    records: Callable[[Path], Iterable[Record]],
    results: Callable[[Counts], Mapping[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """Writes the data set `out`, made from `source`, which is never replaced; returns what is in
    its `dataset.json`.

    That has `how` it was made first, and the `results` last, which get the counts of what was
    written. `records` gets the folder for packed photos.
    """
    out = out.resolve()
    _check_replaceable(out, force, source)
    counts = Counts()
    with new_folder(out, force) as folder:
        with (folder / ANNOTATIONS[0]).open("wb", buffering=1 << 20) as file:
            for record in records(folder):
                file.write(_line(record, out))
                counts.add(record)
        more = results(counts)
        if not counts["images"]:
            raise DataError(f"{source}: an empty data set")
        description = {**how, **counts.to_dict(), **more}
        (folder / DESCRIPTION).write_bytes(json_file(description))
    return description


def _line(record: Record, out: Path) -> bytes:
    """A record's line; `out` may be replaced, so its photo must not be in there."""
    photos = record.shard or record.image
    if photos.startswith(f"{out}{os.sep}"):
        raise UsageError(
            f"{out}: not replaced, because it has {photos}, which the new data set needs"
        )
    try:
        return json_line(record.to_dict())
    except ValueError as error:  # an infinite number in a field that nothing here reads
        raise DataError(f"{record.image}: cannot be written as JSON: {error}") from error


def _check_replaceable(out: Path, force: bool, source: Path | None) -> None:
    """Raises `UsageError` if something would be replaced, except, with `force`, a folder with only
    a data set."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(
            f"{out}: there is a file of this name", hint="give a folder that does not exist yet"
        )
    names = [path.name for path in out.iterdir()]
    if names and not force:
        raise UsageError(f"{out}: the folder is not empty", hint="--force replaces a data set")
    if names and source is not None and source.resolve().is_relative_to(out):
        raise UsageError(f"{out}: the source itself cannot be replaced", hint="give another folder")
    strangers = sorted(name for name in names if not _OWN_FILE.fullmatch(name))
    if strangers:
        raise UsageError(f"{out}: not replaced, because it has other files too: {strangers[0]}")
