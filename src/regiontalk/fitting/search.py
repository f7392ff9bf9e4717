"""A `SearchConfig` fitted on photos with sentences and phrases: logistic regression on whether a photo shows a phrase.

The photos make two indexes, one of every other photo. A photo shows a phrase if all content words of the phrase stand
in what people wrote about the photo. Phrases of one half that have no content word in common with any photo of the
other are not there: the cut-off is where most of those find nothing.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.aligner import HEAD
from regiontalk.calibration import Verdicts, sigmoid
from regiontalk.data.records import Record, evenly_spaced
from regiontalk.errors import DataError
from regiontalk.evaluation.find import content_words, written_words
from regiontalk.fitting.regression import logistic_regression, rounded, smoothed
from regiontalk.model import Model
from regiontalk.model_folder import SearchConfig
from regiontalk.search.build import identify
from regiontalk.search.query import Searcher, read_phrase
from regiontalk.search.sqlite_store import SqliteStore
from regiontalk.search.store import Entry, Where

MOST_PHRASES = 400  # of each kind and half
NOTHING_SHARE = 0.8  # of the phrases that are not there and should find nothing

Columns = NDArray[np.float64]


class Asked(NamedTuple):
    """A phrase asked of P photos."""

    columns: Columns
    """(3, P): how well it fits, its share in captions, and 1"""
    right: Verdicts
    """(P,)"""


def fit(model: Model, photos: Sequence[tuple[Record, Entry]]) -> tuple[SearchConfig, dict[str, Any]]:
    """What fits photos best, each with its record and what is stored of it; and figures."""
    halves = photos[::2], photos[1::2]
    there, elsewhere = [], []
    for own, other in (halves, halves[::-1]) if len(photos) > 1 else ():
        present, absent = _phrases(model, [record for record, _ in own], [record for record, _ in other])
        asked = _ask(model, own, [*present, *absent])
        there += asked[: len(present)]
        elsewhere += asked[len(present) :]
    if not there or not elsewhere or not any(one.right.any() for one in there):
        raise DataError("search cannot be fitted: too few phrases in the records", hint="regions with phrases")
    every = np.concatenate([one.columns for one in (*there, *elsewhere)], axis=1)
    right = np.concatenate([one.right for one in (*there, *elsewhere)])
    slope, captions, bias = rounded(logistic_regression(every, smoothed(right)))
    weights = np.array([max(slope, 0.0), max(captions, 0.0), bias])
    nothing = [sigmoid(weights @ one.columns).max() for one in elsewhere]
    likely = min(math.ceil(1000 * np.quantile(nothing, NOTHING_SHARE)) / 1000, 0.5)
    found = [(sigmoid(weights @ one.columns).max(), one.right[(weights @ one.columns).argmax()]) for one in there]
    best_right = [score for score, is_right in found if is_right]
    report = {
        "photos": len(photos),
        "phrases": len(there),
        "phrases_not_there": len(elsewhere),
        "likely": likely,
        "nothing_found_of_not_there": float(np.mean(np.array(nothing) < likely)),
        "right_first": len(best_right) / len(there),
        "right_first_and_shown": float(np.sum(np.array(best_right) >= likely)) / len(there),
    }
    return SearchConfig(float(weights[0]), float(weights[1]), float(weights[2]), likely), report


def _phrases(model: Model, own: Sequence[Record], other: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Of the photos themselves, and of other photos with no word that these have; some of each, evenly spaced."""
    known = frozenset(model.runtime.head(HEAD).words.words)
    words = frozenset().union(*map(written_words, own))
    present = {phrase for phrase in _all_phrases(own) if content_words(phrase) <= known}
    absent = {phrase for phrase in _all_phrases(other) if content_words(phrase) <= known - words}
    return _some(present), _some(absent)


def _all_phrases(records: Sequence[Record]) -> set[str]:
    every = {region.phrase for record in records for region in record.regions if region.phrase}
    return {phrase for phrase in every if content_words(phrase)}


def _some(phrases: set[str]) -> list[str]:
    ranked = sorted(phrases)
    return [ranked[place] for place in evenly_spaced(len(ranked), MOST_PHRASES)]


def _ask(model: Model, photos: Sequence[tuple[Record, Entry]], phrases: Sequence[str]) -> list[Asked]:
    """By the very path of `Index.search`."""
    written = [written_words(record) for record, _ in photos]
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), identify(model))
        store.put([entry for _, entry in photos])
        searcher, found = Searcher(store, model.runtime), []
        for phrase in phrases:
            _, fits, shares = searcher.evidence([read_phrase(model.runtime, phrase)], Where())
            right = np.array([content_words(phrase) <= words for words in written])
            found.append(Asked(np.stack([fits[:, 0], shares[:, 0], np.ones(len(right))]), right))
        store.close()
    return found
