"""K&FF's ranking baseline for regions: a region gets the piece of a training sentence that fits it
best.

The pieces are the segments into which the alignment net cuts training sentences; how well one fits
a region is the sum over its words (eq. 8 with a single region).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.alignment import AlignedPhotos
from regiontalk.lab.training.heads.snippets import Snippets
from regiontalk.results import ImageRegions, Region


@dataclass(frozen=True)
class Pieces:
    """Different pieces of training sentences, and the sum of their words' vectors (N, h)."""

    texts: tuple[str, ...]
    vectors: NDArray[np.float32]

    def best(self, regions: NDArray[np.float32]) -> list[str]:
        """The piece that fits each region, (R, h), best."""
        return [self.texts[int(number)] for number in (regions @ self.vectors.T).argmax(axis=1)]


def training_pieces(finder: Snippets, records: Iterable[Record]) -> Pieces:
    """Every different piece; where one occurs several times, the mean of its vectors."""
    sums: dict[str, NDArray[np.float32]] = {}
    counts: dict[str, int] = {}
    for text, vector in _pieces(finder, records):
        sums[text] = sums[text] + vector if text in sums else vector
        counts[text] = counts.get(text, 0) + 1
    if not sums:
        raise DataError("no training photo has a sentence")
    return Pieces(tuple(sums), np.stack([total / counts[text] for text, total in sums.items()]))


def _pieces(
    finder: Snippets, records: Iterable[Record]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for record in records:
        if not record.sentences:
            continue
        regions = finder.photos.regions(record)
        for sentence in record.sentences:
            for piece in finder.segments(sentence, regions):
                if piece.words:
                    yield " ".join(piece.words), piece.vectors.sum(axis=0)


def caption_truths(
    pieces: Pieces, truths: AlignedPhotos, records: Iterable[Record]
) -> Iterator[ImageRegions]:
    """The records' true boxes, each with the piece that fits it best."""
    for record in records:
        boxes = truths.regions(record)
        texts = pieces.best(np.asarray(boxes.vectors)[1:])
        regions = [
            Region((x0, y0, x1, y1), 1.0, text)
            for (x0, y0, x1, y1), text in zip(boxes.boxes_xyxy[1:].tolist(), texts, strict=True)
        ]
        yield ImageRegions(
            record.image, record.width, record.height, "region-ranking", tuple(regions)
        )
