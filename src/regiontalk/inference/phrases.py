"""Phrases as a model reads them: for `find` and for `search`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from regiontalk.errors import UsageError
from regiontalk.inference.alignment import ALIGNMENT_HEAD, word_vectors
from regiontalk.inference.likelihood import clean_phrase
from regiontalk.language import query_words
from regiontalk.language.query_words import ReadPhrase
from regiontalk.language.vocabulary import UNKNOWN
from regiontalk.models.runtime import Floats, Runtime


@dataclass(frozen=True)
class Phrase:
    """A phrase as a model reads it."""

    read: ReadPhrase
    tokens: tuple[int, ...]
    """Tokens of the language model; `UNKNOWN` for words that it does not know."""
    aligned_tokens: tuple[int, ...]
    """Tokens of the alignment head, likewise; empty without such a head."""
    vectors: Floats
    """(W, h) the vectors of the words that the alignment head knows."""

    @property
    def text(self) -> str:
        return self.read.text

    @property
    def unknown(self) -> tuple[str, ...]:
        """The words that the model does not know, as they were typed."""
        return self.read.unknown


class AboutWords(TypedDict):
    """Fields of results: how the words of phrases were read."""

    unknown: tuple[str, ...]
    corrected: dict[str, str]
    synonyms: dict[str, str]
    notes: tuple[str, ...]


def about_words(phrases: Sequence[Phrase]) -> AboutWords:
    """How the words of phrases were read."""
    unknown: dict[str, None] = {}
    corrected: dict[str, str] = {}
    synonyms: dict[str, str] = {}
    for phrase in phrases:
        unknown |= dict.fromkeys(phrase.unknown)
        corrected |= phrase.read.corrected
        synonyms |= phrase.read.synonyms
    notes = query_words.notes([phrase.read for phrase in phrases])
    return AboutWords(unknown=tuple(unknown), corrected=corrected, synonyms=synonyms, notes=notes)


def read_phrases(runtime: Runtime, texts: Sequence[str], as_typed: bool = False) -> list[Phrase]:
    """Reads phrases for `find`, which knows the words of the language model and of the alignment
    head.

    `as_typed`: correct no typing mistakes, and take no synonyms. Raises `UsageError` for an empty
    phrase.
    """
    if not all(text.strip() for text in texts):
        raise UsageError("an empty phrase", hint='for example: "a red umbrella"')
    heads = [runtime.head(ALIGNMENT_HEAD).words] if ALIGNMENT_HEAD in runtime.heads else []
    vocabularies = [*heads, runtime.words]
    read = [query_words.read_phrase(text, vocabularies, as_typed) for text in texts]
    return [_to_phrase(runtime, phrase) for phrase in read]


def read_aligned(runtime: Runtime, texts: Sequence[str], as_typed: bool = False) -> list[Phrase]:
    """Reads the phrases of a query for `search`, which knows the words of the alignment head
    alone."""
    vocabulary = runtime.head(ALIGNMENT_HEAD).words
    room = query_words.MAX_WORDS
    phrases = []
    for text in texts:
        read = query_words.read_phrase(text, [vocabulary], as_typed, room)
        room -= len(read.words)
        phrases.append(_to_phrase(runtime, read))
    return phrases


def to_phrase(runtime: Runtime, text: str) -> Phrase:
    """A phrase that nobody typed: its words are used as they are."""
    words = " ".join(clean_phrase(text, runtime.words))
    (phrase,) = read_phrases(runtime, [words], as_typed=True) if words else [_NOTHING]
    return phrase


_NOTHING = Phrase(ReadPhrase("", ()), (), (), np.zeros((0, 0), dtype=np.float32))


def _to_phrase(runtime: Runtime, read: ReadPhrase) -> Phrase:
    words = [word.word or word.written.lower() for word in read.words]
    tokens = tuple(runtime.words.encode(words))
    if ALIGNMENT_HEAD not in runtime.heads:
        return Phrase(read, tokens, (), np.zeros((0, 0), dtype=np.float32))
    head = runtime.head(ALIGNMENT_HEAD)
    aligned = head.words.encode(words)
    known = [token for token in aligned if token != UNKNOWN]
    size = int(head.info.net["size"])
    vectors = word_vectors(runtime, known) if known else np.zeros((0, size), dtype=np.float32)
    return Phrase(read, tokens, tuple(aligned), vectors)
