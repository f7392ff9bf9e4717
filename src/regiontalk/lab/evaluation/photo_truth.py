"""Which words a photo shows, by what people wrote and marked."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.find import written_words
from regiontalk.language.object_names import PERSONS, object_names, word_forms
from regiontalk.language.synonyms import caption_words


class PhotoTruth(NamedTuple):
    """The truth about a photo."""

    words: frozenset[str]
    """The words that people wrote about the photo, in the singular; names of objects are
    not among them."""
    objects: frozenset[str]
    """The classes of marked objects."""
    is_described: bool
    """Whether people wrote sentences or phrases about it, not only names of objects."""

    @classmethod
    def of(cls, record: Record) -> PhotoTruth:
        objects = [region for region in record.regions if region.type == "object"]
        others = tuple(region for region in record.regions if region.type != "object")
        words = set(chain.from_iterable(word_forms(word) for word in written_words(record, others)))
        names = frozenset(region.phrase for region in objects)
        return cls(frozenset(words), names, bool(record.sentences or others))

    def has(self, words: Iterable[str]) -> bool:
        """Whether the photo shows what each of the words asks for."""
        return all(
            not self.words.isdisjoint(caption_words(word))
            or not self.objects.isdisjoint(_classes(word))
            for word in words
        )

    def can_judge(self, words: Iterable[str]) -> bool:
        """Whether the record would say so if the photo showed it."""
        return self.is_described or all(bool(self.objects and _classes(word)) for word in words)


def _classes(word: str) -> frozenset[str]:
    """The object classes that a word is the name of."""
    classes = object_names().classes
    forms = {"person" if form in PERSONS else form for form in word_forms(word)}
    return frozenset(form for form in forms if form in classes.get(form, ()))
