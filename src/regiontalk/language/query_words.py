"""How the words of a phrase that a person typed are read.

A word that the model knows is used as it is. Of any other word, the first of these that gives a
known word is used: its singular or plural, a synonym or what it is a kind of, its parts
("soccerball"), the word that it is probably a typing mistake for. What is left is unknown.

Vocabularies have rare words, names, foreign words and typing mistakes of their own. So what counts
as English, as a mistake and as the word that was meant is decided by how frequent the words are and
by a list of English words (`english_words.txt`), not by what a vocabulary happens to have.

Words in quotes are read as they are typed. "A photo of" says nothing, and a phrase in another
language is recognised by its script or its little words.
"""

from __future__ import annotations

import itertools
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

from regiontalk.language.object_names import singulars
from regiontalk.language.synonyms import synonyms
from regiontalk.language.vocabulary import FUNCTION_WORDS, REFERRING, Vocabulary, word_set

MAX_WORDS = 100  # of a query that are read
MAX_NAMED = 5  # words in a note
LONGEST_CORRECTED = 20  # letters
SHORTEST_CORRECTED = 4
SHORTEST_FAR = 7  # letters of words that may have two mistakes
SHORTEST_PART = 3  # letters of a word that is written together with another
MAX_RARE = 3000  # a word of a higher number in the vocabulary is hardly known
SHORTEST_KNOWN_MISTAKE = 4  # letters of a word of the vocabulary that is itself a mistake
SHORTEST_KNOWN_CHANGED = 5  # letters of one in which more is wrong than that a letter is missing

MEANT_ALONE = word_set(
    "two three four five six seven eight nine ten several many few inside outside"
)
"""Function words that say something about a photo even without another word."""

_PARTS = re.compile(r'"([^"]*)"|([^\s"]+)|"')
_WRITTEN_OUT = {"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "ı": "i", "½": "half"}
# What people say before they name what a photo should show.
_SAYS_NOTHING = re.compile(
    r"^\s*(?:(?:please\s+)?(?:show|find|get)(?:\s+me)?\s+|(?:search|look)(?:ing)?\s+for\s+)?"
    r"(?:(?:an?|the|any|all|some|my|our)\s+)*"
    r"(?:photo|photograph|picture|pic|image|snapshot|shot)s?\s+(?:of|showing|that\s+shows?|with)\s+"
    r"|^\s*(?:please\s+)?(?:show\s+me|find\s+me|search\s+for|look(?:ing)?\s+for)\s+",
    re.IGNORECASE,
)


class ReadWord(NamedTuple):
    """A word of a phrase."""

    written: str
    """The word as it was typed, without punctuation."""
    word: str
    """The word that is looked for; empty if the model does not know it."""


@dataclass(frozen=True)
class ReadPhrase:
    """A phrase as it is read."""

    text: str
    words: tuple[ReadWord, ...]
    corrected: Mapping[str, str] = field(default_factory=dict)
    """Typing mistakes, and the words that are looked for instead."""
    synonyms: Mapping[str, str] = field(default_factory=dict)
    """Words that the model does not know, or hardly, and those that are looked for instead."""
    language: str = ""
    """The language of the phrase if it is probably not English; "another" if it is not known
    which."""
    left_out: int = 0
    """How many words were not read, because there are too many."""

    @property
    def known(self) -> tuple[str, ...]:
        """The words that are looked for."""
        return tuple(word.word for word in self.words if word.word)

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word.written for word in self.words if not word.word))

    @property
    def content(self) -> tuple[str, ...]:
        """The known words that say what to look for, each once; all of them if they are all
        function words."""
        every = tuple(dict.fromkeys(self.known))
        return tuple(word for word in every if word not in FUNCTION_WORDS) or every

    @property
    def says_something(self) -> bool:
        """Whether there is a word to look for."""
        if self.language:
            return False
        if not FUNCTION_WORDS.issuperset(self.known):
            return True
        return not self.unknown and not MEANT_ALONE.isdisjoint(self.known)


def notes(phrases: Sequence[ReadPhrase]) -> tuple[str, ...]:
    """What people should know about how phrases were read, in whole sentences."""
    return tuple(dict.fromkeys(_notes(phrases)))


