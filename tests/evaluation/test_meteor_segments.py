from __future__ import annotations

import random
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regiontalk.evaluation.meteor.arrays import Integers, Paraphrases, Phrases, Sentences, Words

pytest.importorskip("numba")

from regiontalk.evaluation.meteor.segments import (
    BEAM,
    EXACT,
    PARAPHRASE,
    STEM,
    SYNONYM,
    align,
    corpus_score,
    find_matches,
    statistics_of,
)

Match = tuple[int, int, int, int, int]


def table_of(matches: list[Match]) -> Integers:
    return np.array(matches, np.int64).reshape(-1, 5)


def matches_of(table: Integers) -> list[Match]:
    return [tuple(row) for row in table.tolist()]


# -- all matches ---------------------------------------------------------------------------------------------

WORDS = 6
NODES = (0, 1, 2, 256, 257)  # some of which meet in one bucket of the hash table

Text = list[int]
Phrase = tuple[int, int, int]  # start, length, node


def grouped(groups: list[list[int]]) -> tuple[Integers, Integers]:
    return np.array(list(chain.from_iterable(groups)), np.int64), np.cumsum([0, *map(len, groups)])


def list_matches(
    words: tuple[list[int], list[int], list[list[int]]],
    rewrites: list[list[int]],
    hypothesis: tuple[Text, list[Phrase]],
    reference: tuple[Text, list[Phrase]],
) -> list[Match]:
    """By going through all pairs."""
    keys, stem_keys, synsets = words
    (own, own_phrases), (others, other_phrases) = hypothesis, reference
    places = [(start, place) for start in range(len(others)) for place in range(len(own))]
    found = [(start, 1, place, 1, EXACT) for start, place in places if keys[own[place]] == keys[others[start]]]
    if [keys[word] for word in own] == [keys[word] for word in others]:
        return found
    unequal = [(start, place) for start, place in places if keys[own[place]] != keys[others[start]]]
    for matcher, agree in (
        (STEM, lambda one, other: stem_keys[one] == stem_keys[other]),
        (SYNONYM, lambda one, other: set(synsets[one]) & set(synsets[other])),
    ):
        found += [(start, 1, place, 1, matcher) for start, place in unequal if agree(own[place], others[start])]
    for sources, targets, swapped in ((other_phrases, own_phrases, False), (own_phrases, other_phrases, True)):
        for start, length, node in sources:
            for rewrite in rewrites[node]:
                for place, extent, other in targets:
                    if other == rewrite:
                        match = (place, extent, start, length) if swapped else (start, length, place, extent)
                        found.append((*match, PARAPHRASE))
    return found


@st.composite
def texts_with_phrases(draw: st.DrawFn) -> tuple[Text, list[Phrase]]:
    text = draw(st.lists(st.integers(0, WORDS - 1), max_size=7))
    spans = [(start, length) for start in range(len(text)) for length in range(1, len(text) - start + 1)]
    return text, [(*span, draw(st.sampled_from(NODES))) for span in spans if draw(st.booleans())]


keys = st.lists(st.integers(1, 3), min_size=WORDS, max_size=WORDS)
few = st.lists(st.integers(4, 6), unique=True, max_size=2).map(sorted)


