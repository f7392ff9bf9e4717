"""Records: the one on-disk form of a data set.

A data set is a folder with `annotations.jsonl` (or `.jsonl.gz`), one image a line, and `dataset.json`.
Images stay where they are (`image` is a path, relative ones from the folder) or sit in tar shards
(`shard` names the tar, `image` its member).
"""

from __future__ import annotations

import gzip
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.types import BoxXYXY

ANNOTATIONS = ("annotations.jsonl", "annotations.jsonl.gz")
SPLITS = ("train", "dev", "test")
BROKEN_FILE = (OSError, EOFError, zlib.error)  # what reading a (compressed) file raises


@dataclass(frozen=True)
class TrueRegion:
    """A phrase on a box. A plural phrase keeps its single boxes in `boxes_xyxy`; `xyxy` is their union."""

    xyxy: BoxXYXY
    phrase: str
    type: str | None = None
    boxes_xyxy: tuple[BoxXYXY, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"xyxy": list(self.xyxy), "phrase": self.phrase}
        if self.boxes_xyxy:
            out["boxes_xyxy"] = [list(box) for box in self.boxes_xyxy]
        if self.type is not None:
            out["type"] = self.type
        if self.more:
            out |= self.more
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TrueRegion:
        known = {"xyxy", "phrase", "type", "boxes_xyxy"}
        return cls(
            xyxy=_box(data["xyxy"]),
            phrase=_text(data["phrase"], "phrase"),
            type=None if data.get("type") is None else _text(data["type"], "type"),
            boxes_xyxy=tuple(_box(box) for box in data.get("boxes_xyxy", ())),
            more={key: value for key, value in data.items() if key not in known},
        )


@dataclass(frozen=True)
class Record:
    """One image with what people said of it; boxes in pixels of the stored, upright image."""

    image: str
    width: int
    height: int
    split: str = "train"
    shard: str | None = None
    sentences: tuple[str, ...] = ()
    regions: tuple[TrueRegion, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"image": self.image}
        if self.shard is not None:
            out["shard"] = self.shard
        out |= {"width": self.width, "height": self.height, "split": self.split}
        out["sentences"] = list(self.sentences)
        out["regions"] = [region.to_dict() for region in self.regions]
        return out | dict(self.more)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        known = {"image", "shard", "width", "height", "split", "sentences", "regions"}
        return cls(
            image=_text(data["image"], "image"),
            width=int(data["width"]),
            height=int(data["height"]),
            split=str(data.get("split", "train")),
            shard=None if data.get("shard") is None else _text(data["shard"], "shard"),
            sentences=tuple(_text(sentence, "sentence") for sentence in data.get("sentences", ())),
            regions=tuple(TrueRegion.from_dict(region) for region in data.get("regions", ())),
            more={key: value for key, value in data.items() if key not in known},
        )


class Dataset:
    """A prepared data set with random access; a record is parsed when it is asked for.

    The annotations are held as bytes (and shared by forked workers), not as objects: Visual Genome's
    108,077 images take about 0.5 GB.
    """

    def __init__(self, folder: str | Path, split: str | None = None) -> None:
        self.folder = Path(folder)
        self._text = _read_annotations(self.folder)
        starts = _line_starts(self._text)
        if split is not None:
            starts = np.array([s for s in starts if self._parse(int(s)).split == split], dtype=np.int64)
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: int) -> Record:
        return self._parse(int(self._starts[number]))

    def __iter__(self) -> Iterator[Record]:
        for start in self._starts:
            yield self._parse(int(start))

    def read_photo(self, record: Record) -> bytes:
        """The stored bytes of a record's image."""
        if record.shard is None:
            return read_file(self.photo_path(record))
        return self.shards.read(record.shard, record.image)

    def photo_path(self, record: Record) -> Path:
        """Where an image outside shards lies."""
        return self.folder / record.image

    @cached_property
    def shards(self) -> TarShards:
        return TarShards(self.folder)

    def _parse(self, start: int) -> Record:
        end = self._text.find(b"\n", start)
        line = self._text[start:] if end < 0 else self._text[start:end]
        return parse_record(line, lambda: f"{self.folder}, line {self._line_number(start)}")

    def _line_number(self, start: int) -> int:
        return self._text.count(b"\n", 0, start) + 1


