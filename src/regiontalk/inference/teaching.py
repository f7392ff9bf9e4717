"""What a model was taught: its word book, what recognises the words, and how a word is taught.

A lesson looks at photos and adds the code of one region of each to the word book. Everything else
is computed from the book when it is needed, so a word that is taught or forgotten counts at once,
also in other processes that use the same book.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.errors import InputError, ModelError, RegionTalkError, UsageError
from regiontalk.inference.alignment import ALIGNMENT_HEAD, region_vectors
from regiontalk.inference.calibration import Scores
from regiontalk.inference.codes import with_codes
from regiontalk.inference.regions import Look
from regiontalk.inference.taught import (
    OF_CODES,
    OF_VECTORS,
    SURE,
    WEAK_EXAMPLES,
    WEAK_SHARE,
    TaughtWords,
)
from regiontalk.models.background import Background, read_background
from regiontalk.models.folder import BACKGROUND
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.models.word_book import (
    MAX_EXAMPLES,
    BookFile,
    Example,
    WordBook,
    clean_word,
    own_place,
)
from regiontalk.results import BoxXYXY, Confusion, Lesson, Region, WordReport, path_of

LEAST_LIKELY = 0.1
"""A photo whose best region has a lower score has none to teach with."""
LARGE = 0.5
"""How much the main region of a photo is a large one: the power of its share of the photo."""
NO_BACKGROUND = "regiontalk fit MODEL DATA --only background gives it what it needs"


class _Ready(NamedTuple):
    """What recognises the words of a book."""

    book: WordBook
    by_code: TaughtWords
    by_vector: TaughtWords | None


@dataclass
class Taught:
    """The taught words of a model."""

    runtime: Runtime
    file: BookFile
    _ready: _Ready | None = field(default=None, repr=False)
    _background: Background | None = field(default=None, repr=False)

    @classmethod
    def of(cls, runtime: Runtime, place: Path | None = None) -> Taught:
        """The word book at a place; None: the user's own one for this model."""
        if not runtime.detector:
            raise ModelError(
                f"the model {runtime.info.name!r} cannot be taught words: it is a training run",
                hint="regiontalk export makes a model folder of it",
            )
        own = own_place(runtime.detector) if place is None else place
        return cls(runtime, BookFile(own, runtime.detector, runtime.info.name))

    @property
    def book(self) -> WordBook:
        return self.file.read()

    @property
    def by_code(self) -> TaughtWords | None:
        """Recognises words by region codes; None if there are no words."""
        ready = self._prepare()
        return None if ready is None else ready.by_code

    @property
    def by_vector(self) -> TaughtWords | None:
        """Recognises words by the vectors of the alignment head; None without words or head."""
        ready = self._prepare()
        return None if ready is None else ready.by_vector

    def word_in(self, text: str) -> str | None:
        """The taught word that a phrase asks for, if it asks for one."""
        ready = self._prepare()
        word = None if ready is None else ready.book.spelled(text)
        return word if ready is not None and word in ready.by_code.names else None

    def _prepare(self) -> _Ready | None:
        book, ready = self.book, self._ready
        if ready is not None and ready.book is book:
            return ready
        if not any(one.is_it for one in book.examples):
            return None
        background = self.check()
        by_code = TaughtWords.of(book, book.codes, background.codes, OF_CODES).sharpened()
        by_vector = None
        if background.vectors is not None and ALIGNMENT_HEAD in self.runtime.heads:
            own = region_vectors(self.runtime, book.codes)
            by_vector = TaughtWords.of(book, own, background.vectors, OF_VECTORS).sharpened()
        self._ready = _Ready(book, by_code, by_vector)
        return self._ready

    def check(self) -> Background:
        """What words are compared with; raises `ModelError` if the model has no background, and so
        cannot be taught."""
        if self._background is None:
            name = self.runtime.info.name
            if self.runtime.background is None:
                raise ModelError(f"the model {name!r} cannot be taught words", hint=NO_BACKGROUND)
            place = f"{name}: {BACKGROUND}"
            self._background = read_background(self.runtime.background, place)
        return self._background

    def reports(self) -> list[WordReport]:
        """How well each word is known, weak words first. The examples are checked in the space
        that they have not sharpened: in the other one each has helped to recognise itself."""
        book = self.book
        checks: dict[str, Scores] = {}
        names: tuple[str, ...] = ()
        if any(one.is_it for one in book.examples):
            known = TaughtWords.of(book, book.codes, self.check().codes, OF_CODES)
            names = known.names
            checks = dict(zip(names, known.by_the_others(), strict=True))
        reports = [_report(book, word, checks.get(word), names) for word in book.words]
        return sorted(reports, key=lambda report: not report.weak)


