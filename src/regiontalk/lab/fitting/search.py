"""A `SearchConfig` fitted on photos with sentences, phrases and names of objects.

The photos make two indexes, query of every other photo. Each is searched for single words, phrases
and sentences. A photo shows a word if people wrote it about the photo, in the singular or plural,
or wrote another name of its class, or marked an object of its class; a sentence is about its own
photo alone. Photos of which people marked only objects are judged for classes of objects only.

The weights of query word are a logistic regression on single words. Those of long phrases are the
ones with which sentences find their own photos (a conditional logit), and a logistic regression
turns their sum into a probability. The line is as low as it can be while three in four of the
photos above it are right for single words: for names of objects if people marked objects, because
they marked them all, but did not write of all that a photo shows."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.inference.alignment import ALIGNMENT_HEAD
from regiontalk.inference.calibration import Verdicts, sigmoid
from regiontalk.inference.phrases import Phrase, read_aligned
from regiontalk.lab.data.records import Record, evenly_spaced
from regiontalk.lab.evaluation.find import content_words
from regiontalk.lab.evaluation.photo_truth import PhotoTruth
from regiontalk.lab.evaluation.reliability import expected_error, reliability
from regiontalk.lab.fitting.regression import (
    conditional_logit,
    logistic_regression,
    padded,
    rounded,
    smoothed,
)
from regiontalk.model import Model
from regiontalk.models.settings import MAX_RARITY, SearchConfig, SearchWeights
from regiontalk.search.build import identify
from regiontalk.search.query import Searcher, rarity
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Entry, Where

MAX_WORDS = 60  # single ones that people wrote, of each half
MAX_PHRASES = 40
MAX_SENTENCES = 80
MIN_PRECISION = 0.75  # of the photos above the line, for single words
TRIED_LINES = np.round(np.arange(0.05, 0.5, 0.005), 3)  # probabilities that are tried
HIGHEST_LINE = 0.5
SMALLEST_SLOPE = 1e-3

Item = TypeVar("Item")
Floats = NDArray[np.float64]


class JudgedQuery(NamedTuple):
    """A query asked of the photos of an index that can be judged."""

    evidence: Floats
    """(3, P): how well it fits, the confidence of captions, and how much likelier it is than for a
    photo of nothing"""
    right: Verdicts
    """(P,)"""
    words: int
    """Content words."""
    rarity: float
    is_sentence: bool = False
    is_name: bool = False
    """Whether it is the name of a class of objects, asked of photos whose objects are marked."""

    def logits(self, config: SearchConfig) -> Floats:
        """(P,)"""
        fits, captions, likelihoods = self.evidence
        return config.logits(fits, captions, likelihoods, self.words, self.rarity)

    def rank(self, config: SearchConfig) -> float:
        """The rank of the best right photo; infinite where none is among the best."""
        scores = self.logits(config)
        if not self.right.any():
            return math.inf
        return 1.0 + int((scores > scores[self.right].max()).sum())


def fit(
    model: Model, photos: Sequence[tuple[Record, Entry]]
) -> tuple[SearchConfig, dict[str, Any]]:
    """What fits photos best, each with its record and what is stored of it; and figures."""
    halves = [half for half in (photos[::2], photos[1::2]) if half]
    parts = [_ask(model, half) for half in halves]
    every = list(itertools.chain(*parts))
    config = fit_queries(every)
    return config, _report(every, config, len(photos)) | _cross_fitted(parts)


def fit_queries(every: Sequence[JudgedQuery]) -> SearchConfig:
    """The weights and the line for queries and their truth."""
    single = [query for query in every if query.words == 1 and not query.is_sentence]
    sentences = [query for query in every if query.is_sentence and query.right.any()]
    if not any(query.right.any() for query in single) or all(query.right.all() for query in single):
        raise DataError(
            "search cannot be fitted: too few words in the records", hint="regions with phrases"
        )
    fits, captions, likelihoods, rare, bias = _weights_of_one_word(single)
    one_word = SearchWeights(fits, captions, likelihoods, bias)
    config = SearchConfig(fits, captions, likelihoods, bias, rarity=rare, one_word=one_word)
    if sentences:
        config = _with_long_phrases(config, sentences)
    return _with_line(config, [query for query in single if query.is_name] or single)


def _weights_of_one_word(single: Sequence[JudgedQuery]) -> tuple[float, ...]:
    """Weights of fit, captions, likelihood and rarity, and the bias; none of the first four is
    negative."""
    columns = np.concatenate([_columns(query) for query in single], axis=1)
    wanted = smoothed(np.concatenate([query.right for query in single]))
    used = list(range(len(columns)))
    while True:  # a weight that would be negative is left out
        weights = logistic_regression(columns[used], wanted)
        negative = [
            index for index, weight in zip(used, weights, strict=True) if weight < 0 and index < 4
        ]
        if not negative:
            break
        used = [index for index in used if index not in negative]
    every = np.zeros(len(columns))
    every[used] = weights
    return rounded(every)


def _columns(query: JudgedQuery) -> Floats:
    """(5, P)"""
    constant = np.ones((1, query.evidence.shape[1]))
    return np.concatenate([query.evidence, -min(query.rarity, MAX_RARITY) * constant, constant])


def _with_long_phrases(config: SearchConfig, sentences: Sequence[JudgedQuery]) -> SearchConfig:
    """The weights with which sentences find their own photos."""
    pairs = [(query.evidence.T, query.right) for query in sentences]
    weights = np.maximum(conditional_logit(*padded(pairs)), 0.0)
    scores = np.concatenate([weights @ query.evidence for query in sentences])
    right = np.concatenate([query.right for query in sentences])
    columns = np.stack([scores, np.ones(len(scores))])
    slope, bias = logistic_regression(columns, smoothed(right))
    fits, captions, likelihoods = rounded(max(slope, SMALLEST_SLOPE) * weights)
    # all sentences are about equally rare: of the highest rarity
    (bias,) = rounded(np.array([bias + config.rarity * MAX_RARITY]))
    return SearchConfig(
        fits, captions, likelihoods, bias, rarity=config.rarity, one_word=config.one_word
    )


def _with_line(config: SearchConfig, single: Sequence[JudgedQuery]) -> SearchConfig:
    likely = np.concatenate([sigmoid(query.logits(config)) for query in single])
    right = np.concatenate([query.right for query in single])
    good = [
        line for line in TRIED_LINES if precision(*counts(likely >= line, right)) >= MIN_PRECISION
    ]
    line = float(good[0]) if good else HIGHEST_LINE
    return SearchConfig(
        config.fit,
        config.captions,
        config.likelihood,
        config.bias,
        line,
        config.rarity,
        config.one_word,
    )


def counts(shown: Verdicts, right: Verdicts) -> tuple[int, int, int]:
    """Photos that are rightly shown, wrongly shown, and wrongly not shown."""
    return int((shown & right).sum()), int((shown & ~right).sum()), int((~shown & right).sum())


def precision(rightly: int, wrongly: int, missed: int) -> float:  # noqa: ARG001  (of `counts`)
    """The share of the shown photos that are right."""
    return rightly / max(rightly + wrongly, 1)


def _report(every: Sequence[JudgedQuery], config: SearchConfig, photos: int) -> dict[str, Any]:
    alone = SearchConfig()
    report: dict[str, Any] = {"photos": photos, "likely": config.likely}
    for name, kind in _kinds(every).items():
        there = [query for query in kind if query.right.any()]
        report[name] = {
            "queries": len(kind),
            "right_first": _share([query.rank(config) == 1 for query in there]),
            "right_first_by_fit_alone": _share([query.rank(alone) == 1 for query in there]),
        }
    return report


def _cross_fitted(parts: Sequence[Sequence[JudgedQuery]]) -> dict[str, Any]:
    """Figures of each half by what the other half says of it."""
    if len(parts) < 2 or not all(any(query.right.any() for query in part) for part in parts):
        return {}
    pairs: list[tuple[JudgedQuery, SearchConfig]] = []
    for half, other in (parts, parts[::-1]):
        fitted = fit_queries(other)
        pairs += [(query, fitted) for query in half]
    figures: dict[str, Any] = {}
    for name in _kinds([query for query, _ in pairs]):
        of_kind = [(query, config) for query, config in pairs if _kind(query) == name]
        likely = np.concatenate([sigmoid(query.logits(config)) for query, config in of_kind])
        right = np.concatenate([query.right for query, _ in of_kind])
        shown = np.concatenate(
            [sigmoid(query.logits(config)) >= config.likely for query, config in of_kind]
        )
        rightly, wrongly, missed = counts(shown, right)
        absent = [
            float(sigmoid(query.logits(config)).max()) < config.likely
            for query, config in of_kind
            if not query.right.any()
        ]
        figures[name] = {
            "expected_calibration_error": expected_error(reliability(likely, right)),
            "precision": precision(rightly, wrongly, missed),
            "recall": rightly / max(rightly + missed, 1),
            "nothing_found_of_not_there": _share(absent),
        }
    return {"cross_fitted": figures}


def _kind(query: JudgedQuery) -> str:
    if query.is_sentence:
        return "sentences"
    if query.is_name:
        return "names"
    return "words" if query.words == 1 else "phrases"


def _kinds(every: Sequence[JudgedQuery]) -> dict[str, list[JudgedQuery]]:
    """The queries that there are, by kind."""
    kinds: dict[str, list[JudgedQuery]] = {}
    for query in every:
        kinds.setdefault(_kind(query), []).append(query)
    return kinds


def _share(verdicts: Sequence[bool]) -> float | None:
    return float(np.mean(verdicts)) if verdicts else None


def _some(every: Sequence[Item], count: int) -> list[Item]:
    return [every[index] for index in evenly_spaced(len(every), min(count, len(every)))]


def _queries(model: Model, records: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Single words and phrases that people wrote."""
    known = model.runtime.head(ALIGNMENT_HEAD).words.words
    described = list(chain.from_iterable(record.regions for record in records))
    every = [region.phrase for region in described if region.type != "object"]
    texts = [*every, *chain.from_iterable(record.sentences for record in records)]
    written = frozenset[str]().union(*map(content_words, texts))
    words = [word for word in known if word in written]  # the most frequent ones first
    phrases = sorted({phrase for phrase in every if len(content_words(phrase)) > 1})
    return _some(words, MAX_WORDS), _some(phrases, MAX_PHRASES)


