"""METEOR 1.5's score of an alignment, and the scorer that remembers what it has seen.

Denkowski & Lavie 2014, "Meteor Universal", section 2, with the parameters tuned for English ranking. The
order of the floating-point operations is the jar's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

from regiontalk.errors import UsageError
from regiontalk.evaluation.meteor.aligner import align
from regiontalk.evaluation.meteor.lexicon import Lexicon, Sentence
from regiontalk.evaluation.meteor.matching import Match, find_matches
from regiontalk.evaluation.meteor.tables import Notify, Tables

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase

# About 150 bytes a pair and 3 kB a sentence.
REMEMBERED_PAIRS = 500_000
REMEMBERED_SENTENCES = 20_000

Key = TypeVar("Key")
Value = TypeVar("Value")
Pair = tuple[str, Sequence[str]]
Counts = tuple[int, int, int, int]
"""Matched words per matcher."""


class Statistics(NamedTuple):
    """What the score of a segment, or by addition of a corpus, is computed from."""

    hypothesis_length: int
    reference_length: int
    hypothesis_function_words: int
    reference_function_words: int
    hypothesis_content: Counts
    reference_content: Counts
    hypothesis_function: Counts
    reference_function: Counts
    chunks: int

    @property
    def hypothesis_matches(self) -> int:
        return sum(self.hypothesis_content) + sum(self.hypothesis_function)

    @property
    def reference_matches(self) -> int:
        return sum(self.reference_content) + sum(self.reference_function)

    @property
    def is_perfect(self) -> bool:
        return (
            self.hypothesis_matches == self.hypothesis_length
            and self.reference_matches == self.reference_length
            and self.chunks == 1
        )

    def pooled(self, other: Statistics) -> Statistics:
        """The sum of both; a perfect segment adds no chunk."""
        return Statistics(
            self.hypothesis_length + other.hypothesis_length,
            self.reference_length + other.reference_length,
            self.hypothesis_function_words + other.hypothesis_function_words,
            self.reference_function_words + other.reference_function_words,
            _added(self.hypothesis_content, other.hypothesis_content),
            _added(self.reference_content, other.reference_content),
            _added(self.hypothesis_function, other.hypothesis_function),
            _added(self.reference_function, other.reference_function),
            self.chunks + (0 if other.is_perfect else other.chunks),
        )


Scored = tuple[float, Statistics]

NOTHING = Statistics(0, 0, 0, 0, (0,) * 4, (0,) * 4, (0,) * 4, (0,) * 4, 0)


def statistics_of(hypothesis: Sentence, reference: Sentence) -> Statistics:
    matches = align(find_matches(hypothesis, reference), len(hypothesis.keys))
    hypothesis_content, hypothesis_function = [0] * 4, [0] * 4
    reference_content, reference_function = [0] * 4, [0] * 4
    for start, length, place, extent, matcher in matches:
        functions = sum(reference.function_words[start : start + length])
        reference_function[matcher] += functions
        reference_content[matcher] += length - functions
        functions = sum(hypothesis.function_words[place : place + extent])
        hypothesis_function[matcher] += functions
        hypothesis_content[matcher] += extent - functions
    return Statistics(
        len(hypothesis.keys),
        len(reference.keys),
        hypothesis.function_word_count,
        reference.function_word_count,
        _counts(hypothesis_content),
        _counts(reference_content),
        _counts(hypothesis_function),
        _counts(reference_function),
        count_chunks(matches),
    )


def count_chunks(matches: Iterable[Match]) -> int:
    """Runs of matches that follow each other in both sentences."""
    chunks, next_start, next_place = 0, -1, -1
    for start, length, place, extent, _ in matches:
        chunks += start != next_start or place != next_place
        next_start, next_place = start + length, place + extent
    return chunks


def score_of(statistics: Statistics) -> float:
    """Weighted F-mean of precision and recall times one minus the fragmentation penalty."""
    matched, matched_of_reference = _weighted_matches(statistics)
    if not matched or not matched_of_reference:
        return 0.0
    precision = matched / _weighted_length(statistics.hypothesis_length, statistics.hypothesis_function_words)
    recall = matched_of_reference / _weighted_length(statistics.reference_length, statistics.reference_function_words)
    f_mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
    matches = (statistics.hypothesis_matches + statistics.reference_matches) / 2.0
    fragmentation = 0.0 if statistics.is_perfect else statistics.chunks / matches
    return float(max(f_mean * (1.0 - GAMMA * fragmentation**BETA), 0.0))


def _weighted_matches(statistics: Statistics) -> tuple[float, float]:
    """Of the hypothesis and of the reference."""
    sides = (
        (statistics.hypothesis_content, statistics.hypothesis_function),
        (statistics.reference_content, statistics.reference_function),
    )
    hypothesis, reference = (
        sum(
            [count * weight * DELTA for count, weight in zip(content, WEIGHTS, strict=True)]
            + [count * weight * (1.0 - DELTA) for count, weight in zip(function, WEIGHTS, strict=True)]
        )
        for content, function in sides
    )
    return hypothesis, reference


def _weighted_length(length: int, function_words: int) -> float:
    return DELTA * (length - function_words) + (1.0 - DELTA) * function_words


class Meteor:
    """METEOR 1.5 for English, as `java -jar meteor-1.5.jar - - -stdio -l en -norm` computes it.

    Remembers sentences and pairs: dense captioning asks for the same ones again and again. Equal statistics
    are kept once, which saves memory and spares the garbage collector.
    """

    def __init__(self, tables: Tables) -> None:
        self._lexicon = Lexicon(tables)
        self._sentences: dict[str, Sentence] = {}
        self._pairs: dict[tuple[str, str], Scored] = {}
        self._scored: dict[Statistics, Scored] = {}

    @classmethod
    def load(cls, notify: Notify | None = None) -> Meteor:
        """With the tables of the `evaluate` extra; `notify` is told when they are converted first."""
        return cls(Tables.load(notify))

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        """Between 0 and 1: the best over the references."""
        return self._best(hypothesis, references)[0]

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        with _collector_paused():
            return [self._best(hypothesis, references)[0] for hypothesis, references in pairs]

    def corpus_score(self, pairs: Iterable[Pair]) -> float:
        """From the statistics of all segments together, which is not the mean of their scores."""
        segments = (self._best(hypothesis, references)[1] for hypothesis, references in pairs)
        with _collector_paused():
            return score_of(reduce(Statistics.pooled, segments, NOTHING))

    def _best(self, hypothesis: str, references: Sequence[str]) -> Scored:
        """The first of the best-scoring references."""
        if not references:
            raise UsageError("METEOR needs at least one reference")
        return max([self._score_pair(hypothesis, reference) for reference in references], key=itemgetter(0))

    def _score_pair(self, hypothesis: str, reference: str) -> Scored:
        scored = self._pairs.get((hypothesis, reference))
        if scored is None:
            statistics = statistics_of(self._sentence(hypothesis), self._sentence(reference))
            scored = self._scored.get(statistics)
            if scored is None:
                scored = score_of(statistics), statistics
                _remember(self._scored, statistics, scored, REMEMBERED_SENTENCES)
            _remember(self._pairs, (hypothesis, reference), scored, REMEMBERED_PAIRS)
        return scored

    def _sentence(self, text: str) -> Sentence:
        sentence = self._sentences.get(text)
        if sentence is None:
            sentence = self._lexicon.sentence(text)
            _remember(self._sentences, text, sentence, REMEMBERED_SENTENCES)
        return sentence


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Scoring makes many small objects and no cycles: looking for them would take longer than scoring."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _remember(memory: dict[Key, Value], key: Key, value: Value, limit: int) -> None:
    """Forgets the older half when full."""
    if len(memory) >= limit:
        for old in list(islice(memory, limit // 2)):
            del memory[old]
    memory[key] = value


def _added(one: Counts, other: Counts) -> Counts:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def _counts(values: Sequence[int]) -> Counts:
    exact, stem, synonym, paraphrase = values
    return exact, stem, synonym, paraphrase
