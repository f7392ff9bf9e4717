"""A `SearchConfig` fitted on photos with sentences and phrases.

The photos make two indexes, one of every other photo. A photo shows a phrase if all content words
of the phrase stand in what people wrote about the photo; a sentence is about its own photo alone.
How much captions and likelihood count beside the fit of vectors is what ranks right photos highest;
logistic regression then turns the sum into the probability that a photo shows a phrase. Phrases of
one half that have no content word in common with any photo of the other are not there: the cut-off
is where most of those find nothing.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.inference.alignment import HEAD
from regiontalk.inference.calibration import Verdicts, sigmoid
from regiontalk.lab.data.records import Record, evenly_spaced
from regiontalk.lab.evaluation.find import content_words, written_words
from regiontalk.lab.evaluation.reliability import expected_error, reliability
from regiontalk.lab.fitting.regression import logistic_regression, rounded, smoothed
from regiontalk.model import Model
from regiontalk.models.settings import SearchConfig
from regiontalk.search.build import identify
from regiontalk.search.query import SECOND_LOOK, Searcher, read_phrase
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Entry, Where

MOST_PHRASES = 200  # of each kind and half
NOTHING_SHARE = 0.8  # of the phrases that are not there and should find nothing
CAPTION_WEIGHTS = (
    0.0,
    0.125,
    0.25,
    0.375,
    0.5,
    0.75,
    1.0,
)  # that are tried, in stds; the fit has 1
LIKELIHOOD_WEIGHTS = (0.0, 0.5, 1.0, 1.25, 1.5, 2.0, 2.5)
ABOUT_BEST = 0.995
SMALLEST_SLOPE = 1e-3

Item = TypeVar("Item")
Weights = tuple[float, float, float]
"""Of the rows of `Asked.evidence`."""


class Asked(NamedTuple):
    """A phrase or sentence asked of photos, of which the P best were looked at twice."""

    evidence: NDArray[np.float64]
    """(3, P): how well it fits, its share in captions, and how much likelier it is than for a photo
    of nothing"""
    right: Verdicts
    """(P,)"""

    def scores(self, weights: Weights) -> NDArray[np.float64]:
        return np.array(weights) @ self.evidence

    def rank(self, weights: Weights) -> float:
        """Of the best right photo; infinite where none is among the best."""
        scores = self.scores(weights)
        return (
            1.0 + int((scores > scores[self.right].max()).sum()) if self.right.any() else math.inf
        )


class Questions(NamedTuple):
    there: list[Asked]
    """Phrases that some photo shows."""
    elsewhere: list[Asked]
    """Phrases that no photo shows."""
    sentences: list[Asked]


def fit(
    model: Model, photos: Sequence[tuple[Record, Entry]]
) -> tuple[SearchConfig, dict[str, Any]]:
    """What fits photos best, each with its record and what is stored of it; and figures."""
    halves = photos[::2], photos[1::2]
    turns = (halves, halves[::-1]) if len(photos) > 1 else ()
    parts = [_ask(model, own, [record for record, _ in other]) for own, other in turns]
    asked = Questions(
        *([one for part in parts for one in part[kind]] for kind in range(len(Questions._fields)))
    )
    if not asked.elsewhere or not any(one.right.any() for one in asked.there):
        raise DataError(
            "search cannot be fitted: too few phrases in the records", hint="regions with phrases"
        )
    weights = _best_weights(asked)
    slope, bias, _ = _probability(asked, weights)
    config = SearchConfig(*rounded(np.array([*(slope * np.array(weights)), bias])))
    nothing = [_highest(one, config) for one in asked.elsewhere]
    likely = min(math.ceil(1000 * np.quantile(nothing, NOTHING_SHARE)) / 1000, 0.5)
    shown = [one.rank(weights) == 1 and _highest(one, config) >= likely for one in asked.there]
    return replace(config, likely=likely), _report(asked, weights, len(photos)) | {
        "likely": likely,
        "expected_calibration_error": _calibration_error(parts, weights),
        "nothing_found_of_not_there": float(np.mean(np.array(nothing) < likely)),
        "right_first_and_shown": float(np.mean(shown)),
    }


def _best_weights(asked: Questions) -> Weights:
    """Of those with about the highest mean reciprocal rank, phrases and sentences counting the
    same, the weights from which it is seen best whether a photo shows a phrase."""
    kinds = [kind for kind in (asked.there, asked.sentences) if kind]
    stds = np.concatenate([one.evidence for one in (*asked.there, *asked.elsewhere)], axis=1).std(
        axis=1
    )
    fit, captions, likelihood = np.where(stds > 0, stds, np.inf)
    tried = [
        (1.0, float(beside * fit / captions), float(more * fit / likelihood))
        for beside, more in itertools.product(CAPTION_WEIGHTS, LIKELIHOOD_WEIGHTS)
    ]
    ranks = [
        np.mean([np.mean([1 / one.rank(own) for one in kind]) for kind in kinds]) for own in tried
    ]
    good = [own for own, rank in zip(tried, ranks, strict=True) if rank >= ABOUT_BEST * max(ranks)]
    return min(good, key=lambda own: _probability(asked, own).loss)


class Probability(NamedTuple):
    """σ(slope · score + bias) that a photo shows a phrase."""

    slope: float
    bias: float
    loss: float


def _probability(asked: Questions, weights: Weights) -> Probability:
    every = (*asked.there, *asked.elsewhere)
    scores = np.concatenate([one.scores(weights) for one in every])
    right = np.concatenate([one.right for one in every])
    slope, bias = logistic_regression(np.stack([scores, np.ones(len(scores))]), smoothed(right))
    slope = max(slope, SMALLEST_SLOPE)
    logits = np.where(right, 1, -1) * (slope * scores + bias)
    return Probability(slope, bias, float(np.logaddexp(0, -logits).mean()))


def _calibration_error(halves: Sequence[Questions], weights: Weights) -> float:
    """Of the probabilities that photos of each half show phrases, by what the other half says of
    them."""
    likely, right = [], []
    for own, other in zip(halves, halves[::-1], strict=True):
        slope, bias, _ = _probability(other, weights)
        for one in (*own.there, *own.elsewhere):
            likely.append(sigmoid(slope * one.scores(weights) + bias))
            right.append(one.right)
    return expected_error(reliability(np.concatenate(likely), np.concatenate(right)))


def _highest(asked: Asked, config: SearchConfig) -> float:
    logits = (
        np.array([config.fit, config.captions, config.likelihood]) @ asked.evidence + config.bias
    )
    return float(sigmoid(logits).max())


def _report(asked: Questions, weights: Weights, photos: int) -> dict[str, Any]:
    def right_first(kind: Sequence[Asked], own: Weights) -> float | None:
        return float(np.mean([one.rank(own) == 1 for one in kind])) if kind else None

    return {
        "photos": photos,
        "phrases": len(asked.there),
        "phrases_not_there": len(asked.elsewhere),
        "sentences": len(asked.sentences),
        "right_first": right_first(asked.there, weights),
        "right_first_by_fit_alone": right_first(asked.there, (1.0, 0.0, 0.0)),
        "sentences_right_first": right_first(asked.sentences, weights),
        "sentences_right_first_by_fit_alone": right_first(asked.sentences, (1.0, 0.0, 0.0)),
    }


def _phrases(
    model: Model, own: Sequence[Record], other: Sequence[Record]
) -> tuple[list[str], list[str]]:
    """Of the photos themselves, and of other photos with no word that these have; some of each,
    evenly spaced."""
    known = frozenset(model.runtime.head(HEAD).words.words)
    words = frozenset().union(*map(written_words, own))
    present = {phrase for phrase in _all_phrases(own) if content_words(phrase) <= known}
    absent = {phrase for phrase in _all_phrases(other) if content_words(phrase) <= known - words}
    return _some(sorted(present)), _some(sorted(absent))


def _all_phrases(records: Sequence[Record]) -> set[str]:
    every = {region.phrase for record in records for region in record.regions if region.phrase}
    return {phrase for phrase in every if content_words(phrase)}


def _some(every: Sequence[Item]) -> list[Item]:
    return [every[place] for place in evenly_spaced(len(every), MOST_PHRASES)]


def _ask(
    model: Model, photos: Sequence[tuple[Record, Entry]], other: Sequence[Record]
) -> Questions:
    """Exactly as `Index.search` does, with photos chosen by their vectors alone."""
    records = [record for record, _ in photos]
    written = [written_words(record) for record in records]
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), identify(model))
        store.put([entry for _, entry in photos])
        searcher = Searcher(store, model.runtime)

        def ask(text: str, right: Sequence[bool]) -> Asked:
            phrase = read_phrase(model.runtime, text)
            found = searcher.evidence([phrase], [], Where(), SearchConfig(), SECOND_LOOK)
            evidence = np.stack([found.fits[:, 0], found.captions[:, 0], found.likelihoods[:, 0]])
            return Asked(evidence, np.array(right)[found.ids - 1])  # ids count from 1

        there, elsewhere = (
            [
                ask(phrase, [content_words(phrase) <= words for words in written])
                for phrase in phrases
            ]
            for phrases in _phrases(model, records, other)
        )
        described = _some([number for number, record in enumerate(records) if record.sentences])
        every = np.eye(len(records), dtype=bool)
        sentences = [
            ask(records[number].sentences[0], every[number].tolist()) for number in described
        ]
        store.close()
    return Questions(there, elsewhere, sentences)