def _names(truth: Sequence[PhotoTruth]) -> list[str]:
    """The names of marked objects, in one word; and "people"."""
    every_name = chain.from_iterable(photo.objects for photo in truth)
    names = {name for name in every_name if " " not in name}
    return sorted(names | {"people"}) if names else []


def _ask(model: Model, photos: Sequence[tuple[Record, Entry]]) -> list[JudgedQuery]:
    """Exactly as `Index.search` does, with photos chosen by their vectors alone."""
    records = [record for record, _ in photos]
    truth = [PhotoTruth.of(record) for record in records]
    words, phrases = _queries(model, records)
    described = [number for number, record in enumerate(records) if record.sentences]
    queries: list[JudgedQuery | None] = []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), identify(model))
        store.put([entry for _, entry in photos])
        asking = _Asking(Searcher(store, model.runtime), truth)
        queries += [asking.ask_name(name) for name in _names(truth)]
        queries += [asking.ask(text) for text in (*words, *phrases)]
        for number in _some(described, MAX_SENTENCES):
            queries.append(asking.ask_sentence(records[number].sentences[0], number))
        store.close()
    return [query for query in queries if query is not None and len(query.right)]


class _Asking(NamedTuple):
    """Searches an index of photos, numbered from 1, of which the truth is known."""

    searcher: Searcher
    truth: Sequence[PhotoTruth]

    def ask(self, text: str) -> JudgedQuery | None:
        """Asks about the photos that can be judged."""
        evidence = self._search(text)
        if evidence is None:
            return None
        words = evidence.phrase.read.content
        judged = np.array([self.truth[number].can_judge(words) for number in evidence.numbers])
        right = np.array([self.truth[number].has(words) for number in evidence.numbers])
        return evidence.judge(judged, right)

    def ask_name(self, name: str) -> JudgedQuery | None:
        """Asks about the photos whose objects are marked."""
        evidence = self._search(name)
        if evidence is None:
            return None
        judged = np.array([bool(self.truth[number].objects) for number in evidence.numbers])
        right = np.array([self.truth[number].has([name]) for number in evidence.numbers])
        return evidence.judge(judged, right)._replace(is_name=True)

    def ask_sentence(self, text: str, owner: int) -> JudgedQuery | None:
        """Asks about all photos; the number of the sentence's own is known."""
        evidence = self._search(text)
        if evidence is None:
            return None
        judged = np.ones(len(evidence.numbers), dtype=bool)
        return evidence.judge(judged, evidence.numbers == owner)._replace(is_sentence=True)

    def _search(self, text: str) -> _Evidence | None:
        """None for a text that says nothing."""
        (phrase,) = read_aligned(self.searcher.runtime, [text])
        if not phrase.read.says_something:
            return None
        measured = self.searcher.evidence([phrase], [], Where(), SearchConfig(), len(self.truth))
        evidence = np.stack(
            [measured.fits[:, 0], measured.captions[:, 0], measured.likelihoods[:, 0]]
        )
        return _Evidence(phrase, evidence, measured.ids - 1)


class _Evidence(NamedTuple):
    """The evidence for a phrase in photos of these numbers."""

    phrase: Phrase
    evidence: Floats
    numbers: NDArray[np.int64]

    def judge(self, judged: Verdicts, right: Verdicts) -> JudgedQuery:
        words = len(self.phrase.read.content)
        return JudgedQuery(self.evidence[:, judged], right[judged], words, rarity(self.phrase))
