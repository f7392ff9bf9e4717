"""Photos found by sentences (K&FF table 1, image search), as `regiontalk search` answers: through
an index."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regiontalk.errors import UsageError
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.ranking import recalls
from regiontalk.model import Model
from regiontalk.search.build import identify
from regiontalk.search.query import SECOND_LOOK, Searcher, read_phrase, search_config
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Entry, Where

Track = Callable[[Sequence[str]], Iterable[str]]


def evaluate_search(
    model: Model, photos: Sequence[tuple[Record, Entry]], track: Track
) -> dict[str, Any]:
    """`text_to_image`: with captions and likelihood, as the model fuses them. `by_vectors_alone`:
    without. A photo that is not among the best that are looked at twice is not found."""
    owners = [number for number, (record, _) in enumerate(photos) for _ in record.sentences]
    sentences = [sentence for record, _ in photos for sentence in record.sentences]
    ranks: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), identify(model))
        store.put([entry for _, entry in photos])
        searcher = Searcher(store, model.runtime)
        for owner, sentence in zip(owners, track(sentences), strict=True):
            ranks.append(_ranks(searcher, sentence, owner + 1))  # ids count from 1
        store.close()
    fused, plain = (np.array(kind) for kind in zip(*ranks, strict=True))
    figures = {"text_to_image": recalls(fused), "by_vectors_alone": recalls(plain)}
    return figures | {"images": len(photos), "sentences": len(sentences)}


def _ranks(searcher: Searcher, sentence: str, owner: int) -> tuple[float, float]:
    """Of a sentence's own photo: as it is found, and by vectors alone. A tie counts against it."""
    try:
        phrase = read_phrase(searcher.runtime, sentence)
    except UsageError:  # the model knows none of its words
        return math.inf, math.inf
    config = search_config(searcher.runtime)
    found = searcher.evidence([phrase], [], Where(), config, SECOND_LOOK)
    return _rank(found.probabilities(config)[:, 0], found.ids, owner), _rank(
        found.fits[:, 0], found.ids, owner
    )


def _rank(
    scores: np.ndarray[Any, np.dtype[np.float64]],
    ids: np.ndarray[Any, np.dtype[np.int64]],
    owner: int,
) -> float:
    own = scores[ids == owner]
    return float((scores >= own).sum()) if len(own) else math.inf
