"""Records: the format of data sets on disk.

A data set is a folder with `annotations.jsonl` (or `.jsonl.gz`), one image per line, and
`dataset.json`. Images stay where they are (`image` is a path, relative to the folder) or are in tar
shards (`shard` is the tar file, `image` its member).
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.io.files import LONGEST_LINE, open_file, parse_json, read_file, read_lines
from regiontalk.io.typed import WithMore, to_dataclass
from regiontalk.results import BoxXYXY

ANNOTATIONS = ("annotations.jsonl", "annotations.jsonl.gz")
SPLITS = ("train", "dev", "test")
MOST_REGIONS = 10_000  # of one photo


@dataclass(frozen=True)
class TrueRegion(WithMore):
    """A phrase on a box, in pixels of the record's image."""

    xyxy: BoxXYXY
    phrase: str
    type: str | None = None
    """The type of the phrase; recipes choose by it. `object`: a class name. `phrase`: a
    description. `referring`: an expression for one of several similar objects. Flickr30k Entities
    has `people`, `clothing`, `vehicles/scene` etc."""
    boxes_xyxy: tuple[BoxXYXY, ...] = ()
    """The single boxes of a plural phrase; `xyxy` is then their union."""
    entity: str | None = None
    """Regions of one image with the same entity are about the same object."""
    sentences: tuple[int, ...] = ()
    """The numbers of the record's `entity_sentences` that have the phrase, from 0."""
    phrases: tuple[str, ...] = ()
    """All phrases of a merged region (`data merge`); `phrase` is then the first."""
    score: float | None = None
    """The probability that people would mark this place, for a region that a model found; None if
    people drew it."""
    confidence: float | None = None
    """The probability that the phrase is right, for such a region."""
    coarse: str | None = None
    """The everyday word of a name ("dog" of "schipperke")."""

    @property
    def references(self) -> tuple[str, ...]:
        """The phrases that a caption is compared with, without empty ones."""
        return tuple(phrase for phrase in self.phrases or (self.phrase,) if phrase.strip())

    def to_dict(self) -> dict[str, Any]:
        required = {"xyxy": list(self.xyxy), "phrase": self.phrase}
        names = (
            "boxes_xyxy",
            "type",
            "entity",
            "sentences",
            "phrases",
            "score",
            "confidence",
            "coarse",
        )
        return {**required, **_present(self, names), **self.more}


@dataclass(frozen=True)
class Record(WithMore):
    """One image with its sentences and regions; boxes in pixels of the stored, upright image."""

    image: str
    width: int
    height: int
    split: str = "train"
    shard: str | None = None
    sentences: tuple[str, ...] = ()
    """About the whole image."""
    regions: tuple[TrueRegion, ...] = ()
    id: str | None = None
    """The id of the image in its source (for example COCO's number); data sets are joined by it."""
    entity_sentences: tuple[str, ...] = ()
    """The sentences that regions' phrases come from: those of `sentences`, possibly in another
    order."""
    original_width: int | None = None
    """Width and height of the image before it was reduced by packing."""
    original_height: int | None = None
    digest: str | None = None
    """The digest of the image's bytes (`search.build.digest_of`, in hex): a correction belongs to
    them, whatever the photo is called."""
    pixels: str | None = None
    """The digest of what the image shows (`serve.corrections.pixels_of`), which is the same when
    only its metadata change."""

    def to_dict(self) -> dict[str, Any]:
        names = (
            "image",
            "shard",
            "id",
            "digest",
            "pixels",
            "width",
            "height",
            "original_width",
            "original_height",
            "split",
        )
        return {
            **_present(self, names),
            "sentences": list(self.sentences),
            **_present(self, ("entity_sentences",)),
            "regions": [region.to_dict() for region in self.regions],
            **self.more,
        }


def _present(value: TrueRegion | Record, names: Iterable[str]) -> dict[str, Any]:
    """The fields that are not empty, as in JSON."""
    fields = {name: getattr(value, name) for name in names}
    return {
        name: _plain(field) for name, field in fields.items() if field is not None and field != ()
    }


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


