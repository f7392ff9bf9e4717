"""WordPiece tokens of uncased BERT models, such as all-MiniLM-L6-v2 (Devlin et al. 2019; Wu et al.
2016).

By Python's standard library alone. The package `tokenizers` does the same, but needs
`huggingface-hub` and what that needs, most of it for downloading. Differs from it only in marks and
punctuation of rare scripts that came to Unicode after its tables (503 characters in Python 3.11).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regiontalk.errors import ModelError
from regiontalk.io.files import read_file
from regiontalk.io.typed import to_dataclass

PAD, UNKNOWN, START, END, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL = (PAD, UNKNOWN, START, END, MASK)
"""Tokens that a text may also spell out."""
CONTINUED = "##"
MAX_WORD_CHARACTERS = 100
"""A longer word is unknown."""
MAX_VOCABULARY_BYTES = 1 << 24

_SPECIAL = re.compile("(" + "|".join(map(re.escape, SPECIAL)) + ")")
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
    # the fourth range begins at 2B920 in the reference too, where Unicode's extension E does at
    # 2B820
    *((0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF)),
)


@dataclass(frozen=True)
class WordPieces:
    """The pieces of words, in the order of their ids."""

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        for piece in (PAD, UNKNOWN, START, END):
            if piece not in self._ids:
                raise ModelError(f"a vocabulary without {piece} is none of WordPiece")

    @classmethod
    def load(cls, path: Path) -> WordPieces:
        """Reads a `vocab.txt`, which has one piece a line."""
        try:
            text = read_file(path, MAX_VOCABULARY_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"{path}: not a vocabulary: it is not UTF-8") from error
        try:
            return cls(tuple(text.removesuffix("\n").split("\n")))
        except ModelError as error:
            raise ModelError(f"{path}: {error.message}") from error

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> WordPieces:
        return to_dataclass(cls, data, "word pieces", ModelError)

    def to_dict(self) -> dict[str, Any]:
        return {"pieces": list(self.pieces)}

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    def id(self, piece: str) -> int:
        """The id of a piece that is in the vocabulary."""
        return self._ids[piece]

    def encode(self, text: str, longest: int | None = None) -> list[int]:
        """The ids of a text between those of START and END: at most `longest` together; what comes
        after them is cut off."""
        most = None if longest is None else max(longest - 2, 0)
        ids = [self._ids[token] for token in self.tokens(text)[:most]]
        return [self._ids[START], *ids, self._ids[END]]

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text."""
        tokens: list[str] = []
        for part in _SPECIAL.split(text):
            if part in SPECIAL and part in self._ids:
                tokens.append(part)
                continue
            for word in split_words(part):
                tokens += self._pieces_of(word)
        return tokens

    def _pieces_of(self, word: str) -> list[str]:
        """The longest piece that the word begins with, then that of the rest, and so on; UNKNOWN if
        there is none for some part."""
        if len(word) > MAX_WORD_CHARACTERS:
            return [UNKNOWN]
        pieces = []
        start = 0
        while start < len(word):
            piece = self._longest_piece(word, start)
            if piece is None:
                return [UNKNOWN]
            pieces.append(piece)
            start += len(piece) - (len(CONTINUED) if start else 0)
        return pieces

    def _longest_piece(self, word: str, start: int) -> str | None:
        prefix = CONTINUED if start else ""
        for end in range(len(word), start, -1):
            piece = prefix + word[start:end]
            if piece in self._ids:
                return piece
        return None


def split_words(text: str) -> list[str]:
    """Lower-case words without accents; punctuation marks and ideographs are words of their own."""
    return list(_split_at_punctuation(_lowered(_without_accents(_spaced(text))).split()))


def _spaced(text: str) -> str:
    """Without control characters; every white space is a blank, and blanks surround ideographs."""
    characters: list[str] = []
    for character in text:
        if _is_dropped(character):
            continue
        if character.isspace():
            characters.append(" ")
        elif _is_ideograph(character):
            characters += (" ", character, " ")
        else:
            characters.append(character)
    return "".join(characters)


def _is_dropped(character: str) -> bool:
    if character in "\t\n\r":
        return False
    category = unicodedata.category(character)
    # Characters that Unicode has not assigned yet stay: they make a word unknown.
    return character == "\ufffd" or (category.startswith("C") and category != "Cn")


def _is_ideograph(character: str) -> bool:
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _IDEOGRAPHS)


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(mark for mark in decomposed if unicodedata.category(mark) != "Mn")


def _lowered(text: str) -> str:
    """Each character by itself, as the reference does: Python's `lower` writes a final sigma
    otherwise."""
    return "".join(map(str.lower, text))


def _split_at_punctuation(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        start = 0
        for index, character in enumerate(word):
            if _is_punctuation(character):
                if index > start:
                    yield word[start:index]
                yield character
                start = index + 1
        if start < len(word):
            yield word[start:]


def _is_punctuation(character: str) -> bool:
    return character in _ASCII_PUNCTUATION or unicodedata.category(character).startswith("P")


def pad_together(encoded: Sequence[Sequence[int]], pad: int) -> list[list[int]]:
    """Rows of one length."""
    longest = max(map(len, encoded), default=0)
    return [[*ids, *[pad] * (longest - len(ids))] for ids in encoded]
