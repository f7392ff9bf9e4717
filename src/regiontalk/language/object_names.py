"""Which nouns count as which object class: the table `object_names.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from regiontalk.language.vocabulary import word_set

MAX_NAME_WORDS = 4  # words of a name
PERSONS = word_set("person people")
_EXPLANATION = re.compile(r" \(.*\)$")
IRREGULAR_PLURALS = {"children": "child", "mice": "mouse", "geese": "goose", "oxen": "ox"}


@dataclass(frozen=True)
class ObjectNames:
    """`classes` of every name; `other` names are none of them; `family` names are used for animals
    too; `kinds` of classes."""

    classes: dict[str, tuple[str, ...]]
    other: frozenset[str]
    family: frozenset[str]
    kinds: dict[str, str]

    @property
    def animals(self) -> frozenset[str]:
        return frozenset(name for name, kind in self.kinds.items() if kind == "animal")

    def classes_of(self, words: Sequence[str], labels: Container[str] = ()) -> tuple[str, ...]:
        """The classes that the last of the words name, by the longest name that ends there; none:
        ().

        `labels` are names of further classes.
        """
        name = self.name_of(words, labels)
        if name is None or name in self.other:
            return ()
        return self.classes.get(name, (name,))

    def name_of(self, words: Sequence[str], labels: Container[str] = ()) -> str | None:
        """The longest name that ends with the last of the words, in the singular."""
        for count in range(min(MAX_NAME_WORDS, len(words)), 0, -1):
            for last in singulars(words[-1]):
                name = " ".join([*words[-count:-1], last])
                if name in self.other or name in self.classes or name in labels:
                    return name
        return None


@cache
def object_names() -> ObjectNames:
    """The table of the package."""
    table = tomllib.loads(
        (files("regiontalk.language") / "object_names.toml").read_text(encoding="utf-8")
    )
    classes: dict[str, tuple[str, ...]] = {}
    for name, others in table["classes"].items():
        for word in dict.fromkeys((name, *others)):
            classes[word] = (*classes.get(word, ()), name)
    kinds: dict[str, str] = {}
    for kind, names in table["kinds"].items():
        kinds |= dict.fromkeys(names, kind)
    other, family = (frozenset(table[part]["names"]) for part in ("other", "family"))
    return ObjectNames(classes, other, family, kinds)


def plain_name(name: str) -> str:
    """A name without its explanation: "kite" of "kite (bird)"."""
    return _EXPLANATION.sub("", name)


def word_forms(word: str) -> frozenset[str]:
    """The word in the singular, as it may be meant: "glasses" are not several glasses."""
    return frozenset([word] if word in object_names().other else singulars(word))


@lru_cache(maxsize=10_000)  # captions use the same words again and again
def singulars(word: str) -> tuple[str, ...]:
    """The word, and what it may be the plural of."""
    return tuple(_singulars(word))


def _singulars(word: str) -> Iterator[str]:
    yield word
    if word in IRREGULAR_PLURALS:
        yield IRREGULAR_PLURALS[word]
    if word.endswith("men"):
        yield word[:-3] + "man"
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("ves"):
        yield from (word[:-3] + "f", word[:-3] + "fe")
    if re.search(r"(?:ch|sh|s|x|z|o)es$", word):
        yield word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        yield word[:-1]
