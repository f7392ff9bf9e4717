"""Words, phrases and sentences as METEOR's matchers see them, each prepared once.

Words are compared by Java's 32-bit string hash, as the jar does, so that its rare collisions ("an" and
"c0") match here too. Every word and phrase knows which of those met so far it matches: few enough that two
sentences are compared by intersecting small sets.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache

from regiontalk.evaluation.meteor.normalize import normalize
from regiontalk.evaluation.meteor.stem import stem
from regiontalk.evaluation.meteor.tables import Tables

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)
_REMEMBERED = 1 << 17


@dataclass(eq=False, slots=True)
class Word:
    """`kin`: the words it matches, itself among them; `matchers`: which matchers say so of each, in order."""

    key: int
    stem_key: int
    synsets: frozenset[int]
    node: int
    is_function_word: bool
    kin: set[Word] = field(default_factory=set)
    matchers: dict[Word, tuple[int, ...]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Phrase:
    """Words that the paraphrase table knows. `rewrites`: its paraphrases; `ranks`: their order."""

    length: int
    has_rewrites: bool
    rewrites: set[Phrase] = field(default_factory=set)
    ranks: dict[Phrase, int] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Sentence:
    """`places` and `starts`: where each word and each phrase stands; `sources`: the phrases with paraphrases."""

    keys: tuple[int, ...]
    function_words: tuple[bool, ...]
    function_word_count: int
    words: frozenset[Word]
    places: dict[Word, tuple[int, ...]]
    phrases: frozenset[Phrase]
    starts: dict[Phrase, tuple[int, ...]]
    sources: tuple[Phrase, ...]


class Lexicon:
    """Makes words, phrases and sentences; grows with the words and phrases it meets."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._words: dict[str, Word] = {}
        self._by_key: defaultdict[int, list[Word]] = defaultdict(list)
        self._by_stem: defaultdict[int, list[Word]] = defaultdict(list)
        self._by_synset: defaultdict[int, list[Word]] = defaultdict(list)
        self._phrases: dict[int, Phrase] = {}
        self._awaited: defaultdict[int, list[tuple[Phrase, int]]] = defaultdict(list)
        self._longer_phrase = lru_cache(_REMEMBERED)(tables.longer_phrase)

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
        starts = self._find_phrases([word.node for word in words])
        return Sentence(
            keys=tuple([word.key for word in words]),
            function_words=function_words,
            function_word_count=sum(function_words),
            words=frozenset(places),
            places=places,
            phrases=frozenset(starts),
            starts=starts,
            sources=tuple([phrase for phrase in starts if phrase.has_rewrites]),
        )

    def _find_phrases(self, nodes: list[int]) -> dict[Phrase, tuple[int, ...]]:
        """All phrases of the trie in a sentence, and where they start."""
        starts: dict[Phrase, tuple[int, ...]] = {}
        phrases, longer_phrase = self._phrases, self._longer_phrase
        count = len(nodes)
        for start, first in enumerate(nodes):
            node, end = first, start + 1
            while node >= 0:
                phrase = phrases.get(node) or self._add_phrase(node, end - start)
                starts[phrase] = (*starts.get(phrase, ()), start)
                if end == count or nodes[end] < 0:
                    break
                node = longer_phrase(node, nodes[end])
                end += 1
        return starts

    def _add_phrase(self, node: int, length: int) -> Phrase:
        """Joined with its paraphrases if they have been met, or when they will be."""
        rewrites = self._tables.rewrites(node)
        phrase = self._phrases[node] = Phrase(length, bool(rewrites))
        for rank, rewrite in enumerate(rewrites):
            if rewrite in self._phrases:
                phrase.ranks[self._phrases[rewrite]] = rank
            else:
                self._awaited[rewrite].append((phrase, rank))
        phrase.rewrites.update(phrase.ranks)
        for source, rank in self._awaited.pop(node, ()):
            source.ranks[phrase] = rank
            source.rewrites.add(phrase)
        return phrase

    def _add_word(self, text: str) -> Word:
        word = Word(
            key=java_hash(text),
            stem_key=java_hash(stem(text)),
            synsets=self._tables.synsets(text),
            node=self._tables.phrase_word(text),
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
