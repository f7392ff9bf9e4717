"""Sentences of coded photos and regions, by the code that `describe` runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import DataError
from regiontalk.inference.decoding import Caption
from regiontalk.inference.sentences import SentenceHead, SentenceInputs
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.models.runtime import Floats
from regiontalk.results import Description, ImageRegions, Region

WHOLE_PHOTO = 0  # its row in the codes
TARGETS_AT_ONCE = 128  # that are decoded together


@dataclass(frozen=True)
class CodedTarget:
    """What a sentence is about: a whole photo or a region of it."""

    photo: int
    """The photo's place among the coded photos."""
    row: int


def sentence_inputs(
    coded: CodedPhotos, targets: Sequence[CodedTarget], views: int
) -> SentenceInputs:
    """The inputs for a sentence about each target."""
    photos = np.array([target.photo for target in targets])
    rows = np.array([target.row for target in targets])
    nested = [coded.codes[photos, rows]]
    if views > 1:
        if coded.surroundings is None:
            raise DataError(
                "these codes have no surroundings", hint="regiontalk data codes --surroundings"
            )
        nested += [coded.surroundings[photos, rows], coded.codes[photos, WHOLE_PHOTO]]
    boxes = coded.boxes_xyxy[photos]
    return SentenceInputs(
        np.stack(nested, axis=1).astype(np.float32),
        coded.codes[photos].astype(np.float32),
        geometry.places(boxes, boxes[:, WHOLE_PHOTO, 2:]).astype(np.float32),
    )


@dataclass(frozen=True)
class CodedSentences:
    """A sentence head, and the codes that it reads."""

    head: SentenceHead
    coded: CodedPhotos
    file: str = "codes"
    """The file of the codes, for messages."""

    def __call__(self, targets: Sequence[CodedTarget], beam: int | None = None) -> list[Caption]:
        """The best sentence about each target. `beam`: default as in the head's settings."""
        captions = []
        for start in range(0, len(targets), TARGETS_AT_ONCE):
            some = targets[start : start + TARGETS_AT_ONCE]
            about = [self._codes_of(target) for target in some]
            captions += self.head.best(self._inputs(some), about, beam)
        return captions

    def log_probabilities(
        self, targets: Sequence[CodedTarget], texts: Sequence[Sequence[int]]
    ) -> NDArray[np.float64]:
        """(S,) log p(text | target) of a text for each target, as tokens."""
        if not targets:
            return np.zeros(0)
        return self.head.text_log_probabilities(self._inputs(targets), texts)

    def photos(self, records: Iterable[Record], beam: int | None) -> Iterator[Description]:
        """A sentence for each whole photo."""
        every = list(records)
        photos = self.coded.find(every, self.file).tolist()
        captions = self([CodedTarget(photo, WHOLE_PHOTO) for photo in photos], beam)
        for record, caption in zip(every, captions, strict=True):
            sentence = self.head.words.decode(caption.tokens)
            yield Description(*self._about(record), sentence, caption.logprob)

    def regions(self, records: Iterable[Record], beam: int | None) -> Iterator[ImageRegions]:
        """A sentence for each row of codes but the whole photo's."""
        every = list(records)
        photos = self.coded.find(every, self.file).tolist()
        targets = []
        for photo in photos:
            rows = range(WHOLE_PHOTO + 1, int(self.coded.counts[photo]))
            targets += [CodedTarget(photo, row) for row in rows]
        captions = iter(zip(targets, self(targets, beam), strict=True))
        for record, photo in zip(every, photos, strict=True):
            count = int(self.coded.counts[photo]) - 1
            regions = tuple(self._region(*next(captions)) for _ in range(count))
            yield ImageRegions(*self._about(record), regions)

    def _inputs(self, targets: Sequence[CodedTarget]) -> SentenceInputs:
        return sentence_inputs(self.coded, targets, self.head.views)

    def _codes_of(self, target: CodedTarget) -> Floats:
        """All of a photo's codes, or the region's own (·, D)."""
        count = self.coded.counts[target.photo]
        rows = slice(count) if target.row == WHOLE_PHOTO else slice(target.row, target.row + 1)
        return self.coded.codes[target.photo, rows].astype(np.float32)

    def _about(self, record: Record) -> tuple[str, int, int, str]:
        return record.image, record.width, record.height, self.head.runtime.name

    def _region(self, target: CodedTarget, caption: Caption) -> Region:
        x0, y0, x1, y1 = self.coded.boxes_xyxy[target.photo, target.row].tolist()
        score = float(self.coded.scores[target.photo, target.row])
        text = self.head.words.decode(caption.tokens)
        return Region((x0, y0, x1, y1), score, text, caption.logprob)
