"""Reading truth and predictions. What is wrong with a line is named with its number and left out.

Truth is a file of records or a data set folder; predictions are JSON lines. Both may be gzipped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Generic, TypeVar

from regiontalk.errors import DataError
from regiontalk.io.files import parse_object, read_object_lines
from regiontalk.io.typed import WithMore, to_dataclass
from regiontalk.lab.data.records import Record, annotations_path, parse_record
from regiontalk.results import BoxXYXY, ImageRegions, Region

Size = tuple[int, int]
LARGEST_PIXEL = 1e9  # of a box; far beyond it areas overflow
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
class PredictedImage(WithMore):
    """A line of predictions. Width and height may be missing; where they are given they must be the
    truth's."""

    path: str
    regions: tuple[Any, ...]
    width: int | None = None
    height: int | None = None
    model: str = ""


@dataclass(frozen=True)
class PredictedRegion(WithMore):
    xyxy: BoxXYXY
    score: float
    caption: str
    confidence: float | None = None


@dataclass(frozen=True)
class PredictedSentence(WithMore):
    path: str
    sentence: str
    model: str = ""


Line = TypeVar("Line", PredictedImage, PredictedSentence)


def read_objects(path: Path, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, each with its place ("FILE, line 3")."""
    for number, line in read_object_lines(path):
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
    for number, line in read_object_lines(path):
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
        for region, true in enumerate(record.regions):
            if not true.references:
                problems.add(f"{place}, region {region}", "no phrase; any caption is wrong there")
        yield record
    if not places:
        there = ", ".join(f"{name}: {count}" for name, count in splits.items())
        raise DataError(
            f"{path}: no record" + (f" of split {split!r} (there are {there})" if there else "")
        )


def read_predictions(
    path: Path, sizes: Mapping[str, Size], problems: Problems
) -> Iterator[ImageRegions]:
    """Predicted regions of the images in `sizes` (the truth's), under the truth's names."""
    lines = Predictions(path, PredictedImage, sizes, problems)
    other_size = images = 0
    for place, name, line in lines:
        images += 1
        width, height = sizes[name]
        given = (line.width or width, line.height or height)
        if given == (width, height):
            yield ImageRegions(
                name, width, height, line.model, tuple(_regions(line, place, problems))
            )
            continue
        other_size += 1
        problems.add(
            place, f"for {given[0]}×{given[1]} pixels, the truth is for {width}×{height}; skipped"
        )
        if other_size >= SIZE_MISTAKES and other_size > images / 2:
            break
    if other_size > images / 2:
        raise DataError(
            f"{path}: the boxes are for images of another size than the truth's",
            hint="they look resized: scale boxes (and width and height) to the truth's pixels",
        )
    lines.report_missing("counted as nothing found")


def read_sentences(path: Path, known: Collection[str], problems: Problems) -> dict[str, str]:
    """Descriptions (`path`, `sentence`) of the images in `known`."""
    lines = Predictions(path, PredictedSentence, known, problems)
    sentences = {}
    for place, name, line in lines:
        sentences[name] = line.sentence
        if not line.sentence.strip():
            problems.add(place, "the sentence is empty; it counts as wrong")
    lines.report_missing("left out")
    return sentences


@dataclass
class Predictions(Generic[Line]):
    """The lines of a file for the images in `known`, each with its place and that image's name; one
    for an image."""

    file: Path
    kind: type[Line]
    known: Collection[str]
    problems: Problems
    taken: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, str, Line]]:
        names = Names(self.known)
        for place, data in read_objects(self.file, self.problems):
            try:
                line = to_dataclass(self.kind, data, place)
            except DataError as error:
                self.problems.skip(error)
                continue
            name = names.find(line.path, place)
            if name is None:
                self.problems.add(place, f"{line.path!r} is not in the truth; skipped")
            elif name in self.taken:
                self._refuse(name, line.path, place)
            else:
                self.taken[name] = (line.path, place)
                yield place, name, line

    def _refuse(self, name: str, path: str, place: str) -> None:
        earlier, where = self.taken[name]
        if earlier != path:
            raise DataError(
                f"{place}: {path!r} and {earlier!r} ({where}) may both be {name!r}", hint=UNIQUE
            )
        self.problems.add(place, f"{path!r} has a prediction in {where} already; skipped")

    def report_missing(self, consequence: str) -> None:
        missing = [name for name in self.known if name not in self.taken]
        if len(missing) == len(self.known):
            raise DataError(
                f"{self.file}: no line is for an image of the truth",
                hint=f"'path' must be the truth's 'image', such as {missing[0]!r}"
                if missing
                else None,
            )
        if missing:
            some = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
            text = f"no prediction for {len(missing)} of {len(self.known)} images of the truth"
            self.problems.add(str(self.file), f"{text} ({some}); {consequence}")


UNIQUE = "give more of the path, so that it names one image"


class Names:
    """Finds the image that a path means among those of the truth.

    The same path comes first; then one that has only more leading folders, or fewer. Where one of
    both is absolute, so that photos may have been moved, the file name is enough; of several, the
    one with most folders in common.
    """

    def __init__(self, known: Collection[str]) -> None:
        self.known = known

    def find(self, path: str, place: str) -> str | None:
        if path in self.known:
            return path
        parts = _parts(path)
        fitting: dict[tuple[bool, int], list[str]] = defaultdict(list)
        for name in self._by_file.get(parts[-1], ()) if parts else ():
            pairs = list(zip(reversed(parts), reversed(_parts(name)), strict=False))
            shared = next(
                (count for count, (ours, theirs) in enumerate(pairs) if ours != theirs), len(pairs)
            )
            if shared == len(pairs) or _is_absolute(path) or _is_absolute(name):
                fitting[shared == len(pairs), shared].append(name)
        if not fitting:
            return None
        best = fitting[max(fitting)]
        if len(best) > 1:
            raise DataError(f"{place}: {path!r} may be {best[0]!r} or {best[1]!r}", hint=UNIQUE)
        return best[0]

    @cached_property
    def _by_file(self) -> dict[str, list[str]]:
        names = defaultdict(list)
        for name in self.known:
            names[_parts(name)[-1]].append(name)
        return names


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.replace("\\", "/")).parts


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or PureWindowsPath(path).is_absolute()


def _regions(image: PredictedImage, place: str, problems: Problems) -> Iterator[Region]:
    for number, given in enumerate(image.regions):
        where = f"{place}, region {number}"
        try:
            region = to_dataclass(PredictedRegion, given, where)
        except DataError as error:
            problems.skip(error)
            continue
        x0, y0, x1, y1 = region.xyxy
        if max(map(abs, region.xyxy)) > LARGEST_PIXEL:
            problems.add(where, f"box {list(region.xyxy)} lies outside of any photo; skipped")
            continue
        if x1 < x0 or y1 < y0:
            problems.add(where, f"box {list(region.xyxy)} is inside out; it overlaps nothing")
        if not region.caption.strip():
            problems.add(where, "the caption is empty; it counts as wrong")
        yield Region(region.xyxy, region.score, region.caption, confidence=region.confidence)
