"""METEOR 1.5's score of an alignment, and the scorer that remembers what it has seen.

Denkowski & Lavie 2014, "Meteor Universal", section 2, with the parameters tuned for English ranking. The
order of the floating-point operations is the jar's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import compress, islice
from operator import add, itemgetter
from typing import NamedTuple, TypeVar

from regiontalk.errors import UsageError
from regiontalk.evaluation.meteor.aligner import align
from regiontalk.evaluation.meteor.lexicon import Lexicon, Sentence
from regiontalk.evaluation.meteor.matching import Found, Match, find_matches
from regiontalk.evaluation.meteor.tables import Notify, Tables

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = 2 * (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase; of content and of function words
KINDS = 4 * (DELTA,) + 4 * (1.0 - DELTA,)
_MORE_THAN_ROUNDING = 1.0 + 1e-9

# About 150 bytes a pair, 5 kB a sentence of a dozen words, 500 bytes for statistics.
REMEMBERED_PAIRS = 500_000
REMEMBERED_SENTENCES = 20_000
REMEMBERED_STATISTICS = 20_000

Key = TypeVar("Key")
Value = TypeVar("Value")
Pair = tuple[str, Sequence[str]]
Counts = tuple[int, ...]
"""Matched content words by matcher, then matched function words by matcher."""


class Statistics(NamedTuple):
    """What the score of a segment, or by addition of a corpus, is computed from."""

    hypothesis_length: int
    reference_length: int
    hypothesis_function_words: int
    reference_function_words: int
    hypothesis_matches: Counts
    reference_matches: Counts
    chunks: int

    @property
    def is_perfect(self) -> bool:
        return (
            self.chunks == 1
            and sum(self.hypothesis_matches) == self.hypothesis_length
            and sum(self.reference_matches) == self.reference_length
        )

    def pooled(self, other: Statistics) -> Statistics:
        """The sum of both; a perfect segment adds no chunk."""
        return Statistics(
            self.hypothesis_length + other.hypothesis_length,
            self.reference_length + other.reference_length,
            self.hypothesis_function_words + other.hypothesis_function_words,
            self.reference_function_words + other.reference_function_words,
            tuple(map(add, self.hypothesis_matches, other.hypothesis_matches)),
            tuple(map(add, self.reference_matches, other.reference_matches)),
            self.chunks + (0 if other.is_perfect else other.chunks),
        )


Scored = tuple[float, Statistics]
Known = tuple[float, Statistics | None]
"""A pair's score and statistics, or without statistics a number that its score does not exceed."""

NOTHING = Statistics(0, 0, 0, 0, (0,) * 8, (0,) * 8, 0)


