"""Reading truth and predictions. What is wrong with a line is named with its number and left out.

Truth is a file of records or a data set folder; predictions are JSON lines. Both may be gzipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from regiontalk.data.records import Record, annotations_path, parse_record
from regiontalk.errors import DataError
from regiontalk.files import REST, parse_object, read_lines, to_dataclass
from regiontalk.types import BoxXYXY, ImageRegions, Region

Size = tuple[int, int]
SIZE_MISTAKES = 10  # images of another size after which the file is taken to be of another size


@dataclass
class Problems:
    """What was wrong with the input; `tell` hears of the first ones, `count` of all."""

    tell: Callable[[str], None] = lambda _: None
    shown: int = 20
    count: int = 0

    def add(self, place: str, text: str) -> None:
        self.count += 1
        if self.count <= self.shown:
            self.tell(f"{place}: {text}")

    def skip(self, error: DataError) -> None:
        """Notes a line or region that is left out."""
        place, _, text = error.message.partition(": ")
        self.add(place, f"{text}; skipped")

    @property
    def hidden(self) -> int:
        return max(0, self.count - self.shown)


@dataclass(frozen=True)
class PredictedImage:
    """A line of predictions. Width and height may be missing; where they are given they must be the truth's."""

    path: str
    regions: tuple[Any, ...]
    width: int | None = None
    height: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict, metadata=REST)


@dataclass(frozen=True)
class PredictedRegion:
    xyxy: BoxXYXY
    score: float
    caption: str
    more: Mapping[str, Any] = field(default_factory=dict, metadata=REST)


@dataclass(frozen=True)
class PredictedSentence:
    path: str
    sentence: str
    more: Mapping[str, Any] = field(default_factory=dict, metadata=REST)


def read_objects(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, each with its place ("FILE, line 3")."""
    for number, line in read_lines(path):
        place = f"{path}, line {number}"
        try:
            yield place, parse_object(line, place)
        except DataError as error:
            problems.skip(error)


def read_truth(source: Path, split: str | None, problems: Problems) -> Iterator[Record]:
    """The records of a file or data set folder, those of one split if it is given."""
    path = annotations_path(source) if source.is_dir() else source
    splits: Counter[str] = Counter()
    places: dict[str, str] = {}
    for number, line in read_lines(path):
        place = f"{path}, line {number}"
        try:
            record = parse_record(line, place)
        except DataError as error:
            problems.skip(error)
            continue
        splits[record.split] += 1
        if split is not None and record.split != split:
            continue
        if record.image in places:
            problems.add(place, f"{record.image} is in {places[record.image]} already; skipped")
            continue
        places[record.image] = place
        _report_empty_phrases(record, place, problems)
        yield record
    if not places:
        there = ", ".join(f"{name}: {count}" for name, count in splits.items())
        raise DataError(f"{path}: no record" + (f" of split {split!r} (there are {there})" if there else ""))


def _report_empty_phrases(record: Record, place: str, problems: Problems) -> None:
    for number, region in enumerate(record.regions):
        if not region.references:
            problems.add(f"{place}, region {number}", "no phrase; any caption is wrong there")


def read_predictions(path: Path, sizes: Mapping[str, Size], problems: Problems) -> Iterator[ImageRegions]:
    """Predicted regions of the images in `sizes` (the truth's), under the truth's names."""
    names = Names(path, sizes, problems)
    other_size = images = 0
    for place, data in read_objects(path, problems):
        try:
            line = to_dataclass(PredictedImage, data, place)
            name = names.take(line.path, place)
        except DataError as error:
            problems.skip(error)
            continue
        images += 1
        width, height = sizes[name]
        given = (line.width or width, line.height or height)
        if given == (width, height):
            yield ImageRegions(name, width, height, "", tuple(_regions(line, place, problems)))
            continue
        other_size += 1
        problems.add(place, f"for {given[0]}×{given[1]} pixels, the truth is for {width}×{height}; skipped")
        if other_size >= SIZE_MISTAKES and other_size > images / 2:
            break
    if other_size > images / 2:
        raise DataError(
            f"{path}: the boxes are for images of another size than the truth's",
            hint="they look resized: scale boxes (and width and height) to the truth's pixels",
        )
    names.report_missing("counted as nothing found")


def read_sentences(path: Path, known: Mapping[str, Any], problems: Problems) -> dict[str, str]:
    """Descriptions (`path`, `sentence`) of the images in `known`."""
    names = Names(path, known, problems)
    found = {}
    for place, data in read_objects(path, problems):
        try:
            line = to_dataclass(PredictedSentence, data, place)
            found[names.take(line.path, place)] = line.sentence
        except DataError as error:
            problems.skip(error)
            continue
        if not line.sentence.strip():
            problems.add(place, "the sentence is empty; it counts as wrong")
    names.report_missing("left out")
    return found


@dataclass
class Names:
    """Finds a predicted path among the truth's, where one may have more leading folders than the other; each once."""

    file: Path
    known: Mapping[str, Any]
    problems: Problems
    taken: dict[str, str] = field(default_factory=dict)

    def take(self, path: str, place: str) -> str:
        name = path if path in self.known else self._nearest(path, place)
        if name in self.taken:
            raise DataError(f"{place}: {path!r} has a prediction in {self.taken[name]} already")
        self.taken[name] = place
        return name

    def _nearest(self, path: str, place: str) -> str:
        """The truth's name that has the most folders in common, counted from the end."""
        parts = _parts(path)
        shared: dict[int, list[str]] = {}
        for name in self._by_file.get(parts[-1], ()) if parts else ():
            pairs = list(zip(reversed(parts), reversed(_parts(name)), strict=False))
            if all(ours == theirs for ours, theirs in pairs):
                shared.setdefault(len(pairs), []).append(name)
        if not shared:
            raise DataError(f"{place}: {path!r} is not in the truth")
        best = shared[max(shared)]
        if len(best) > 1:
            raise DataError(f"{place}: {path!r} may be {best[0]!r} or {best[1]!r}")
        return best[0]

    @cached_property
    def _by_file(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for name in self.known:
            names.setdefault(_parts(name)[-1], []).append(name)
        return names

    def report_missing(self, consequence: str) -> None:
        missing = [name for name in self.known if name not in self.taken]
        if len(missing) == len(self.known):
            raise DataError(
                f"{self.file}: no line is for an image of the truth",
                hint=f"'path' must be the truth's 'image', such as {missing[0]!r}" if missing else None,
            )
        if missing:
            some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
            text = f"no prediction for {len(missing)} of {len(self.known)} images of the truth"
            self.problems.add(str(self.file), f"{text} ({some}); {consequence}")


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.replace("\\", "/")).parts


def _regions(image: PredictedImage, place: str, problems: Problems) -> Iterator[Region]:
    for number, given in enumerate(image.regions):
        where = f"{place}, region {number}"
        try:
            region = to_dataclass(PredictedRegion, given, where)
        except DataError as error:
            problems.skip(error)
            continue
        x0, y0, x1, y1 = region.xyxy
        if x1 < x0 or y1 < y0:
            problems.add(where, f"box {list(region.xyxy)} is inside out; it overlaps nothing")
        if not region.caption.strip():
            problems.add(where, "the caption is empty; it counts as wrong")
        yield Region(region.xyxy, region.score, region.caption)
