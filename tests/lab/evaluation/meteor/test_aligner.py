from __future__ import annotations

import random
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regiontalk.lab.evaluation.meteor.arrays import EXACT, PARAPHRASE, STEM, SYNONYM, Matches

pytest.importorskip("numba")

from regiontalk.lab.evaluation.meteor.aligner import BEAM, align

Match = tuple[int, int, int, int, int]
Problem = tuple[list[list[Match]], int]
"""The matches that start at each word of the reference, and the length of the hypothesis."""


def align_all(problems: list[Problem]) -> list[list[Match]]:
    listed = [[match for here in found for match in here] for found, _ in problems]
    table = np.array(list(chain.from_iterable(listed)), np.int64).reshape(-1, 5)
    first_match = np.cumsum([0, *map(len, listed)])
    lengths = (
        np.array([(length, len(found)) for found, length in problems], np.int64)
        .reshape(-1, 2)
        .T.copy()
    )
    rows, first_row = align(Matches(table, first_match), *lengths)
    taken = [tuple(map(int, row)) for row in table[rows]]
    return [taken[begin:end] for begin, end in pairwise(first_row)]


def take(found: list[list[Match]], hypothesis_length: int) -> list[Match]:
    return align_all([(found, hypothesis_length)])[0]


def align_word_by_word(found: list[list[Match]], _: int) -> list[Match]:
    """The search in plain Python, with the jar's own steps.

    A path is [matched words, chunks, distance, end of the last match or -1, next word of the
    reference, used words of the hypothesis, matches].
    """
    fixed = _unrivalled(found)
    paths: list[list] = [[0, 0, 0, -1, 0, frozenset(), ()]]
    for position, here in enumerate(found):
        paths.sort(key=lambda path: (-path[0], path[1], path[2]))
        following = []
        for path in paths[:BEAM]:
            if position < path[4]:
                following.append(path)
            elif position in fixed:
                start, length, place, extent, _ = match = fixed[position]
                path[0] += _gain(match)
                path[1] += path[3] not in (-1, place)
                path[2] += abs(start - place)
                path[3], path[4], path[6] = place + extent, start + length, (*path[6], match)
                following.append(path)
            else:
                for match in here:
                    start, length, place, extent, _ = match
                    words = set(range(place, place + extent))
                    if path[5] & words:
                        continue
                    chunks = path[1] + (path[3] not in (-1, place))
                    counts = (path[0] + _gain(match), chunks, path[2])
                    rest = (place + extent, start + length, path[5] | words, (*path[6], match))
                    following.append([*counts, *rest])
                    path[2] += abs(start - place)
                path[1] += path[3] != -1
                path[3], path[4] = -1, path[4] + 1
                following.append(path)
        paths = following
    paths.sort(key=lambda path: (-path[0], path[1], path[2]))
    paths = paths[:BEAM]
    for path in paths:
        path[1] += path[3] != -1
    return list(min(paths, key=lambda path: (-path[0], path[1], path[2]))[6])


def _gain(match: Match) -> int:
    return 2 if match[4] == EXACT else match[1] // 2 + match[3] // 2


def _unrivalled(found: list[list[Match]]) -> dict[int, Match]:
    matches = [match for here in found for match in here]

    def alone(match: Match) -> bool:
        return not any(
            other is not match
            and (
                range(max(match[0], other[0]), min(match[0] + match[1], other[0] + other[1]))
                or range(max(match[2], other[2]), min(match[2] + match[3], other[2] + other[3]))
            )
            for other in matches
        )

    return {match[0]: match for match in matches if alone(match)}


@st.composite
def problems(draw: st.DrawFn, longest: int = 3) -> Problem:
    """Matches between sentences of random lengths; longer ones are paraphrases."""
    reference, hypothesis, skipped = (
        draw(st.integers(1, 9)),
        draw(st.integers(1, 9)),
        draw(st.sampled_from([0, 28, 60])),
    )
    found: list[list[Match]] = [[] for _ in range(reference)]
    for _ in range(draw(st.integers(0, 22))):
        start, place = draw(st.integers(0, reference - 1)), draw(st.integers(0, hypothesis - 1))
        length = draw(st.integers(1, min(longest, reference - start)))
        extent = draw(st.integers(1, min(longest, hypothesis - place)))
        single = length == extent == 1
        matcher = (
            draw(st.sampled_from([EXACT, STEM, SYNONYM, PARAPHRASE])) if single else PARAPHRASE
        )
        found[start].append((start, length, skipped + place, extent, matcher))
    return found, skipped + hypothesis


@pytest.mark.parametrize("longest", [1, 3])
@settings(deadline=None)  # the first call may compile
@given(data=st.data())
def test_aligned_as_word_by_word(longest: int, data: st.DataObject) -> None:
    problem = data.draw(problems(longest))
    assert take(*problem) == align_word_by_word(*problem)


@settings(deadline=None)  # the first call may compile
@given(problems())
def test_no_word_is_used_twice(problem: Problem) -> None:
    found, _ = problem
    taken = take(*problem)
    for first, size in ((0, 1), (2, 3)):
        words = [
            word for match in taken for word in range(match[first], match[first] + match[size])
        ]
        assert len(words) == len(set(words))
    assert all(match in found[match[0]] for match in taken)


@settings(deadline=None)  # the first call may compile
@given(st.lists(problems(), max_size=4))
def test_many_pairs_are_aligned_as_each_alone(some: list[Problem]) -> None:
    assert align_all(some) == [take(*problem) for problem in some]


@settings(deadline=None)  # the first call may compile
@given(problems(), st.randoms(use_true_random=False))
def test_only_the_order_at_a_word_of_the_reference_matters(
    problem: Problem, chance: random.Random
) -> None:
    """The matches of a pair may be listed as the matchers find them, not by the reference's
    words."""
    found, hypothesis_length = problem
    queues = [list(here) for here in found]
    mixed = []
    while any(queues):
        mixed.append(chance.choice([queue for queue in queues if queue]).pop(0))
    table = np.array(mixed, np.int64).reshape(-1, 5)
    lengths = np.array([hypothesis_length]), np.array([len(found)])
    rows, _ = align(Matches(table, np.array([0, len(table)])), *lengths)
    assert [tuple(map(int, row)) for row in table[rows]] == take(*problem)


def exact(start: int, place: int) -> Match:
    return start, 1, place, 1, EXACT


def test_fewer_chunks_win() -> None:
    """the dog | a cat the dog: the first "the" of the hypothesis would break the chunk."""
    found = [[exact(0, 0), exact(0, 2)], [exact(1, 3)]]
    assert take(found, 4) == [exact(0, 2), exact(1, 3)]


def test_an_ambiguous_stem_that_costs_a_chunk_is_left_out() -> None:
    """Such a match counts half a word, rounded down to none, and a chunk more."""
    stems = [(0, 1, 0, 1, STEM), (0, 1, 2, 1, STEM)]
    assert take([stems], 3) == []
    assert take([stems[:1]], 3) == stems[:1]


def test_more_words_win_over_fewer_chunks() -> None:
    found = [[exact(0, 2)], [exact(1, 0), exact(1, 3)], [exact(2, 3)]]
    assert take(found, 4) == [exact(0, 2), exact(1, 0), exact(2, 3)]


def test_long_sentences_of_one_word() -> None:
    length = 150
    found = [[exact(start, place) for place in range(length)] for start in range(length)]
    assert take(found, length) == [exact(place, place) for place in range(length)]
