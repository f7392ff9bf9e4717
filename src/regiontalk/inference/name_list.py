"""One's own list of names: which of the things on it a region shows, without any training.

A region shows a name if its caption says so ("a woman" for "person"), if the model's table of names
does, or if the word was taught. A name means its plurals and the words that mean the same, and a
wider name all of its kinds that are not on the list themselves: "dog" is every dog.

Shapes: B regions, D the size of a code, N names of the table, W names of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from regiontalk.errors import UsageError
from regiontalk.inference.calibration import Scores
from regiontalk.inference.naming import name_probabilities
from regiontalk.inference.taught import SURE, TaughtWords, words_to_say
from regiontalk.io.typed import shorten
from regiontalk.language.articles import as_caption
from regiontalk.language.head_nouns import head_noun
from regiontalk.language.object_names import object_names
from regiontalk.language.synonyms import same_or_narrower
from regiontalk.models.name_table import NameTable
from regiontalk.models.runtime import Floats
from regiontalk.models.word_book import MAX_WORD_LETTERS, forms_of, word_key
from regiontalk.results import Region

MAX_UNKNOWN_NAMED = 5


class KnownNames(NamedTuple):
    """The names of a list, by whether the model knows them."""

    known: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Knowledge:
    """What a model knows things by."""

    captions: frozenset[str]
    """The words of its captions."""
    table: NameTable | None
    taught: TaughtWords | None


@dataclass(frozen=True)
class NameList:
    """The names of a list, and what recognises them."""

    names: tuple[str, ...]
    """(W,) the names as the list spells them."""
    knowledge: Knowledge
    by_form: dict[str, int]
    """Which name a word is: its own spelling, without article, in the singular."""
    by_meaning: dict[str, int]
    """Which name a word is a synonym or a kind of."""

    @classmethod
    def of(cls, texts: Sequence[str], knowledge: Knowledge) -> NameList:
        """A list of names, without repeats; of two names with the same meaning the first counts."""
        names = tuple(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))
        by_form, by_meaning = dict[str, int](), dict[str, int]()
        forms = [forms_of(name) for name in names]
        for number, (form, *_) in enumerate(forms):
            by_form.setdefault(form, number)
        for number, others in enumerate(forms):
            for form in others:
                by_form.setdefault(form, number)
            for word in _meanings(others):
                by_meaning.setdefault(word, number)
        return cls(names, knowledge, by_form, by_meaning)

    def place_of(self, word: str, coarse: str | None = None) -> int | None:
        """Which name a word means, or its wider word `coarse`; None if it means none."""
        wider = word if coarse is None else coarse
        for place in (
            self.by_form.get(word),
            self.by_form.get(wider),
            self.by_meaning.get(word),
            self.by_meaning.get(wider),
        ):
            if place is not None:
                return place
        return None

    def split(self) -> KnownNames:
        """The names by whether the model can recognise them."""
        reached = {*self.table_places(), *self.taught_places()}
        classes = object_names().classes
        for word, place in (*self.by_meaning.items(), *self.by_form.items()):
            parts = word.split()
            if (len(parts) == 1 or word in classes) and self.knowledge.captions.issuperset(parts):
                reached.add(place)
        known = tuple(name for place, name in enumerate(self.names) if place in reached)
        unknown = tuple(name for place, name in enumerate(self.names) if place not in reached)
        return KnownNames(known, unknown)

    def probabilities(self, codes: Floats) -> Scores:
        """Codes (B, D) -> (B, W) how likely each region shows each name, and not anything else."""
        likely = np.zeros((len(codes), len(self.names)))
        if self.knowledge.table is not None:
            every = name_probabilities(codes, self.knowledge.table)
            for column, place in enumerate(self.table_places()):
                if place is not None:
                    likely[:, place] += every[:, column]
        if self.knowledge.taught is not None:
            of_taught = self.knowledge.taught.probabilities(codes)
            for column, place in enumerate(self.taught_places()):
                if place is not None:
                    likely[:, place] = np.maximum(likely[:, place], of_taught[:, column])
        return likely

    def shares(self, codes: Floats) -> Scores:
        """(B, W) the same if every region shows one of the names: each row adds up to 1."""
        likely = np.maximum(self.probabilities(codes), np.finfo(np.float64).tiny)
        shares: Scores = likely / likely.sum(axis=1, keepdims=True)
        return shares

    def table_places(self) -> list[int | None]:
        """(N,) which name of the list each name of the table means."""
        table = self.knowledge.table
        if table is None:
            return []
        return [
            self.place_of(name, coarse)
            for name, coarse in zip(table.names, table.coarse, strict=True)
        ]

    def taught_places(self) -> list[int | None]:
        """Which name of the list each taught word is."""
        taught = self.knowledge.taught
        words = () if taught is None else taught.names
        return [self.by_form.get(word_key(word)) for word in words]


def read_known_names(texts: Sequence[str], knowledge: Knowledge) -> NameList:
    """A list of names; raises `UsageError` for an empty list and for names that are not known."""
    listed = NameList.of(texts, knowledge)
    unknown = listed.split().unknown
    if unknown:
        raise UsageError(f"the model does not know {a_few(unknown)}", hint=TO_KNOW)
    if not listed.names:
        raise UsageError("the list of names is empty", hint="one name per line")
    return listed


TO_KNOW = "`Model.names` lists names that it knows; regiontalk teach teaches others"


def a_few(names: Sequence[str]) -> str:
    """Some of the names, for a message."""
    shown = ", ".join(shorten(name) for name in names[:MAX_UNKNOWN_NAMED])
    more = len(names) - MAX_UNKNOWN_NAMED
    return shown if more <= 0 else f"{shown} and {more} more"


def _meanings(forms: Sequence[str]) -> list[str]:
    """The words that mean one of the forms of a name, or a kind of it."""
    meanings = set[str]()
    for form in forms:
        if len(form) <= MAX_WORD_LETTERS:
            meanings |= same_or_narrower(form)
    return sorted(meanings)


def say_names(regions: Sequence[Region], codes: Floats, listed: NameList) -> list[Region]:
    """The regions with their codes (B, D), by the names of a list. A region that likely shows one
    of them has it as its name, and as its caption unless that has it already ("a brown dog").
    Others have no name."""
    captioned = [listed.place_of(head_noun(region.caption)) for region in regions]
    likely = listed.probabilities(codes)
    for row, (region, place) in enumerate(zip(regions, captioned, strict=True)):
        if place is not None:
            sure = SURE if region.confidence is None else region.confidence
            likely[row, place] = max(likely[row, place], sure)
    taught = {*listed.taught_places()}
    called = []
    for region, (place, probability) in zip(
        regions, words_to_say(regions, likely, captioned), strict=True
    ):
        if place is None:
            called.append(replace(region, name=None, name_confidence=None))
            continue
        name = listed.names[place]
        named = replace(region, name=name, name_confidence=probability, taught=place in taught)
        if listed.by_form.get(head_noun(region.caption)) != place:
            caption = as_caption(name)
            named = replace(named, caption=caption, logprob=None, confidence=probability)
        called.append(named)
    return called