class TarShards:
    """Random access to the members of a folder's tar files, each indexed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._members: dict[str, dict[str, tuple[int, int]]] = {}

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
            with tarfile.open(path, "r:") as tar:
                return {member.name: (member.offset_data, member.size) for member in tar if member.isfile()}
        except (OSError, ValueError, tarfile.TarError) as error:
            raise DataError(f"{path}: cannot be read as a tar shard: {error}") from error


def parse_record(line: bytes | str, place: Any) -> Record:
    """One line as a record; `place()` names it in the error."""
    try:
        return Record.from_dict(json.loads(line))
    except KeyError as error:
        raise DataError(f"{place()}: the record has no {error}") from error
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DataError(f"{place()}: not a record: {error}") from error


def annotations_path(folder: Path) -> Path:
    for name in ANNOTATIONS:
        if (folder / name).is_file():
            return folder / name
    raise DataError(
        f"{folder}: no data set here (no {' or '.join(ANNOTATIONS)})",
        hint="regiontalk data prepare FORMAT SOURCE OUT makes one",
    )


def open_annotations(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Line numbers from 1 and the lines of a data set, streaming."""
    path = annotations_path(folder)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except BROKEN_FILE as error:
        raise DataError(f"{path}: {error}") from error


def stream_records(folder: Path) -> Iterator[Record]:
    """The records of a data set one after the other, without holding the file in memory."""
    for number, line in open_annotations(folder):
        yield parse_record(line, partial("{}, line {}".format, folder, number))


def read_file(path: Path) -> bytes:
    with open_file(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise DataError(f"{path}: {error.strerror or error}") from error


def open_file(path: Path) -> BinaryIO:
    """A file to read; a folder, a pipe or a device in its place is refused, not waited for."""
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: a {'folder' if path.is_dir() else 'device'} where a file is due")
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def epoch_order(count: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The order of an epoch's items: a shuffle that depends on seed and epoch alone."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def evenly_spaced(count: int, wanted: int) -> list[int]:
    """`wanted` of the numbers 0 … count − 1 (all, if there are fewer), evenly spaced."""
    return sorted({int(n) for n in np.linspace(0, count - 1, min(count, wanted))})


@dataclass
class RecordIterator:
    """Endless, deterministic passes over a data set: a new shuffle per epoch, a share per rank and worker.

    `state()` and `restore()` go to the exact item, in the middle of an epoch too.
    """

    records: Sequence[Record] | Dataset
    seed: int = 0
    rank: int = 0
    ranks: int = 1
    worker: int = 0
    workers: int = 1
    epoch: int = 0
    position: int = 0

    def __iter__(self) -> Iterator[Record]:
        if not len(self.records):
            raise DataError("the data set is empty")
        if not len(self._share()):  # it would look for its first record for ever
            raise DataError(
                f"{len(self.records)} records are too few for {self.ranks * self.workers} workers",
                hint="take fewer workers",
            )
        while True:
            share = self._share()
            while self.position < len(share):
                number = int(share[self.position])
                self.position += 1
                yield self.records[number]
            self.epoch, self.position = self.epoch + 1, 0

    def _share(self) -> NDArray[np.int64]:
        order = epoch_order(len(self.records), self.seed, self.epoch)
        return order[self.rank * self.workers + self.worker :: self.ranks * self.workers]

    def state(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def restore(self, state: Mapping[str, int]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]


def _read_annotations(folder: Path) -> bytes:
    path = annotations_path(folder)
    data = read_file(path)
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except BROKEN_FILE as error:
        raise DataError(f"{path}: {error}") from error


def _line_starts(text: bytes) -> NDArray[np.int64]:
    """Byte offsets of the lines that are not blank."""
    starts: list[int] = []
    start = 0
    while start < len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        if text[start:end].strip():
            starts.append(start)
        start = end + 1
    return np.array(starts, dtype=np.int64)


def _box(value: Any) -> BoxXYXY:
    x0, y0, x1, y1 = (float(number) for number in value)
    return x0, y0, x1, y1


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is not text: {value!r}")
    return value
