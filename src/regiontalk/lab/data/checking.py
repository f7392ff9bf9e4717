"""Checks a data set: lists every broken record with its line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regiontalk.errors import DataError, InputError
from regiontalk.images.photo import Photo
from regiontalk.io.files import read_lines
from regiontalk.lab.data.records import (
    SPLITS,
    Record,
    TarShards,
    TrueRegion,
    annotations_path,
    parse_record,
)
from regiontalk.results import BoxXYXY

# Pixels that a box may exceed the border: coordinates of resized photos are rounded.
MAX_OVERHANG = 0.5

Line = tuple[int, bytes]


@dataclass(frozen=True)
class Problem:
    """A problem in one line; `image` is None if the line cannot be read at all."""

    line: int
    image: str | None
    problem: str

    def __str__(self) -> str:
        named = self.image is None or self.image in self.problem
        return f"line {self.line}: " + (self.problem if named else f"{self.image}: {self.problem}")


@dataclass
class Checker:
    """Checks the records of a data set. `quick`: photos must exist, but are not opened."""

    folder: Path
    quick: bool = False
    records: int = 0
    _lines: dict[tuple[str | None, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shards = TarShards(self.folder)

    def problems(
        self, track: Callable[[Iterable[Line]], Iterable[Line]] = iter
    ) -> Iterator[Problem]:
        for number, line in track(read_lines(annotations_path(self.folder))):
            self.records += 1
            try:
                record = parse_record(line, "")
            except DataError as error:
                yield Problem(number, None, error.message.removeprefix(": "))
                continue
            for problem in self._problems_of(record, number):
                yield Problem(number, record.image, problem)
        if not self.records:
            raise DataError(f"{self.folder}: an empty data set")

    def _problems_of(self, record: Record, number: int) -> Iterator[str]:
        first = self._lines.setdefault((record.shard, record.image), number)
        if first != number:
            yield f"the same image as in line {first}"
        if record.split not in SPLITS:
            yield f"split is {record.split!r}, not one of {', '.join(SPLITS)}"
        if not all(sentence.strip() for sentence in (*record.sentences, *record.entity_sentences)):
            yield "an empty sentence"
        if min(record.width, record.height) < 1:
            yield f"an image of {record.width}×{record.height} pixels"
        else:
            for count, region in enumerate(record.regions, start=1):
                yield from (
                    f"region {count}: {problem}" for problem in region_problems(region, record)
                )
        yield from self._photo_problems(record)

    def _photo_problems(self, record: Record) -> Iterator[str]:
        try:
            stored = self._shards.photo(record)
            if self.quick and (isinstance(stored, bytes) or stored.is_file()):
                return
            width, height = Photo(stored).size
        except InputError as error:
            yield error.message
            return
        if (width, height) != (record.width, record.height):
            yield (
                f"the photo has {width}×{height} pixels, "
                f"the record says {record.width}×{record.height}"
            )


def region_problems(region: TrueRegion, record: Record) -> Iterator[str]:
    if not all(phrase.strip() for phrase in (region.phrase, *region.phrases)):
        yield "an empty phrase"
    if region.phrases and region.phrase != region.phrases[0]:
        yield "phrase is not the first of phrases"
    if not all(0 <= number < len(record.entity_sentences) for number in region.sentences):
        count = len(record.entity_sentences)
        yield f"sentences {list(region.sentences)} of {count} entity_sentences"
    for box in dict.fromkeys((region.xyxy, *region.boxes_xyxy)):
        problem = box_problem(box, record.width, record.height)
        if problem is not None:
            yield f"{problem}: {list(box)} in {record.width}×{record.height}"


def box_problem(box: BoxXYXY, width: int, height: int) -> str | None:
    x0, y0, x1, y1 = box
    if x0 >= x1 or y0 >= y1:
        return "a box without area"
    if min(x0, y0) < -MAX_OVERHANG or x1 > width + MAX_OVERHANG or y1 > height + MAX_OVERHANG:
        return "a box outside the image"
    return None
