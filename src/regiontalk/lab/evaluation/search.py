"""Photos found by sentences (K&FF table 1, image search) and by single words, as `regiontalk
search` answers: through an index."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regiontalk.errors import DataError
from regiontalk.inference.phrases import read_aligned
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.photo_truth import PhotoTruth
from regiontalk.lab.evaluation.ranking import recall_intervals, recalls
from regiontalk.language.object_names import PERSONS, word_forms
from regiontalk.model import Model
from regiontalk.search.build import identify
from regiontalk.search.query import SECOND_LOOK, Searcher, search_config
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Entry, Where

Track = Callable[[Sequence[str]], Iterable[str]]


def evaluate_search(
    model: Model, photos: Sequence[tuple[Record, Entry]], track: Track
) -> dict[str, Any]:
    """`text_to_image`: with captions and likelihood, as the model fuses them. `by_vectors_alone`:
    without. A photo that is not among the best that are looked at twice is not found. `intervals`
    of 95 %, over photos."""
    owners = [number for number, (record, _) in enumerate(photos) for _ in record.sentences]
    sentences = list(chain.from_iterable(record.sentences for record, _ in photos))
    ranks: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), identify(model))
        store.put([entry for _, entry in photos])
        searcher = Searcher(store, model.runtime)
        for owner, sentence in zip(owners, track(sentences), strict=True):
            ranks.append(_ranks(searcher, sentence, owner + 1))  # ids count from 1
        store.close()
    fused, plain = (np.array(kind) for kind in zip(*ranks, strict=True))
    ways = {"text_to_image": fused, "by_vectors_alone": plain}
    figures: dict[str, Any] = {way: recalls(ranks) for way, ranks in ways.items()}
    figures |= {"images": len(photos), "sentences": len(sentences)}
    figures["intervals"] = {way: recall_intervals([ranks], owners) for way, ranks in ways.items()}
    return figures


def _ranks(searcher: Searcher, sentence: str, owner: int) -> tuple[float, float]:
    """Ranks of a sentence's own photo: as it is found, and by vectors alone. A tie counts against
    it."""
    (phrase,) = read_aligned(searcher.runtime, [sentence])
    if not phrase.read.says_something:  # the model knows none of its words
        return math.inf, math.inf
    config = search_config(searcher.runtime)
    evidence = searcher.evidence([phrase], [], Where(), config, SECOND_LOOK)
    likely = evidence.probabilities(config, [phrase])[:, 0]
    return _rank(likely, evidence.ids, owner), _rank(evidence.fits[:, 0], evidence.ids, owner)


def _rank(
    scores: np.ndarray[Any, np.dtype[np.float64]],
    ids: np.ndarray[Any, np.dtype[np.int64]],
    owner: int,
) -> float:
    owner_scores = scores[ids == owner]
    return float((scores >= owner_scores).sum()) if len(owner_scores) else math.inf


def evaluate_words(
    model: Model, photos: Sequence[tuple[Record, Entry]], words: Sequence[str]
) -> dict[str, Any]:
    """Which photos are above the line for single words, against what people wrote and marked
    (`photo_truth`). `recall`: the share of the photos that show a word; `precision`: the share of
    those above the line that do; both of all words together, and without those for people. A photo
    that cannot be judged does not count. Shares are in percent."""
    truth = {entry.file.path: PhotoTruth.of(record) for record, entry in photos}
    each: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), identify(model))
        store.put([entry for _, entry in photos])
        searcher = Searcher(store, model.runtime)
        for word in words:
            hits = searcher.search(word, len(photos), None, Where())
            shown = {hit.path for hit in hits.likely}
            judged = {
                path: photo_truth
                for path, photo_truth in truth.items()
                if photo_truth.can_judge([word])
            }
            right = {path for path, photo_truth in judged.items() if photo_truth.has([word])}
            above = shown & judged.keys()
            each[word] = {
                "photos": len(right),
                "above_the_line": len(above),
                "of_them_right": len(above & right),
            }
        store.close()
    if not any(counts["photos"] for counts in each.values()):
        raise DataError("no photo shows one of the words", hint="records with objects or sentences")
    things = [counts for word, counts in each.items() if PERSONS.isdisjoint(word_forms(word))]
    figures = _shares(list(each.values()))
    if 0 < len(things) < len(each):
        figures |= {f"{name}_without_people": share for name, share in _shares(things).items()}
    return {**figures, "images": len(photos), "words": each}


def _shares(each: Sequence[dict[str, int]]) -> dict[str, float]:
    """Recall and precision of all words together, in percent."""
    photos, above_the_line, of_them_right = (
        sum(counts[name] for counts in each)
        for name in ("photos", "above_the_line", "of_them_right")
    )
    return {
        "recall": 100 * of_them_right / max(photos, 1),
        "precision": 100 * of_them_right / max(above_the_line, 1),
    }