def _notes(phrases: Sequence[ReadPhrase]) -> Iterator[str]:
    for phrase in phrases:
        if phrase.language:
            looks = (
                "is not" if phrase.language == "another" else f"looks like {phrase.language}, not"
            )
            yield f"{_quoted(phrase.text)} {looks} English. The model reads English only."
            continue
        for written, word in phrase.corrected.items():
            yield f"Showing {_quoted(word)}. To search for {_quoted(written)}, put it in quotes."
        for written, word in phrase.synonyms.items():
            yield f"{_quoted(written)} is read as {_quoted(word)}."
        if not phrase.words:
            yield f"There is no word in {_quoted(phrase.text)}."
        elif phrase.unknown:
            named = ", ".join(map(_quoted, phrase.unknown[:MAX_NAMED]))
            more = len(phrase.unknown) - MAX_NAMED
            rest = f" and {more} more" if more > 0 else ""
            without = "" if phrase.says_something else ": there is nothing else to look for"
            yield f"The model does not know {named}{rest}{without}."
        elif not phrase.says_something:
            yield f"There is nothing to look for in {_quoted(phrase.text)}."
    if left_out := sum(phrase.left_out for phrase in phrases):
        yield f"Only the first {MAX_WORDS} words are read; {left_out:,} are left out."


def _quoted(text: str) -> str:
    short = text if len(text) <= 60 else f"{text[:60]}…"
    return f"“{short.strip()}”"


def read_phrase(
    text: str,
    vocabularies: Sequence[Vocabulary],
    as_typed: bool = False,
    max_words: int = MAX_WORDS,
) -> ReadPhrase:
    """Reads a phrase with the words of vocabularies, the most important one first.

    `as_typed`: no word is replaced, and none is left out. Words after the first `max_words` are not
    read.
    """
    return _reader(tuple(vocabularies)).read(text, as_typed, max_words)


class _Piece(NamedTuple):
    """A piece of a phrase, between spaces."""

    text: str
    is_exact: bool


def _pieces(text: str) -> list[_Piece]:
    pieces = []
    for match in _PARTS.finditer(text):
        quoted, plain = match.groups()
        if quoted is not None:
            pieces += [_Piece(piece, True) for piece in quoted.split()]
        elif plain is not None:
            pieces.append(_Piece(plain, False))
    return pieces


def _without_accents(text: str) -> str:
    text = "".join(_WRITTEN_OUT.get(letter, letter) for letter in text.lower())
    parts = unicodedata.normalize("NFKD", text)
    return "".join(part for part in parts if not unicodedata.combining(part))


def _plain(text: str) -> str:
    """The text in the form of the vocabularies: small letters from a to z, and digits."""
    return re.sub(r"[^a-z0-9]", "", _without_accents(text))


def _bare(text: str) -> str:
    """The text without punctuation around it."""
    return re.sub(r"^[^\w]+|[^\w]+$", "", text)


def _has_other_letters(text: str) -> bool:
    """Whether there are letters of another script than ours."""
    return any(
        letter.isalpha() and not unicodedata.name(letter, "").startswith(("LATIN", "FULLWIDTH"))
        for letter in text
        if letter > "ʯ"
    )


@lru_cache(maxsize=8)
def _reader(vocabularies: tuple[Vocabulary, ...]) -> _Reader:
    return _Reader(vocabularies)


