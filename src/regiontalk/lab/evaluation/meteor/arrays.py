"""The arrays that METEOR's steps hand to each other.

Where owners have a varying number of things, these lie one after the other, and those of owner n
are first[n] .. first[n + 1] - 1 of them, `first` being the array named after the things.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)  # the matchers
START, LENGTH, PLACE, EXTENT, MATCHER = range(5)  # the columns of a table of matches


class Words(NamedTuple):
    """What is known of each word. `key` and `stem_key`: Java's hashes; `node`: in the trie of
    phrases, or -1."""

    key: Integers
    stem_key: Integers
    node: Integers
    is_function_word: NDArray[np.bool_]
    synsets: Integers
    first_synset: Integers


class Paraphrases(NamedTuple):
    """The trie of phrases and their paraphrases, as `tables` describes it."""

    single_words: int
    first_child: NDArray[np.int32]
    last_word: NDArray[np.int32]
    first_rewrite: NDArray[np.int32]
    rewrites: NDArray[np.int32]


class Sentences(NamedTuple):
    """The words of each sentence, by their numbers."""

    words: Integers
    first_word: Integers


class Phrases(NamedTuple):
    """The phrases of each sentence that the trie has, by start and length. `node`: in the trie."""

    node: Integers
    start: Integers
    length: Integers
    first_phrase: Integers


class Questions(NamedTuple):
    """Hypotheses and the references of each, by the numbers of the sentences. A pair is one of the
    references."""

    hypotheses: Integers
    references: Integers
    first_reference: Integers


class Matches(NamedTuple):
    """The matches of each pair.

    A row: start and length in the reference, start and length in the hypothesis, matcher.
    """

    table: Integers
    first_match: Integers


class Alignments(NamedTuple):
    """The rows of the table of matches that each pair's alignment takes, by their start in the
    reference."""

    rows: Integers
    first_row: Integers