class Dataset:
    """A prepared data set with random access; a record is parsed when it is read.

    The annotations are held as bytes (and shared by forked workers), not as objects: Visual
    Genome's 108,077 images take about 0.5 GB.
    """

    def __init__(self, folder: str | Path, split: str | None = None) -> None:
        self.folder = Path(folder)
        self._path = annotations_path(self.folder)
        self._shards = TarShards(self.folder)
        text = bytearray()
        numbers = []
        starts = []
        for number, line in read_lines(self._path):
            if split is None or self._parse(line, number).split == split:
                numbers.append(number)
                starts.append(len(text))
                text += line
        self._text = bytes(text)
        self._starts = np.array([*starts, len(text)], dtype=np.int64)
        self._numbers = np.array(numbers, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> Record:
        place = range(len(self))[index]
        line = self._text[self._starts[place] : self._starts[place + 1]]
        return self._parse(line, int(self._numbers[place]))

    def __iter__(self) -> Iterator[Record]:
        return map(self.__getitem__, range(len(self)))

    def read_photo(self, record: Record) -> bytes:
        """The stored bytes of a record's image."""
        stored = self._shards.photo(record)
        return stored if isinstance(stored, bytes) else read_file(stored)

    def _parse(self, line: bytes, number: int) -> Record:
        return parse_record(line, f"{self._path}, line {number}")


def open_split(folder: Path, split: str | None) -> Dataset:
    """The photos of one split, or all; raises `DataError` if there are none."""
    dataset = Dataset(folder, split)
    if not len(dataset):
        where = f"no image in split {split}" if split else "no image"
        raise DataError(
            f"{folder}: {where}", hint="regiontalk data stats counts the images of each split"
        )
    return dataset


class TarShards:
    """Random access to the members of a data set's tar files, each indexed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._members: dict[str, dict[str, tuple[int, int]]] = {}

    def photo(self, record: Record) -> Path | bytes:
        """The argument of `images.photo.open_photo`: the image's path, or its bytes from a
        shard."""
        return (
            self.folder / record.image
            if record.shard is None
            else self.read(record.shard, record.image)
        )

    def read(self, shard: str, member: str) -> bytes:
        places = self._members.get(shard)
        if places is None:
            places = self._members[shard] = self._index(shard)
        if member not in places:
            raise DataError(f"{self.folder / shard}: no member {member!r}")
        offset, size = places[member]
        with open_file(self.folder / shard) as file:
            file.seek(offset)
            data = file.read(size)
        if len(data) < size:
            raise DataError(f"{self.folder / shard}: cut off in the middle of {member!r}")
        return data

    def _index(self, shard: str) -> dict[str, tuple[int, int]]:
        path = self.folder / shard
        try:
            with (
                open_file(path) as file,
                tarfile.open(fileobj=cast(Any, _Headers(file)), mode="r:") as tar,
            ):
                return {
                    member.name: (member.offset_data, member.size)
                    for member in tar
                    if member.isfile()
                }
        except (OSError, ValueError, tarfile.TarError) as error:
            raise DataError(f"{path}: cannot be read as a tar shard: {error}") from error


class _Headers:
    """The headers of a tar file. A header that claims gigabytes would be read into memory."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek = file.seek
        self.tell = file.tell
        self._read = file.read

    def read(self, size: int) -> bytes:
        if size > LONGEST_LINE:
            raise tarfile.ReadError("a header that is too long")
        return self._read(size)


def parse_record(line: bytes, place: str) -> Record:
    """One line as a record; `place` names it in the error."""
    return checked(to_dataclass(Record, parse_json(line, place), place), place)


def checked(record: Record, place: str) -> Record:
    """The record; raises `DataError` if it has too many regions."""
    if len(record.regions) > MOST_REGIONS:
        raise DataError(
            f"{place}: {len(record.regions)} regions, and at most {MOST_REGIONS} can be used"
        )
    return record


def join_paths(folder: Path, *parts: str) -> str:
    """An absolute path; as text, because a data set has a hundred thousand of them."""
    return os.path.normpath(os.path.join(folder.absolute(), *parts))  # noqa: PTH118


def annotations_path(folder: Path) -> Path:
    for name in ANNOTATIONS:
        if (folder / name).is_file():
            return folder / name
    raise DataError(
        f"{folder}: no data set here (no {' or '.join(ANNOTATIONS)})",
        hint="regiontalk data prepare FORMAT SOURCE OUT makes one",
    )


def stream_records(folder: Path) -> Iterator[Record]:
    """The records of a data set one after the other, without holding the file in memory."""
    path = annotations_path(folder)
    for number, line in read_lines(path):
        yield parse_record(line, f"{path}, line {number}")


@lru_cache(maxsize=32)  # the last epochs of every data set: each step asks for them
def epoch_order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of an epoch's items: a shuffle that depends only on seed and epoch."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def evenly_spaced(count: int, wanted: int) -> list[int]:
    """`wanted` of the numbers 0 … count − 1 (all, if there are fewer), evenly spaced."""
    return sorted({int(n) for n in np.linspace(0, count - 1, min(count, wanted))})