def _report(book: WordBook, word: str, likely: Scores | None, names: Sequence[str]) -> WordReport:
    rows = book.rows_of(word)
    own = [book.examples[row] for row in rows if book.examples[row].is_it]
    others = len(rows) - len(own)
    if likely is None:
        return WordReport(word, 0, others, None, (), True)
    column = list(names).index(word)
    recognised = float((likely[:, column] >= SURE).mean()) if len(own) > 1 else None
    rivals = likely.copy()
    rivals[:, column] = -1.0
    confusions = []
    for example, row, mine in zip(own, rivals, likely[:, column], strict=True):
        rival = int(row.argmax())
        if len(own) > 1 and row[rival] >= SURE and row[rival] > mine:
            confusions.append(Confusion(example.photo, example.xyxy, names[rival]))
    weak = len(own) < WEAK_EXAMPLES or (recognised or 0.0) < WEAK_SHARE
    return WordReport(word, len(own), others, recognised, tuple(confusions), weak)


class Learner(Protocol):
    """What a lesson needs of a `Model`."""

    @property
    def runtime(self) -> Runtime: ...

    @property
    def taught_to(self) -> Taught: ...

    def look(self, source: Any, *, boxes: Any = None) -> Look: ...

    def regions(self, look: Look) -> list[Region]: ...


class ToTeach(NamedTuple):
    """One example to be taught."""

    word: str
    photo: Any
    box_xyxy: Any = None
    """None: the photo's main region."""
    is_it: bool = True


class Change(NamedTuple):
    """What the model said of a region before it learned, and says now."""

    photo: Any
    name: str
    """Of the photo."""
    xyxy: BoxXYXY
    before: str
    after: str
    phrase: str
    """What it was to learn."""


class _Seen(NamedTuple):
    example: Example
    code: Floats
    """(D,)"""


def learn(
    model: Learner, wanted: Sequence[ToTeach], watched: Iterable[ToTeach] | None = None
) -> tuple[list[Lesson], list[str]]:
    """Teaches examples of one or more words: what was learned of each word, and one line for each
    example that could not be used. Fails if none could. `watched`: the same examples, to report
    progress."""
    taught = model.taught_to
    taught.check()
    if not 1 <= len(wanted) <= MAX_EXAMPLES:
        raise UsageError(
            f"{len(wanted)} photos to teach with; it must be 1 to {MAX_EXAMPLES}",
            hint="one photo is enough to start",
        )
    if len({one.word for one in wanted}) == 1:
        clean_word(wanted[0].word)  # before any photo is looked at
    seen = list[_Seen]()
    skipped = list[str]()
    for one in wanted if watched is None else watched:
        try:
            seen.append(_look_at(model, one._replace(word=clean_word(one.word))))
        except RegionTalkError as error:
            if len(wanted) == 1:
                raise
            name = path_of(one.photo)
            is_named = Path(name).name in error.message
            skipped.append(error.message if is_named else f"{name}: {error.message}")
    if not seen:
        raise InputError(f"none of {len(wanted)} photos could be used: {skipped[0]}")
    return remember(taught, seen), skipped


def remember(taught: Taught, seen: Sequence[_Seen]) -> list[Lesson]:
    """Adds examples to the word book."""
    examples = [one.example for one in seen]
    codes = np.stack([one.code for one in seen])
    book = taught.file.change(lambda book: book.with_examples(examples, codes))
    reports = {report.word: report for report in taught.reports()}
    counts = Counter(book.spelling(one.word) for one in examples)
    return [Lesson(word, count, reports[word]) for word, count in counts.items()]


def _look_at(model: Learner, wanted: ToTeach) -> _Seen:
    box, name = wanted.box_xyxy, path_of(wanted.photo)
    look = model.look(wanted.photo, boxes=None if box is None else [box])
    row = 0 if look.given else main_region(model, look, name)
    region = look.regions.take(np.array([row]))
    code = with_codes(model.runtime, look, region).codes[0]
    x0, y0, x1, y1 = (round(side, 2) for side in look.boxes_xyxy[row].tolist())
    photo = os.path.normpath(Path(name).absolute()) if name else _fingerprint(code)
    return _Seen(Example(wanted.word, photo, (x0, y0, x1, y1), wanted.is_it), code)


def _fingerprint(code: Floats) -> str:
    """A name for a photo without one."""
    return f"photo {hashlib.sha256(code.tobytes()).hexdigest()[:12]}"


def main_region(model: Learner, look: Look, name: str) -> int:
    """Which of the detected regions the photo is of: a likely and large one."""
    regions = model.regions(look)
    if not regions or regions[0].score < LEAST_LIKELY:
        raise InputError(
            f"{name or 'the photo'}: no region was found in it", hint="give the box of the thing"
        )
    width, height = look.frame.photo_size
    boxes = np.array([region.xyxy for region in regions])
    shares = geometry.area(boxes) / (width * height)
    scores = np.array([region.score for region in regions])
    best = boxes[int((scores * shares**LARGE).argmax())]
    return int(geometry.iou(best[None], look.boxes_xyxy).argmax())
