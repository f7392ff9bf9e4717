"""Texts as numbers of words, and what METEOR's matchers know of each word."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from regiontalk.errors import MissingExtra
from regiontalk.evaluation.meteor.arrays import Integers, Sentences, Words
from regiontalk.evaluation.meteor.normalize import LAST, depends_on_neighbours, depends_on_next, normalize, split
from regiontalk.evaluation.meteor.tables import Tables

# Beside words, what stands in a stream of numbers: the end of a text, and a token whose words are not to be told
# from itself alone.
_END, _UNCLEAR = -1, -2


class Lexicon:
    """Numbers words; grows with the words it meets."""

    def __init__(self, tables: Tables) -> None:
        try:
            # Not `snowballstemmer.stemmer`, which takes another implementation where there is one.
            from snowballstemmer.english_stemmer import EnglishStemmer
        except ImportError as error:
            raise MissingExtra(
                "METEOR's stemmer (package snowballstemmer) is not installed", extra="evaluate"
            ) from error
        self._stem: Callable[[str], str] = EnglishStemmer().stemWord
        self._tables = tables
        self._numbers: dict[str, int] = {}
        self._keys, self._stem_keys, self._nodes = array("q"), array("q"), array("q")
        self._is_function_word = array("b")
        self._synsets, self._first_synset = array("q"), array("q", [0])
        self._known: Words | None = None
        self._tokens = _Tokens(self._numbers_of_token)

    def sentences(self, texts: Sequence[str]) -> tuple[Sentences, Integers]:
        """The words of texts, and for each text the number of its sentence.

        All texts are looked up in one go, token by token, which is many times quicker than to normalise each. Those
        where this does not do follow at the end, normalised; what is left of their first reading stays unused.
        """
        tokens = chain.from_iterable(map(split, texts))
        stream = np.array(array("q", chain.from_iterable(map(self._tokens.__getitem__, tokens))))
        ends = np.flatnonzero(stream == _END)
        unclear = np.unique(np.searchsorted(ends, np.flatnonzero(stream == _UNCLEAR)))
        again = [self._normalize(texts[number]) for number in unclear]
        words = np.concatenate([stream[stream >= 0], np.array([*chain.from_iterable(again)], np.int64)])
        lengths = [np.diff(np.cumsum(stream >= 0)[ends], prepend=0), np.array([*map(len, again)], np.int64)]
        numbers = np.arange(len(texts))
        numbers[unclear] = len(texts) + np.arange(len(again))
        return Sentences(words, np.concatenate([[0], *lengths]).cumsum()), numbers

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

    def _numbers_of_token(self, token: str) -> list[int]:
        """The words of a token, after the last one of a text also its end."""
        word = token.removesuffix(LAST)
        end = [] if word == token else [_END]
        if depends_on_neighbours(word) or (not end and depends_on_next(word)):
            return [_UNCLEAR, *end]
        return self._normalize(word) + end

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


class _Tokens(dict[str, list[int]]):
    """The words of tokens, each looked up once."""

    def __init__(self, look_up: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._look_up = look_up

    def __missing__(self, token: str) -> list[int]:
        numbers = self[token] = self._look_up(token)
        return numbers


def java_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number."""
    value = 0
    _byte_order_mark, *units = memoryview(text.encode("utf-16", "surrogatepass")).cast("H")
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value
