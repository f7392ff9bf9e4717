"""Holds out photos by a fixed rule on their names, so that everybody gets the same test photos."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from regiontalk.errors import DataError
from regiontalk.lab.data.merging import in_place
from regiontalk.lab.data.records import Record, stream_records
from regiontalk.lab.data.writing import write_dataset


def photo_id(record: Record) -> str:
    """A photo's name without folders and extension: it does not depend on where the photo is
    stored."""
    return PurePosixPath(record.image).stem


def held_out(
    records: Iterable[Record], count: int, excluded: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The split of the photos that are held out: the first `count` are test, the next `count` dev.

    The order is that of the SHA-256 of their ids. Only photos with sentences are held out, and none
    of `excluded`.
    """
    ids = {
        photo_id(record) for record in records if record.sentences and record.split == "train"
    } - excluded
    order = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    if len(order) <= 2 * count:
        raise DataError(
            f"{len(order)} photos with sentences are too few to hold out {count} for test and "
            f"{count} for dev"
        )
    return dict.fromkeys(order[:count], "test") | dict.fromkeys(order[count : 2 * count], "dev")


def split_dataset(
    folder: Path,
    out: Path,
    count: int,
    over: Path | None = None,
    exclude: Sequence[Path] = (),
    keep_paths: bool = False,
    force: bool = False,
    track: Callable[[Iterable[Record]], Iterable[Record]] = iter,
) -> dict[str, Any]:
    """Writes the data set `out`: `folder` with `count` photos each for test and dev; returns its
    description.

    `over`: the data set that the held-out photos are chosen from, where `folder` is a part of it.
    """
    records = chain.from_iterable(stream_records(other) for other in exclude)
    excluded = frozenset(photo_id(record) for record in records)
    splits = held_out(stream_records(over or folder), count, excluded)

    def assigned(_: Path) -> Iterator[Record]:
        for record in track(stream_records(folder)):
            named = record if keep_paths else in_place(record, folder)
            yield replace(named, split=splits.get(photo_id(record), record.split))

    return write_dataset(
        out, force, folder, {"source": "split", "settings": {"hold_out": count}}, assigned
    )
