from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regiontalk.lab.evaluation.meteor.arrays import (
    EXACT,
    PARAPHRASE,
    STEM,
    SYNONYM,
    Integers,
    Paraphrases,
    Phrases,
    Questions,
    Sentences,
    Words,
)

pytest.importorskip("numba")

from regiontalk.lab.evaluation.meteor.matching import find_matches

WORDS, NODES = 6, 5
BUCKETS_APART = 1 << 20  # numbers so far apart meet in one bucket of any hash table

Text = list[int]
Phrase = tuple[int, int, int]  # start, length, node
Match = tuple[int, int, int, int, int]


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
    found = [
        (start, 1, place, 1, EXACT)
        for start, place in places
        if keys[own[place]] == keys[others[start]]
    ]
    if [keys[word] for word in own] == [keys[word] for word in others]:
        return found
    unequal = [(start, place) for start, place in places if keys[own[place]] != keys[others[start]]]
    for matcher, agree in (
        (STEM, lambda one, other: stem_keys[one] == stem_keys[other]),
        (SYNONYM, lambda one, other: set(synsets[one]) & set(synsets[other])),
    ):
        found += [
            (start, 1, place, 1, matcher)
            for start, place in unequal
            if agree(own[place], others[start])
        ]
    for sources, targets, swapped in (
        (other_phrases, own_phrases, False),
        (own_phrases, other_phrases, True),
    ):
        for start, length, node in sources:
            for rewrite in rewrites[node]:
                for place, extent, other in targets:
                    if other == rewrite:
                        match = (
                            (place, extent, start, length)
                            if swapped
                            else (start, length, place, extent)
                        )
                        found.append((*match, PARAPHRASE))
    return found


@st.composite
def texts_with_phrases(draw: st.DrawFn) -> tuple[Text, list[Phrase]]:
    text = draw(st.lists(st.integers(0, WORDS - 1), max_size=7))
    spans = [
        (start, length) for start in range(len(text)) for length in range(1, len(text) - start + 1)
    ]
    return text, [(*span, draw(st.integers(0, NODES - 1))) for span in spans if draw(st.booleans())]


keys = st.lists(st.sampled_from([1, 2, 3, 1 + BUCKETS_APART]), min_size=WORDS, max_size=WORDS)
few = st.lists(st.sampled_from([4, 5, 4 + BUCKETS_APART]), unique=True, max_size=2)


@settings(deadline=None)  # the first call may compile
@given(
    keys,
    keys,
    st.lists(few, min_size=WORDS, max_size=WORDS),
    st.lists(
        st.permutations(range(NODES)).map(lambda all_: list(all_[:3])),
        min_size=NODES,
        max_size=NODES,
    ),
    st.lists(texts_with_phrases(), min_size=1, max_size=4),
    st.data(),
)
def test_the_same_as_going_through_all_pairs(
    keys: list[int],
    stem_keys: list[int],
    synsets: list[list[int]],
    rewrites: list[list[int]],
    texts: list[tuple[Text, list[Phrase]]],
    data: st.DataObject,
) -> None:
    numbers = st.integers(0, len(texts) - 1)
    asked = data.draw(
        st.lists(st.tuples(numbers, st.lists(numbers, min_size=1, max_size=3)), max_size=3)
    )
    unused = np.empty(0, np.int64)
    words = Words(
        np.array(keys), np.array(stem_keys), unused, np.empty(0, np.bool_), *grouped(synsets)
    )
    phrases = [phrase for _, own in texts for phrase in own]
    start, length, node = np.array(phrases, np.int64).reshape(-1, 3).T.copy()
    all_rewrites, first_rewrite = (array.astype(np.int32) for array in grouped(rewrites))
    nothing = np.empty(0, np.int32)
    matches = find_matches(
        Questions(
            np.array([one for one, _ in asked], np.int64), *grouped([others for _, others in asked])
        ),
        Sentences(*grouped([text for text, _ in texts])),
        words,
        Phrases(node, start, length, np.cumsum([0, *(len(own) for _, own in texts)])),
        Paraphrases(0, nothing, nothing, first_rewrite, all_rewrites),
    )
    expected = [
        list_matches((keys, stem_keys, synsets), rewrites, texts[one], texts[other])
        for one, others in asked
        for other in others
    ]
    assert [tuple(row) for row in matches.table.tolist()] == list(chain.from_iterable(expected))
    assert np.diff(matches.first_match).tolist() == list(map(len, expected))
