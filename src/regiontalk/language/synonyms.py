"""Words that mean the same and words for kinds of things: `synonyms.toml` and
`object_names.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from regiontalk.language.object_names import PERSONS, object_names, word_forms

CACHED_WORDS = 10_000


@dataclass(frozen=True)
class Synonyms:
    """Both tables, by word."""

    same: Mapping[str, tuple[str, ...]]
    """The words that mean the same as a word, itself among them, the most common ones first."""
    broader: Mapping[str, tuple[str, ...]]
    """What a word is a kind of."""
    narrower: Mapping[str, tuple[str, ...]]
    """The kinds of what a word means."""

    def __contains__(self, word: object) -> bool:
        return word in self.same or word in self.broader


@cache
def synonyms() -> Synonyms:
    """The tables of the package."""
    text = (files("regiontalk.language") / "synonyms.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    same: dict[str, tuple[str, ...]] = {}
    broader: dict[str, tuple[str, ...]] = {}
    narrower: dict[str, tuple[str, ...]] = {}
    for words in table["same"]:
        for word in words:
            same[word] = (*same.get(word, ()), *words)
    for broad, words in table["kinds"].items():
        narrower[broad] = tuple(words)
        for word in words:
            broader[word] = (*broader.get(word, ()), broad)
    for name, classes in object_names().classes.items():
        others = tuple(other for other in classes if other != name)
        broader[name] = (*broader.get(name, ()), *others)
    return Synonyms(same, broader, narrower)


@lru_cache(maxsize=CACHED_WORDS)
def same_or_narrower(word: str) -> frozenset[str]:
    """The words in the singular that mean the same as a word, or one of its kinds ("bird": duck,
    "child": girl), itself among them. A person is asked for by "person" and "people" only: a baby
    is not any person."""
    table, classes = synonyms(), object_names().classes
    words = set(word_forms(word))
    for form in tuple(words):
        words |= set(table.same.get(form, ()))
    for form in tuple(words):
        words |= set(table.narrower.get(form, ()))
    for form in word_forms(word):
        noun = "person" if form in PERSONS else form
        if noun in classes.get(noun, ()):
            words |= {name for name, named in classes.items() if noun in named}
    return frozenset(words)


def caption_words(word: str) -> frozenset[str]:
    """The words of captions, in the singular, that mean what a word of a query asks for: those that
    mean the same or one of its kinds, and the name of its class ("puppy": dog)."""
    classes = object_names().classes
    words = set(same_or_narrower(word))
    for form in word_forms(word):
        noun = "person" if form in PERSONS else form
        if noun not in classes.get(noun, ()):
            words |= {name for name in classes.get(form, ()) if name != "person"}
    return frozenset(words)
