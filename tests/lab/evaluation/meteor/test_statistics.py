from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from regiontalk.lab.evaluation.meteor.arrays import (
    EXACT,
    PARAPHRASE,
    STEM,
    Alignments,
    Integers,
    Matches,
    Questions,
    Sentences,
    Words,
)

pytest.importorskip("numba")

from regiontalk.lab.evaluation.meteor.statistics import best_references, corpus_score

Match = tuple[int, int, int, int, int]

#            length, function words, content words by matcher, function words by matcher
HYPOTHESIS = [4, 1, 2, 0, 0, 0, 1, 0, 0, 0]
REFERENCE = [5, 2, 2, 0, 0, 0, 1, 0, 0, 0]
PERFECT = [2, 1, 1, 0, 0, 0, 1, 0, 0, 0]
NOTHING = 21 * [0]


def corpus(*rows: list[int]) -> float:
    return corpus_score(np.array(rows))


def answer(
    function_words: list[list[bool]], alignments: list[list[Match]]
) -> tuple[float, list[int]]:
    """Score and statistics of the first sentence against the others, aligned so."""
    empty, flat = (
        np.empty(0, np.int64),
        np.array(list(chain.from_iterable(function_words)), np.bool_),
    )
    words = Words(empty, empty, empty, flat, empty, empty)
    first = np.cumsum([0, *map(len, function_words)])
    sentences = Sentences(np.arange(len(flat)), first)
    numbers = np.arange(len(function_words))
    questions = Questions(numbers[:1], numbers[1:], np.array([0, len(numbers) - 1]))
    table: Integers = np.array(list(chain.from_iterable(alignments)), np.int64).reshape(-1, 5)
    first_match = np.cumsum([0, *map(len, alignments)])
    taken = Alignments(np.arange(len(table)), first_match)
    scores, statistics = best_references(
        questions, Matches(table, first_match), taken, sentences, words
    )
    return float(scores[0]), statistics[0].tolist()


def test_the_formula() -> None:
    """P = R = weighted matches / weighted length, by hand: 2 * .75 + 1 * .25 of 3 * .75 + 1 * .25
    or 2 * .25."""
    precision, recall = 1.75 / 2.5, 1.75 / 2.75
    f_mean = precision * recall / (0.85 * precision + 0.15 * recall)
    assert corpus([*HYPOTHESIS, *REFERENCE, 2]) == pytest.approx(
        f_mean * (1 - 0.6 * (2 / 3) ** 0.2)
    )


def test_nothing_matched() -> None:
    assert corpus(NOTHING) == 0
    assert corpus([3, 1, *8 * [0], 2, 0, *8 * [0], 0]) == 0


def test_more_chunks_score_less() -> None:
    scores = [corpus([*HYPOTHESIS, *REFERENCE, chunks]) for chunks in (1, 2, 3)]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3


def test_pooling_adds_all_but_the_chunk_of_a_perfect_segment() -> None:
    pooled = [a + b for a, b in zip(HYPOTHESIS + REFERENCE, PERFECT + PERFECT, strict=True)]
    rows = [*HYPOTHESIS, *REFERENCE, 2], [*PERFECT, *PERFECT, 1]
    assert corpus(*rows) == corpus(*rows[::-1]) == corpus([*pooled, 2])
    assert corpus(rows[1]) == corpus(rows[1], rows[1], NOTHING) == 1


def test_words_are_counted_by_kind_and_matcher() -> None:
    matches = [(0, 1, 0, 1, EXACT), (1, 2, 1, 1, PARAPHRASE), (3, 1, 2, 1, STEM)]
    _, row = answer([[True, False, False], [True, True, False, False, False]], [matches])
    assert row[:10] == [3, 1, 0, 1, 0, 1, 1, 0, 0, 0]
    assert row[10:20] == [5, 2, 0, 1, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("matches", "chunks"),
    [
        ([], 0),
        ([(0, 1, 0, 1, EXACT), (1, 1, 1, 1, EXACT)], 1),
        ([(0, 1, 0, 1, EXACT), (2, 1, 1, 1, EXACT)], 2),
        ([(0, 1, 1, 1, EXACT), (1, 1, 0, 1, EXACT)], 2),
        ([(0, 2, 0, 3, PARAPHRASE), (2, 1, 3, 1, EXACT)], 1),
    ],
)
def test_chunks(matches: list[Match], chunks: int) -> None:
    assert answer([4 * [False], 4 * [False]], [matches])[1][20] == chunks


def test_the_first_of_the_best_references_counts() -> None:
    one = [(0, 1, 0, 1, EXACT)]
    two = [*one, (1, 1, 1, 1, EXACT)]
    sentences = [[False, False], [False, True], [False, False], [False, False], [False, False]]
    score, row = answer(sentences, [one, two, two, []])
    assert score == 1
    assert row[10:12] == [2, 0]
    assert answer(sentences[:3], [[], []]) == (0, [2, *9 * [0], 2, 1, *8 * [0], 0])
