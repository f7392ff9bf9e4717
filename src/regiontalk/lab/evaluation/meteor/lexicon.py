"""Texts as numbers of words, and what METEOR's matchers know of each word."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

# Not `snowballstemmer.stemmer`, which takes another implementation where there is one.
from snowballstemmer.english_stemmer import EnglishStemmer

from regiontalk.lab.evaluation.meteor.arrays import Sentences, Words
from regiontalk.lab.evaluation.meteor.normalize import normalize
from regiontalk.lab.evaluation.meteor.tables import Tables


class Lexicon:
    """Numbers words; grows with the words it meets."""

    def __init__(self, tables: Tables) -> None:
        self._stem: Callable[[str], str] = EnglishStemmer().stemWord
        self._tables = tables
        self._numbers: dict[str, int] = {}
        self._keys = array("q")
        self._stem_keys = array("q")
        self._nodes = array("q")
        self._is_function_word = array("b")
        self._synsets = array("q")
        self._first_synset = array("q", [0])
        self._known: Words | None = None

    def sentences(self, texts: Sequence[str]) -> Sentences:
        """The words of texts."""
        normalized = [self._normalize(text) for text in texts]
        words = np.array(list(chain.from_iterable(normalized)), np.int64)
        return Sentences(words, np.cumsum([0, *map(len, normalized)]))

    def words(self) -> Words:
        """What is known of all words met so far."""
        if self._known is None or len(self._known.key) < len(self._numbers):
            self._known = Words(
                key=np.array(self._keys),
                stem_key=np.array(self._stem_keys),
                node=np.array(self._nodes),
                is_function_word=np.array(self._is_function_word, np.bool_),
                synsets=np.array(self._synsets),
                first_synset=np.array(self._first_synset),
            )
        return self._known

    def _normalize(self, text: str) -> list[int]:
        tables = self._tables
        words = normalize(text, tables.abbreviations, tables.numeric_abbreviations)
        return [self._numbers[word] if word in self._numbers else self._add(word) for word in words]

    def _add(self, word: str) -> int:
        stemmed = self._stem(word)
        self._keys.append(java_hash(word))
        self._stem_keys.append(self._keys[-1] if stemmed == word else java_hash(stemmed))
        self._nodes.append(self._tables.phrase_word(word))
        self._is_function_word.append(word in self._tables.function_words)
        self._synsets.extend(self._tables.synsets(word))
        self._first_synset.append(len(self._synsets))
        number = self._numbers[word] = len(self._numbers)
        return number


def java_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number."""
    value = 0
    _byte_order_mark, *units = memoryview(text.encode("utf-16", "surrogatepass")).cast("H")
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value
