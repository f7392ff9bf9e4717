"""Reading truth and predictions. What is wrong with a line is named with its number and left out.

Truth is a file of records or a data set folder; predictions are JSON lines. Both may be gzipped.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from regiontalk.data.records import Record, annotations_path, parse_record
from regiontalk.errors import DataError
from regiontalk.evaluation.merged_truth import phrases_of
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

    @property
    def hidden(self) -> int:
        return max(0, self.count - self.shown)


class BadLine(Exception):
    """What is wrong with one line or region."""


def read_lines(path: Path, problems: Problems) -> Iterator[tuple[str, bytes]]:
    """The lines that are not empty, each with its place ("FILE, line 3")."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}, line {number}", line
    except (EOFError, zlib.error) as error:
        problems.add(f"{path}, after line {number}", f"the file is cut off or damaged ({error}); the rest is missing")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error


def read_truth(source: Path, split: str | None, problems: Problems) -> Iterator[Record]:
    """The records of a file or data set folder, those of one split if it is given."""
    path = annotations_path(source) if source.is_dir() else source
    splits: Counter[str] = Counter()
    places: dict[str, str] = {}
    for place, line in read_lines(path, problems):
        try:
            record = _checked(parse_record(line, lambda place=place: place), place, problems)
        except DataError as error:
            problems.add(place, error.message.removeprefix(f"{place}: ") + "; skipped")
            continue
        splits[record.split] += 1
        if split is not None and record.split != split:
            continue
        if record.image in places:
            problems.add(place, f"{record.image} stood in {places[record.image]} already; skipped")
            continue
        places[record.image] = place
        yield record
    if not places:
        there = ", ".join(f"{name}: {count}" for name, count in splits.items())
        raise DataError(f"{path}: no record" + (f" of split {split!r} (there are {there})" if there else ""))


def _checked(record: Record, place: str, problems: Problems) -> Record:
    """The record without regions that are none."""
    kept = []
    for number, region in enumerate(record.regions):
        if not all(math.isfinite(value) for value in region.xyxy):
            problems.add(f"{place}, region {number}", f"box {list(region.xyxy)} is not finite; skipped")
            continue
        if not phrases_of(region):
            problems.add(f"{place}, region {number}", "no phrase; any caption is wrong there")
        kept.append(region)
    return replace(record, regions=tuple(kept))


def read_predictions(path: Path, sizes: Mapping[str, Size], problems: Problems) -> Iterator[ImageRegions]:
    """Predicted regions of the images in `sizes` (the truth's), under the truth's names."""
    names = Names(path, sizes, problems)
    other_size = images = 0
    for place, line in read_lines(path, problems):
        try:
            data = parse_object(line)
            name = names.take(text_of(data, "path"), place)
            images += 1
            _check_size(data, sizes[name])
            yield ImageRegions(name, *sizes[name], "", tuple(_regions(data, place, problems)))
        except _OtherSize as error:
            other_size += 1
            problems.add(place, f"{error}; skipped")
            if other_size >= SIZE_MISTAKES and other_size > images / 2:
                break
        except BadLine as error:
            problems.add(place, f"{error}; skipped")
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
    for place, line in read_lines(path, problems):
        try:
            data = parse_object(line)
            sentence = text_of(data, "sentence")
            found[names.take(text_of(data, "path"), place)] = sentence
        except BadLine as error:
            problems.add(place, f"{error}; skipped")
            continue
        if not sentence.strip():
            problems.add(place, "the sentence is empty; it counts as wrong")
    names.report_missing("left out")
    return found


@dataclass
class Names:
    """Finds a predicted path among the truth's: as it is, or without its leading folders; each once."""

    file: Path
    known: Mapping[str, Any]
    problems: Problems
    taken: dict[str, str] = field(default_factory=dict)

    def take(self, path: str, place: str) -> str:
        parts = PurePosixPath(path.replace("\\", "/")).parts
        endings = [path, *("/".join(parts[start:]) for start in range(len(parts)))]
        name = next((ending for ending in endings if ending in self.known), None)
        if name is None:
            raise BadLine(f"{path!r} is not in the truth")
        if name in self.taken:
            raise BadLine(f"{path!r} has a prediction in {self.taken[name]} already")
        self.taken[name] = place
        return name

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


class _OtherSize(BadLine):
    pass


def _check_size(data: Mapping[str, Any], size: Size) -> None:
    """Width and height may be left out; where they are given they must be the truth's."""
    given = (data.get("width", size[0]), data.get("height", size[1]))
    if given != size:
        raise _OtherSize(f"the prediction is for {given[0]}×{given[1]} pixels, the truth for {size[0]}×{size[1]}")


def _regions(data: Mapping[str, Any], place: str, problems: Problems) -> Iterator[Region]:
    regions = data.get("regions")
    if not isinstance(regions, list):
        raise BadLine("no list 'regions'")
    for number, given in enumerate(regions):
        where = f"{place}, region {number}"
        try:
            region = _region(given)
        except BadLine as error:
            problems.add(where, f"{error}; skipped")
            continue
        x0, y0, x1, y1 = region.xyxy
        if x1 < x0 or y1 < y0:
            problems.add(where, f"box {list(region.xyxy)} is inside out; it overlaps nothing")
        if not region.caption.strip():
            problems.add(where, "the caption is empty; it counts as wrong")
        yield region


def _region(given: Any) -> Region:
    if not isinstance(given, dict):
        raise BadLine("not an object")
    if given.get("score") is None:
        raise BadLine("no score")
    score = number_of(given["score"], "score")
    return Region(xyxy=box_of(given.get("xyxy")), score=score, caption=text_of(given, "caption"))


def box_of(given: Any) -> BoxXYXY:
    """Four finite numbers."""
    if not isinstance(given, list) or len(given) != 4:
        raise BadLine(f"'xyxy' is not four numbers: {given!r}")
    x0, y0, x1, y1 = (number_of(value, "a coordinate") for value in given)
    return x0, y0, x1, y1


def number_of(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadLine(f"{name} is not a finite number: {value!r}")
    return float(value)


def parse_object(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise BadLine(f"not JSON ({error})") from error
    if not isinstance(data, dict):
        raise BadLine("not a JSON object")
    return data


def text_of(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise BadLine(f"no text {key!r}" if value is None else f"{key!r} is not text: {value!r}")
    return value