def statistics_of(hypothesis: Sentence, reference: Sentence, matches: Sequence[Match]) -> Statistics:
    # Matched words by kind of word (content, function) and matcher.
    in_hypothesis, in_reference = [0] * 8, [0] * 8
    for start, length, place, extent, matcher in matches:
        for is_function_word in reference.function_words[start : start + length]:
            in_reference[4 * is_function_word + matcher] += 1
        for is_function_word in hypothesis.function_words[place : place + extent]:
            in_hypothesis[4 * is_function_word + matcher] += 1
    return Statistics(
        len(hypothesis.keys),
        len(reference.keys),
        hypothesis.function_word_count,
        reference.function_word_count,
        tuple(in_hypothesis),
        tuple(in_reference),
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
    length, reference_length, functions, reference_functions, found, reference_found, chunks = statistics
    if not any(found) or not any(reference_found):
        return 0.0
    precision = _weighted_matches(found) / _weighted_length(length, functions)
    recall = _weighted_matches(reference_found) / _weighted_length(reference_length, reference_functions)
    matches = (sum(found) + sum(reference_found)) / 2.0
    return _combine(precision, recall, 0.0 if statistics.is_perfect else chunks / matches)


def _combine(precision: float, recall: float, fragmentation: float) -> float:
    f_mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
    return float(max(f_mean * (1.0 - GAMMA * fragmentation**BETA), 0.0))


def _weighted_matches(counts: Counts) -> float:
    """Added one by one: `sum` rounds differently from Python 3.12 on."""
    total = 0.0
    for count, weight, kind in zip(counts, WEIGHTS, KINDS, strict=True):
        total += count * weight * kind
    return total


def _weighted_length(length: int, function_words: int) -> float:
    return DELTA * (length - function_words) + (1.0 - DELTA) * function_words


def upper_bound(hypothesis: Sentence, reference: Sentence, found: Found) -> float:
    """No alignment of these matches scores more.

    The score grows with precision and recall, which are at most what they would be if every word with a match
    were matched, with its best weight. It falls with chunks / matched words. There is a chunk at least, unless all
    words may be matched: a perfect alignment is not punished. Every match begins a chunk or joins the match
    before it, which can happen at `joins` words of the reference at most. So k matches of single words make
    max(1, k - joins) chunks or more, and chunks / k >= 1 / (joins + 1). Longer matches have no such rule.
    """
    in_hypothesis, in_reference = [0.0] * len(hypothesis.keys), [0.0] * len(reference.keys)
    single, joins = True, 0
    places = 0  # where in the hypothesis the matches of this word of the reference begin, as bits
    for here in found:
        before, places = places, 0
        for start, length, place, extent, matcher in here:
            places |= 1 << place
            weight = WEIGHTS[matcher]
            if length == 1 == extent:
                in_reference[start] = max(in_reference[start], weight)
                in_hypothesis[place] = max(in_hypothesis[place], weight)
            else:
                single = False
                _raise(in_reference, start, length, weight)
                _raise(in_hypothesis, place, extent, weight)
        joins += bool(before << 1 & places)
    matched, matched_reference = (len(words) - words.count(0.0) for words in (in_hypothesis, in_reference))
    if not matched:
        return 0.0
    if matched == len(in_hypothesis) and matched_reference == len(in_reference):
        fragmentation = 0.0
    elif single:
        fragmentation = 1.0 / min(matched, matched_reference, joins + 1)
    else:
        fragmentation = 2.0 / (matched + matched_reference)
    precision, recall = _best_share(hypothesis, in_hypothesis), _best_share(reference, in_reference)
    return _combine(precision, recall, fragmentation) * _MORE_THAN_ROUNDING


def _raise(weights: list[float], start: int, length: int, least: float) -> None:
    weights[start : start + length] = [max(weight, least) for weight in weights[start : start + length]]


def _best_share(sentence: Sentence, weights: Sequence[float]) -> float:
    """Weighted matches / weighted length."""
    functions = sum(compress(weights, sentence.function_words))
    total = DELTA * (sum(weights) - functions) + (1.0 - DELTA) * functions
    return total / _weighted_length(len(weights), sentence.function_word_count)


class Meteor:
    """METEOR 1.5 for English, as `java -jar meteor-1.5.jar - - -stdio -l en -norm` computes it.

    Remembers sentences and pairs: dense captioning asks for the same ones again and again. Equal statistics
    are kept once, which saves memory and spares the garbage collector.
    """

    def __init__(self, tables: Tables) -> None:
        self._lexicon = Lexicon(tables)
        self._sentences: dict[str, Sentence] = {}
        self._pairs: dict[tuple[str, str], Known] = {}
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
        """The first of the best-scoring references; only those are aligned whose bounds leave them a chance."""
        if not references:
            raise UsageError("METEOR needs at least one reference")
        found: dict[str, Found] = {}
        look = self._bound if len(references) > 1 else self._align
        known: list[Known] = [
            self._pairs.get((hypothesis, reference)) or look(hypothesis, reference, found) for reference in references
        ]
        while True:
            value, statistics = best = max(known, key=itemgetter(0))
            if statistics is not None:
                return value, statistics
            number = known.index(best)
            known[number] = self._align(hypothesis, references[number], found)

    def _bound(self, hypothesis: str, reference: str, found: dict[str, Found]) -> Known:
        """The upper bound; the matches with the reference are kept in `found`."""
        one, other = self._sentence(hypothesis), self._sentence(reference)
        found[reference] = find_matches(one, other)
        known = upper_bound(one, other, found[reference]), None
        _remember(self._pairs, (hypothesis, reference), known, REMEMBERED_PAIRS)
        return known

    def _align(self, hypothesis: str, reference: str, found: dict[str, Found]) -> Scored:
        one, other = self._sentence(hypothesis), self._sentence(reference)
        matches = found[reference] if reference in found else find_matches(one, other)
        statistics = statistics_of(one, other, align(matches, len(one.keys)))
        scored = self._scored.get(statistics)
        if scored is None:
            scored = score_of(statistics), statistics
            _remember(self._scored, statistics, scored, REMEMBERED_STATISTICS)
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
