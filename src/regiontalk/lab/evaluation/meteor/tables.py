"""METEOR's English tables: synonyms, paraphrases, function words, abbreviations.

They come from pycocoevalcap's wheel (`meteor-1.5.jar` and `data/paraphrase-en.gz`) and are
converted once into a file of arrays in the cache folder, named after the sources' check sums.

Paraphrases are a trie over words. A node is a phrase; nodes 0..V-1 are the single words, and the
children of a node lie side by side, ordered by their last word:
    first_child  (N + 1)  children of node n are the nodes first_child[n] .. first_child[n + 1] - 1
    last_word    (N - V)  last word of node V + i
    first_rewrite (N + 1) paraphrases of node n are
                          rewrites[first_rewrite[n] : first_rewrite[n + 1]], node numbers in the
                          order of the source file, which decides ties in the aligner
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import struct
import zipfile
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regiontalk.errors import DataError, MissingExtra, OutputError
from regiontalk.io.files import cache_folder, replacing
from regiontalk.lab.evaluation.meteor.arrays import Paraphrases

FORMAT = 1
_JAR_MEMBERS = {
    "synonyms": "synonym/english.synsets",
    "inflections": "synonym/english.exceptions",
    "function_words": "function/english.words",
    "abbreviations": "nonbreaking/english.prefixes",
}

Arrays = dict[str, NDArray[Any]]
Notify = Callable[[str], None]


@dataclass(frozen=True)
class Sources:
    """The two files of pycocoevalcap that hold METEOR and its tables."""

    jar: Path
    paraphrases: Path

    @classmethod
    def find(cls) -> Sources:
        spec = importlib.util.find_spec("pycocoevalcap")
        for folder in (spec and spec.submodule_search_locations) or ():
            sources = cls(
                Path(folder) / "meteor" / "meteor-1.5.jar",
                Path(folder) / "meteor" / "data" / "paraphrase-en.gz",
            )
            if sources.jar.is_file() and sources.paraphrases.is_file():
                return sources
        raise MissingExtra(
            "METEOR's tables (package pycocoevalcap) are not installed", extra="evaluate"
        )

    def fingerprint(self) -> str:
        """Changes with the contents, read from the check sums that zip and gzip files carry."""
        with zipfile.ZipFile(self.jar) as jar:
            members = [(name, jar.getinfo(name).CRC) for name in _JAR_MEMBERS.values()]
        with self.paraphrases.open("rb") as file:
            file.seek(-8, 2)
            trailer = struct.unpack("<II", file.read())
        text = repr((FORMAT, members, trailer, self.paraphrases.stat().st_size))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Tables:
    """The tables, ready for look-ups."""

    def __init__(self, arrays: Arrays) -> None:
        self.function_words = frozenset(_lines(arrays["function_words"]))
        self.abbreviations = frozenset(_lines(arrays["abbreviations"]))
        self.numeric_abbreviations = frozenset(_lines(arrays["numeric_abbreviations"]))
        self._synonym_words = _numbered(arrays["synonym_words"])
        # Single elements are read from memory views: they give plain numbers, and faster than
        # arrays do.
        self._first_synset = arrays["first_synset"].data
        self._synsets = arrays["synsets"].data
        self._bases: dict[str, list[str]] = defaultdict(list)
        for line in _lines(arrays["inflections"]):
            form, base = line.split("\t")
            self._bases[form].append(base)
        self._phrase_words = _numbered(arrays["phrase_words"])
        self.paraphrases = Paraphrases(
            len(self._phrase_words),
            *(
                arrays[name].view(np.int32)
                for name in ("first_child", "last_word", "first_rewrite", "rewrites")
            ),
        )

    @classmethod
    def load(cls, notify: Notify | None = None) -> Tables:
        """Reads the tables from the cache, which is built first where it is missing, old or
        corrupt."""
        sources = Sources.find()
        try:
            path = cache_folder() / f"meteor-{sources.fingerprint()}.npz"
        except (OSError, zipfile.BadZipFile, KeyError, struct.error) as error:
            raise DataError(
                f"{sources.jar.parent}: METEOR's files cannot be read: {error}"
            ) from error
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as cached:
                return cls(
                    {name: cached[name] for name in cached.files}
                )  # the zip format has check sums
        except Exception:  # whatever is wrong with a cache, it can be made again
            if notify:
                notify(f"Converting METEOR's tables into {path} (once, takes about half a minute)")
        arrays = build(sources)
        try:
            with replacing(path) as temporary:
                np.savez(temporary, allow_pickle=False, **arrays)
        except OutputError as error:
            if notify:
                notify(f"{error.message}; the next run converts again")
        return cls(arrays)

    def synsets(self, word: str) -> frozenset[int]:
        """WordNet's synonym sets of a word and of its base forms."""
        bases = self._bases[word] if word in self._bases else [self._base_form(word)]
        return self._synsets_of(word).union(*(self._synsets_of(base) for base in bases))

    def _synsets_of(self, word: str) -> frozenset[int]:
        number = self._synonym_words.get(word)
        if number is None:
            return frozenset()
        return frozenset(
            self._synsets[self._first_synset[number] : self._first_synset[number + 1]].tolist()
        )

    def _base_form(self, word: str) -> str:
        """The first known word that WordNet's rules of detachment lead to; empty if there is
        none."""
        if word.endswith("ss") or len(word) <= 2:
            return word
        for suffix, ending in _DETACHMENT:
            if (
                word.endswith(suffix)
                and (base := word.removesuffix(suffix) + ending) in self._synonym_words
            ):
                return base
        return ""

    def phrase_word(self, word: str) -> int:
        """The node of a single word, or -1 where no paraphrase uses it."""
        return self._phrase_words.get(word, -1)