@settings(deadline=None)  # the first call may compile
@given(
    keys,
    keys,
    st.lists(few, min_size=WORDS, max_size=WORDS),
    st.lists(st.lists(st.sampled_from(NODES), unique=True, max_size=3), min_size=5, max_size=5),
    texts_with_phrases(),
    texts_with_phrases(),
)
def test_the_same_as_going_through_all_pairs(
    keys: list[int],
    stem_keys: list[int],
    synsets: list[list[int]],
    some_rewrites: list[list[int]],
    hypothesis: tuple[Text, list[Phrase]],
    reference: tuple[Text, list[Phrase]],
) -> None:
    rewrites = [dict(zip(NODES, some_rewrites, strict=True)).get(node, []) for node in range(NODES[-1] + 1)]
    unused = np.empty(0, np.int64)
    words = Words(np.array(keys), np.array(stem_keys), unused, np.empty(0, np.bool_), *grouped(synsets))
    (text, own), (other_text, others) = hypothesis, reference
    start, length, node = np.array([*own, *others], np.int64).reshape(-1, 3).T.copy()
    all_rewrites, first_rewrite = (array.astype(np.int32) for array in grouped(rewrites))
    nothing = np.empty(0, np.int32)
    table = find_matches(
        0,
        1,
        Sentences(*grouped([text, other_text])),
        words,
        Phrases(node, start, length, np.cumsum([0, len(own), len(others)])),
        Paraphrases(0, nothing, nothing, first_rewrite, all_rewrites),
    )
    assert matches_of(table) == list_matches((keys, stem_keys, synsets), rewrites, hypothesis, reference)


# -- those that are taken ------------------------------------------------------------------------------------

Problem = tuple[list[list[Match]], int]
"""The matches that start at each word of the reference, and the length of the hypothesis."""


def take(found: list[list[Match]], hypothesis_length: int) -> list[Match]:
    return matches_of(align(table_of(list(chain.from_iterable(found))), hypothesis_length, len(found)))


def align_word_by_word(found: list[list[Match]], _: int) -> list[Match]:
    """The search in plain Python, with the jar's own steps.

    A path is [matched words, chunks, distance, end of the last match or -1, next word of the reference,
    used words of the hypothesis, matches].
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
        matcher = draw(st.sampled_from([EXACT, STEM, SYNONYM, PARAPHRASE])) if single else PARAPHRASE
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
        words = [word for match in taken for word in range(match[first], match[first] + match[size])]
        assert len(words) == len(set(words))
    assert all(match in found[match[0]] for match in taken)


@settings(deadline=None)  # the first call may compile
@given(problems(), st.randoms(use_true_random=False))
def test_only_the_order_at_a_word_of_the_reference_matters(problem: Problem, chance: random.Random) -> None:
    """The matches of a pair may be listed as the matchers find them, not by the reference's words."""
    found, hypothesis_length = problem
    queues = [list(here) for here in found]
    mixed = []
    while any(queues):
        mixed.append(chance.choice([queue for queue in queues if queue]).pop(0))
    assert matches_of(align(table_of(mixed), hypothesis_length, len(found))) == take(*problem)


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


# -- their score ---------------------------------------------------------------------------------------------

#            length, function words, content words by matcher, function words by matcher
HYPOTHESIS = [4, 1, 2, 0, 0, 0, 1, 0, 0, 0]
REFERENCE = [5, 2, 2, 0, 0, 0, 1, 0, 0, 0]
PERFECT = [2, 1, 1, 0, 0, 0, 1, 0, 0, 0]
NOTHING = 21 * [0]


def corpus(*rows: list[int]) -> float:
    return corpus_score(np.array(rows))


def count(own: list[bool], others: list[bool], matches: list[Match]) -> list[int]:
    """The statistics of an alignment of words that are function words or not."""
    empty, flags = np.empty(0, np.int64), np.array([*own, *others], np.bool_)
    words = Words(empty, empty, empty, flags, empty, empty)
    numbers = np.arange(len(flags))
    return statistics_of(table_of(matches), numbers[: len(own)], numbers[len(own) :], words).tolist()


def test_the_formula() -> None:
    """P = R = weighted matches / weighted length, by hand: 2 * .75 + 1 * .25 of 3 * .75 + 1 * .25 or 2 * .25."""
    precision, recall = 1.75 / 2.5, 1.75 / 2.75
    f_mean = precision * recall / (0.85 * precision + 0.15 * recall)
    assert corpus([*HYPOTHESIS, *REFERENCE, 2]) == pytest.approx(f_mean * (1 - 0.6 * (2 / 3) ** 0.2))


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
    row = count([True, False, False], [True, True, False, False, False], matches)
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
    assert count(4 * [False], 4 * [False], matches)[20] == chunks