class _Reader:
    """Reads phrases with the words of some vocabularies."""

    def __init__(self, vocabularies: tuple[Vocabulary, ...]) -> None:
        words = dict.fromkeys(itertools.chain(*(vocabulary.words for vocabulary in vocabularies)))
        self._numbers = {word: number for number, word in enumerate(words)}
        """The most frequent words have the lowest numbers."""
        self._intended = lru_cache(maxsize=10_000)(self._find_intended)

    @cached_property
    def _typed(self) -> dict[int, list[tuple[str, int]]]:
        """Length -> the words that a typing mistake may be meant for, with the letters in them."""
        others: list[str] = [*synonyms().same, *synonyms().broader]
        every = [*self._numbers, *(word for word in others if self._is_readable(word))]
        typed: dict[int, list[tuple[str, int]]] = {}
        for word in dict.fromkeys(every):
            is_word = len(word) >= SHORTEST_PART and word.isalpha() and word.isascii()
            if is_word and (self._is_frequent(word) or is_english(word)):
                typed.setdefault(len(word), []).append((word, _letters(word)))
        return typed

    def read(self, text: str, as_typed: bool, room: int) -> ReadPhrase:
        """`room`: at most so many words."""
        spoken = text if as_typed else _without_referring(_SAYS_NOTHING.sub("", text))
        spoken = spoken if _plain(spoken) or _has_other_letters(spoken) else text
        pieces = _pieces(spoken)
        if not as_typed and (language := self._foreign_language(pieces[:MAX_WORDS])):
            unread = tuple(ReadWord(_bare(piece.text), "") for piece in pieces[:room])
            return ReadPhrase(text, unread, language=language)
        words: list[ReadWord] = []
        corrected: dict[str, str] = {}
        replaced: dict[str, str] = {}
        for place, piece in enumerate(pieces):
            if len(words) >= room:
                left_out = len(pieces) - place
                return ReadPhrase(text, tuple(words[:room]), corrected, replaced, "", left_out)
            plain = _plain(piece.text)
            if not plain and not _has_other_letters(piece.text):
                continue
            written = _bare(piece.text)
            if self._is_known(plain) and (as_typed or piece.is_exact or self._is_common(plain)):
                words.append(ReadWord(written, plain))
            elif piece.is_exact or as_typed:
                words.append(ReadWord(written, ""))
            else:
                words += self._read_unusual(written, plain, corrected, replaced)
        return ReadPhrase(text, tuple(words), corrected, replaced)

    def _read_unusual(
        self, written: str, plain: str, corrected: dict[str, str], replaced: dict[str, str]
    ) -> list[ReadWord]:
        """The words for one that is unknown or rare."""
        form = plain if self._is_known(plain) else self._other_number(plain)
        if form and self._is_common(form):
            return [ReadWord(written, form)]
        if same := self._best_known(synonyms().same, plain):
            replaced[written] = same
            return [ReadWord(written, word) for word in same.split()]
        if form:
            if meant := self._meant_by_known(plain):
                corrected[written] = meant
                return [ReadWord(meant, meant)]
            return [ReadWord(written, form)]
        if parts := self._parts(written, plain):
            return parts
        if broader := self._best_known(synonyms().broader, plain):
            replaced[written] = broader
            return [ReadWord(written, word) for word in broader.split()]
        if is_english(plain) or written.lower() in foreign_words():
            return [ReadWord(written, "")]
        if together := self._two_words(plain):
            corrected[written] = " ".join(together)
            return [ReadWord(part, part) for part in together]
        if intended := self._intended(plain):
            corrected[written] = intended
            if self._is_known(intended):
                return [ReadWord(intended, intended)]
            return self._read_unusual(intended, intended, corrected, replaced)
        return [ReadWord(written, "")]

    def _meant_by_known(self, word: str) -> str:
        """The frequent word that a rare one of the vocabulary is a typing mistake for: texts that
        vocabularies are made from have mistakes too. Empty for English words and names."""
        is_word = _is_english_or_name(word) or word in foreign_words() or word in synonyms()
        if is_word or len(word) < SHORTEST_KNOWN_MISTAKE or not self._is_known(word):
            return ""
        meant = self._intended(word)
        is_same = not {meant, *singulars(meant)}.isdisjoint(singulars(word))  # "snowsuits"
        if not meant or is_same or meant[0] != word[0] or not self._is_frequent(meant):
            return ""
        if len(word) < SHORTEST_KNOWN_CHANGED and len(meant) <= len(word):
            return ""
        return meant if typing_distance(word, meant, 1) == 1 else ""

    def _parts(self, written: str, plain: str) -> list[ReadWord]:
        """The known words of one with a hyphen or the like; empty if not all are known."""
        parts = re.split(r"[^a-z0-9]+", _without_accents(written))
        if len(parts) == 2 and parts[1] == "s" and self._is_known(parts[0]):
            return [ReadWord(written, parts[0])]  # "the dog's"
        known = [part for part in parts if self._is_known(part)]
        return [ReadWord(part, part) for part in known] if "".join(known) == plain else []

    def _is_known(self, word: str) -> bool:
        return word in self._numbers

    def _is_readable(self, word: str) -> bool:
        """Whether a word is known, or another word for it."""
        tables = (synonyms().same, synonyms().broader)
        return self._is_known(word) or any(self._best_known(table, word) for table in tables)

    def _is_common(self, word: str) -> bool:
        """Whether a word is known well; function words are."""
        return word in FUNCTION_WORDS or self._numbers[word] < MAX_RARE

    def _is_frequent(self, word: str) -> bool:
        return self._numbers.get(word, MAX_RARE) < MAX_RARE

    def _best_known(self, table: Mapping[str, tuple[str, ...]], word: str) -> str:
        """The first word, or words, that the table has for a word in the singular or plural, and
        that is known better; empty if there is none."""
        own_number = min(self._numbers.get(word, MAX_RARE), MAX_RARE)
        for other in chain.from_iterable(table.get(form, ()) for form in singulars(word)):
            numbers = [self._numbers.get(part, MAX_RARE) for part in other.split()]
            if max(numbers) < own_number:
                return other
        return ""

    def _other_number(self, word: str) -> str:
        """The known singular or plural of a word."""
        plural = f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{word}s"
        forms = (*singulars(word), plural)
        return next((form for form in forms if self._is_known(form)), "")

    def _two_words(self, word: str) -> tuple[str, ...]:
        """Two common words that are written together."""
        for end in range(SHORTEST_PART, len(word) - SHORTEST_PART + 1):
            parts = (word[:end], word[end:])
            if all(self._is_known(part) and self._is_common(part) for part in parts):
                return parts if not FUNCTION_WORDS.issuperset(parts) else ()
        return ()

    def _find_intended(self, word: str) -> str:
        """The word that one is probably a typing mistake for; empty if there is none. A rare word
        is as far away as a frequent one with one more mistake."""
        if not SHORTEST_CORRECTED <= len(word) <= LONGEST_CORRECTED or not word.isalpha():
            return ""
        most = 2 if len(word) >= SHORTEST_FAR else 1
        letters = _letters(word)
        best: tuple[int, bool, int, str] | None = None
        for length in range(len(word) - most, len(word) + most + 1):
            for other, has in self._typed.get(length, ()):
                if (letters ^ has).bit_count() > 2 * most:
                    continue
                if word == other:
                    continue
                distance = typing_distance(word, other, most)
                starts_otherwise = word[0] != other[0]
                if distance + starts_otherwise <= 2 and distance <= most:
                    number = self._numbers.get(other, len(self._numbers))
                    far = distance + (not self._is_frequent(other))
                    candidate = (far, starts_otherwise, number, other)
                    best = candidate if best is None else min(best, candidate)
        if best is None:
            return ""
        return best[-1]

    def _foreign_language(self, pieces: Sequence[_Piece]) -> str:
        """The language of a phrase that is probably not English."""
        counts: dict[str, int] = {}
        others = 0
        sure = 0
        english = 0
        for piece in pieces:
            text = _bare(piece.text).lower()
            plain = _plain(piece.text)
            languages = foreign_words().get(text, ())
            for language in languages:
                counts[language] = counts.get(language, 0) + 1
            others += _has_other_letters(text)
            sure += bool(languages) and (not is_english(plain) or text != plain)
            is_content = bool(plain) and not languages and plain not in FUNCTION_WORDS
            english += is_content and self._is_english(plain)
        if others > english:
            return "another"
        maybe = max(counts.values(), default=0)
        if not sure or maybe <= english:
            return ""
        likely = [language for language, count in counts.items() if count == maybe]
        return likely[0] if len(likely) == 1 else "another"

    def _is_english(self, word: str) -> bool:
        """Whether a word that is on no list of foreign words is probably English."""
        forms = [word, self._other_number(word)]
        return is_english(word) or word in synonyms() or any(map(self._is_frequent, forms))


