"""Words and sentences as METEOR's matchers see them, each prepared once.

Words are compared by Java's 32-bit string hash, as the jar does, so that its rare collisions ("an" and
"c0") match here too. Every word knows the words met so far that it matches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from regiontalk.evaluation.meteor.normalize import normalize
from regiontalk.evaluation.meteor.stem import stem
from regiontalk.evaluation.meteor.tables import Tables

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
_REMEMBERED = 1 << 17

Span = tuple[int, int]
"""Start and length."""
Source = tuple[int, int, Mapping[int, int]]
"""Start, length, and the rank of each paraphrase."""


@dataclass(eq=False, slots=True)
class Word:
    """`matchers`: the words it matches, itself among them, each with the matchers that say so, in order.
    `kin`: the same words as a set.
    """

    key: int
    stem_key: int
    synsets: frozenset[int]
    phrase: int
    is_function_word: bool
    matchers: dict[Word, tuple[int, ...]] = field(default_factory=dict)
    kin: set[Word] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Sentence:
    """`places`: where each word stands. `phrases`: where each phrase that a paraphrase may use stands, and
    how long it is. `sources`: those of them that have paraphrases; `targets`: all those paraphrases.
    """

    keys: tuple[int, ...]
    function_words: tuple[bool, ...]
    function_word_count: int
    words: frozenset[Word]
    places: dict[Word, tuple[int, ...]]
    phrases: dict[int, tuple[Span, ...]]
    sources: list[Source]
    targets: frozenset[int]


class Lexicon:
    """Makes words and sentences; grows with the words it meets."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._words: dict[str, Word] = {}
        self._by_key: defaultdict[int, list[Word]] = defaultdict(list)
        self._by_stem: defaultdict[int, list[Word]] = defaultdict(list)
        self._by_synset: defaultdict[int, list[Word]] = defaultdict(list)
        self._longer_phrase = lru_cache(_REMEMBERED)(tables.longer_phrase)
        self._ranked_paraphrases = lru_cache(_REMEMBERED)(self._rank_paraphrases)

    def sentence(self, text: str) -> Sentence:
        tables = self._tables
        words = [
            self._words.get(word) or self._add_word(word)
            for word in normalize(text, tables.abbreviations, tables.numeric_abbreviations)
        ]
        places: dict[Word, tuple[int, ...]] = {}
        for place, word in enumerate(words):
            places[word] = (*places.get(word, ()), place)
        function_words = tuple([word.is_function_word for word in words])
        phrases, sources = self._find_phrases([word.phrase for word in words])
        return Sentence(
            keys=tuple([word.key for word in words]),
            function_words=function_words,
            function_word_count=sum(function_words),
            words=frozenset(places),
            places=places,
            phrases=phrases,
            sources=sources,
            targets=frozenset().union(*[ranked for _, _, ranked in sources]),
        )

    def _find_phrases(self, nodes: list[int]) -> tuple[dict[int, tuple[Span, ...]], list[Source]]:
        """All phrases of the trie in a sentence, and those of them that have paraphrases."""
        phrases: dict[int, tuple[Span, ...]] = {}
        sources: list[Source] = []
        count = len(nodes)
        paraphrases_of, longer_phrase = self._ranked_paraphrases, self._longer_phrase
        for start, node in enumerate(nodes):
            phrase, end = node, start + 1
            while phrase >= 0:
                phrases[phrase] = (*phrases.get(phrase, ()), (start, end - start))
                ranked = paraphrases_of(phrase)
                if ranked:
                    sources.append((start, end - start, ranked))
                if end == count or nodes[end] < 0:
                    break
                phrase = longer_phrase(phrase, nodes[end])
                end += 1
        return phrases, sources

    def _rank_paraphrases(self, phrase: int) -> Mapping[int, int]:
        return {rewrite: rank for rank, rewrite in enumerate(self._tables.rewrites(phrase))}

    def _add_word(self, text: str) -> Word:
        word = Word(
            key=java_hash(text),
            stem_key=java_hash(stem(text)),
            synsets=self._tables.synsets(text),
            phrase=self._tables.phrase_word(text),
            is_function_word=text in self._tables.function_words,
        )
        self._words[text] = word
        groups = [self._by_key[word.key], self._by_stem[word.stem_key]]
        groups += [self._by_synset[synset] for synset in word.synsets]
        for group in groups:
            group.append(word)
        for other in {other for group in groups for other in group}:
            other.matchers[word] = word.matchers[other] = _matchers(word, other)
            other.kin.add(word)
            word.kin.add(other)
        return word


def _matchers(one: Word, other: Word) -> tuple[int, ...]:
    if one.key == other.key:
        return (EXACT,)
    same_stem = (STEM,) if one.stem_key == other.stem_key else ()
    return same_stem if one.synsets.isdisjoint(other.synsets) else (*same_stem, SYNONYM)


def java_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value
