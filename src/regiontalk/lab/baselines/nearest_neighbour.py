"""K&FF's nearest-neighbour baseline: a photo gets the first sentence of the training photo nearest
to it, by the L2 distance of the whole photos' codes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record

PHOTOS_AT_ONCE = 256  # photos
WHOLE_PHOTO = 0  # row of a photo's codes


def nearest(queries: NDArray[np.float32], known: NDArray[np.float32]) -> NDArray[np.intp]:
    """The row of `known` (P, D) at the smallest L2 distance from each of `queries` (Q, D); the
    first of equals."""
    lengths = (known * known).sum(axis=1)
    parts = [
        queries[start : start + PHOTOS_AT_ONCE] for start in range(0, len(queries), PHOTOS_AT_ONCE)
    ]
    # |q − k|² = |q|² − 2 q·k + |k|², and |q|² is the same for every k
    return np.concatenate([(lengths - 2 * part @ known.T).argmin(axis=1) for part in parts])


def transferred_sentences(
    records: Sequence[Record], training: Sequence[Record], coded: CodedPhotos
) -> list[str]:
    """A training sentence for each record."""
    described = [record for record in training if record.sentences]
    if not described:
        raise DataError("no training photo has a sentence")
    queries, known = (
        coded.codes[coded.find(photos, "codes"), WHOLE_PHOTO].astype(np.float32)
        for photos in (records, described)
    )
    return [described[int(number)].sentences[0] for number in nearest(queries, known)]
