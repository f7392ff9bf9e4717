from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regiontalk.lab.evaluation.meteor.arrays import Paraphrases, Sentences, Words

pytest.importorskip("numba")

from regiontalk.lab.evaluation.meteor.phrases import find_phrases

KNOWN = 4  # words that the trie has; the next one it has not

words = st.integers(0, KNOWN)
known_words = st.integers(0, KNOWN - 1)
phrases = st.lists(known_words, min_size=1, max_size=5).map(tuple)


def trie_of(some: set[tuple[int, ...]]) -> tuple[Paraphrases, list[tuple[int, ...]]]:
    """The trie of these phrases and what its nodes stand for, laid out as `tables` says."""
    prefixes = {phrase[:length] for phrase in some for length in range(2, len(phrase) + 1)}
    nodes = [(word,) for word in range(KNOWN)]
    for length in range(2, 6):
        shorter = {prefix: number for number, prefix in enumerate(nodes)}
        longer = [prefix for prefix in prefixes if len(prefix) == length]
        nodes += sorted(longer, key=lambda prefix: (shorter[prefix[:-1]], prefix[-1]))
    children = [sum(len(prefix) > 1 and prefix[:-1] == node for prefix in nodes) for node in nodes]
    first_child = np.array([KNOWN, *KNOWN + np.cumsum(children)], np.int32)
    last_word = np.array([prefix[-1] for prefix in nodes[KNOWN:]], np.int32)
    nothing = np.empty(0, np.int32)
    return Paraphrases(KNOWN, first_child, last_word, nothing, nothing), nodes


@settings(deadline=None)  # the first call may compile
@given(st.sets(phrases, max_size=12), st.lists(st.lists(words, max_size=9), max_size=4))
def test_all_phrases_and_prefixes_of_phrases_are_found(
    some: set[tuple[int, ...]], texts: list[list[int]]
) -> None:
    trie, nodes = trie_of(some)
    empty = np.empty(0, np.int64)
    known = Words(empty, empty, np.array([*range(KNOWN), -1]), np.empty(0, np.bool_), empty, empty)
    sentences = Sentences(
        np.array(list(chain.from_iterable(texts)), np.int64), np.cumsum([0, *map(len, texts)])
    )
    found = find_phrases(sentences, known, trie)
    for number, text in enumerate(texts):
        here = slice(found.first_phrase[number], found.first_phrase[number + 1])
        listed = zip(
            found.start[here].tolist(),
            found.length[here].tolist(),
            found.node[here].tolist(),
            strict=True,
        )
        parts = [
            (start, length, tuple(text[start : start + length]))
            for start in range(len(text))
            for length in range(1, len(text) - start + 1)
        ]
        assert [(start, length, nodes[node]) for start, length, node in listed] == [
            part for part in parts if part[2] in nodes
        ]