def _without_referring(text: str) -> str:
    """The text without "there is" and the like, as in training."""
    match = REFERRING.match(text.lower())
    return text if match is None else text[match.end() :]


def _letters(word: str) -> int:
    """Which letters a word has, as bits."""
    bits = 0
    for letter in word:
        bits |= 1 << (ord(letter) & 31)
    return bits


def typing_distance(word: str, other: str, most: int) -> int:
    """The number of letters that were left out, added, mistaken or swapped; more than `most` if it
    is larger (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(word, start=1):
        earlier = before
        before = row
        row = [place]
        for column, wanted in enumerate(other, start=1):
            cost = min(
                before[column] + 1, row[column - 1] + 1, before[column - 1] + (letter != wanted)
            )
            is_swap = (
                place > 1
                and column > 1
                and (letter, word[place - 2])
                == (
                    other[column - 2],
                    wanted,
                )
            )
            row.append(min(cost, earlier[column - 2] + 1) if is_swap else cost)
        if min(row) > most:
            return most + 1
    return row[-1]


@cache
def foreign_words() -> Mapping[str, tuple[str, ...]]:
    """Word -> the other languages that have it."""
    text = (files("regiontalk.language") / "foreign_words.toml").read_text(encoding="utf-8")
    languages: dict[str, tuple[str, ...]] = {}
    for language, words in tomllib.loads(text).items():
        for word in words.split():
            languages[word] = (*languages.get(word, ()), language)
    return languages


def is_english(word: str) -> bool:
    """Whether the list of English words has a word or its singular; names do not count."""
    return not english_words().isdisjoint(singulars(word))


def _is_english_or_name(word: str) -> bool:
    return is_english(word) or word.capitalize() in english_words()


@cache
def english_words() -> frozenset[str]:
    """English words without their regular plurals, and names, which have a capital letter."""
    text = (files("regiontalk.language") / "english_words.txt").read_text(encoding="utf-8")
    lines = text.splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))