# WordNet's endings, each with what takes its place
_ENDINGS = (
    "s: ses:s xes:x zes:z ches:ch shes:sh men:man ies:y es:e es: ed:e ed: ing:e ing: er: est: "
    "er:e est:e"
)
_DETACHMENT = [rule.split(":") for rule in _ENDINGS.split()]


def build(sources: Sources) -> Arrays:
    """All tables as arrays."""
    try:
        with zipfile.ZipFile(sources.jar) as jar:
            texts = {name: jar.read(member).decode() for name, member in _JAR_MEMBERS.items()}
        arrays = _build_words(texts) | _build_phrases(sources.paraphrases)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{sources.jar.parent}: METEOR's tables cannot be read: {error}") from error
    return arrays


def _build_words(texts: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    pairs = _pairs_of_lines(texts["synonyms"])
    synonyms = {word: numbers.split() for word, numbers in pairs if "_" not in word}
    inflections: list[str] = []
    for base, forms in _pairs_of_lines(texts["inflections"]):
        inflections += [f"{form}\t{base}" for form in forms.split()]
    rules = [
        line.split() for line in texts["abbreviations"].splitlines() if line and line[0] != "#"
    ]
    numeric = [words[0] for words in rules if words[1:] == ["#NUMERIC_ONLY#"]]
    every_number = chain.from_iterable(synonyms.values())
    return {
        "synonym_words": _text(synonyms),
        "first_synset": _offsets([len(numbers) for numbers in synonyms.values()]),
        "synsets": np.array([int(number) for number in every_number], dtype=np.int32),
        "inflections": _text(inflections),
        "function_words": _text(texts["function_words"].splitlines()),
        "abbreviations": _text(words[0] for words in rules if words[0] not in numeric),
        "numeric_abbreviations": _text(numeric),
    }


def _build_phrases(path: Path) -> dict[str, NDArray[Any]]:
    """The trie of phrases and, for each, its paraphrases in the order of the file."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    words, lengths, source_of_target = _read_phrases(path, numbers)
    nodes, first_child, last_word = _build_trie(words, lengths, len(numbers))
    targets = np.flatnonzero(source_of_target >= 0)
    source_nodes = nodes[source_of_target[targets]]
    target_nodes = nodes[targets]
    count = len(first_child) - 1
    return {
        "phrase_words": _text(numbers),
        "first_child": first_child,
        "last_word": last_word,
        "first_rewrite": _offsets(np.bincount(source_nodes, minlength=count)),
        "rewrites": target_nodes[np.argsort(source_nodes, kind="stable")].astype(np.uint32),
    }


def _read_phrases(
    path: Path, numbers: Mapping[str, int]
) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]:
    """All phrases of the file one after the other: word numbers, lengths, and the phrase each
    rewrites.

    The file holds three lines an entry: probability, phrase, paraphrase. A phrase stands once
    before its paraphrases here, with -1 in the last array.
    """
    words = array("I")
    lengths = array("B")
    sources = array("i")
    last = ""
    source = -1
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        for _, phrase, paraphrase in zip(file, file, file, strict=True):
            if phrase != last:
                last = phrase
                source = len(lengths)
                lengths.append(_add(words, phrase, numbers))
                sources.append(-1)
            lengths.append(_add(words, paraphrase, numbers))
            sources.append(source)
    return (
        np.frombuffer(words, dtype=np.uint32),
        np.frombuffer(lengths, dtype=np.uint8),
        np.frombuffer(sources, dtype=np.int32),
    )


def _add(words: array[int], phrase: str, numbers: Mapping[str, int]) -> int:
    parts = phrase.split()
    words.extend([numbers[word] for word in parts])
    return len(parts)


def _build_trie(
    words: NDArray[np.uint32], lengths: NDArray[np.uint8], singles: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]:
    """The node of every phrase, and the arrays first_child and last_word."""
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    nodes = words[starts].astype(np.int64)
    parents: list[NDArray[np.int64]] = []
    last_words: list[NDArray[np.uint32]] = []
    count = singles
    for depth in range(1, int(lengths.max())):
        longer = np.flatnonzero(lengths > depth)
        keys = nodes[longer] << 32 | words[starts[longer] + depth]
        distinct, place = np.unique(keys, return_inverse=True)
        nodes[longer] = count + place
        parents.append(distinct >> 32)
        last_words.append((distinct & 0xFFFFFFFF).astype(np.uint32))
        count += len(distinct)
    first_child = singles + np.searchsorted(np.concatenate(parents), np.arange(count + 1))
    return nodes, first_child.astype(np.uint32), np.concatenate(last_words)


def _pairs_of_lines(text: str) -> Iterable[tuple[str, str]]:
    lines = iter(text.splitlines())
    return zip(lines, lines, strict=True)


def _offsets(lengths: ArrayLike) -> NDArray[np.uint32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)


def _text(lines: Iterable[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(lines).encode(), dtype=np.uint8)


def _lines(text: NDArray[Any]) -> list[str]:
    return text.tobytes().decode().split("\n")


def _numbered(text: NDArray[Any]) -> dict[str, int]:
    return {line: number for number, line in enumerate(_lines(text))}
