"""One data set from several about the same photos, for example COCO's objects with RefCOCO's
expressions.

Photos, sizes and splits are those of the first data set; the others add their regions. Photos are
matched by `id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regiontalk.errors import DataError
from regiontalk.lab.data.merging import in_place
from regiontalk.lab.data.packing import packing
from regiontalk.lab.data.records import Dataset, Record, TarShards, TrueRegion, stream_records
from regiontalk.lab.data.region_boxes import Unusable, clamp_region, scale_region
from regiontalk.lab.data.writing import Counts, write_dataset


@dataclass
class Addition:
    """A data set whose regions are added."""

    folder: Path
    matched: int = 0
    dropped: int = 0
    """Regions that have no area inside the first data set's photo."""

    def __post_init__(self) -> None:
        self._records = Dataset(self.folder)
        self._places: dict[str, list[int]] = {}  # Visual Genome has a few photos twice
        for index, record in enumerate(self._records):
            self._places.setdefault(_id_of(record, self.folder), []).append(index)

    def find(self, identity: str) -> list[Record]:
        places = self._places.get(identity, [])
        self.matched += len(places)
        return [self._records[index] for index in places]

    def to_dict(self) -> dict[str, int]:
        return {
            "photos": len(self._records),
            "joined_photos": self.matched,
            "dropped_regions": self.dropped,
        }


def join_datasets(
    first: Path,
    others: Sequence[Path],
    out: Path,
    pack: int | None = None,
    force: bool = False,
    track: Callable[[Iterable[Record]], Iterable[Record]] = iter,
) -> dict[str, Any]:
    """Writes the joined data set `out`; returns what is in its `dataset.json`. `pack`: see
    `Packer`."""
    additions = [Addition(other) for other in others]

    def joined(folder: Path) -> Iterator[Record]:
        with packing(folder, pack, TarShards(first)) as packed:
            for record in track(stream_records(first)):
                yield packed(in_place(join_record(record, _id_of(record, first), additions), first))

    def counted(_: Counts) -> dict[str, Any]:
        return {"joined": {str(addition.folder): addition.to_dict() for addition in additions}}

    how = {"source": "join", "settings": {"first": first.name, "pack": pack}}
    return write_dataset(out, force, first, how, joined, counted)


def _renumbered(region: TrueRegion, before: int) -> TrueRegion:
    """The region of a record whose sentences follow `before` others."""
    return replace(region, sentences=tuple(before + number for number in region.sentences))


def join_record(record: Record, identity: str, additions: Iterable[Addition]) -> Record:
    """The record with the regions of its photo in other data sets, and their sentences if it has
    none."""
    for addition in additions:
        for other in addition.find(identity):
            before = len(record.entity_sentences)
            added = [_renumbered(region, before) for region in _fitted(other, record, addition)]
            record = replace(
                record,
                sentences=record.sentences or other.sentences,
                entity_sentences=record.entity_sentences + other.entity_sentences,
                regions=(*record.regions, *added),
            )
    return record


def _fitted(other: Record, record: Record, addition: Addition) -> Iterable[TrueRegion]:
    """The regions of `other` in pixels of the record's photo, which may have another size."""
    x, y = record.width / other.width, record.height / other.height
    for region in other.regions:
        try:
            yield clamp_region(
                region if x == y == 1 else scale_region(region, x, y), record.width, record.height
            )
        except Unusable:
            addition.dropped += 1


def _id_of(record: Record, folder: Path) -> str:
    if record.id is None:
        raise DataError(
            f"{folder}: {record.image} has no id to join it by", hint="prepare the data set again"
        )
    return record.id
