"""What the captions of a photo say about the words of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regiontalk.inference.phrases import Phrase
from regiontalk.language.head_nouns import head_place, named_classes
from regiontalk.language.object_names import object_names, word_forms
from regiontalk.language.synonyms import caption_words
from regiontalk.language.vocabulary import UNKNOWN
from regiontalk.models.runtime import Floats
from regiontalk.results import Region, Shown
from regiontalk.search.store import StoredPhoto


class Caption(NamedTuple):
    """A caption of a photo."""

    words: frozenset[str]
    """Its words, in the singular."""
    confidence: float

    @classmethod
    def of(cls, region: Region) -> Caption:
        words = frozenset[str]().union(*map(word_forms, region.caption.split()))
        return cls(words, 1.0 if region.confidence is None else region.confidence)

    def has(self, forms: frozenset[str]) -> bool:
        """Whether it has one of the forms of a word."""
        return not self.words.isdisjoint(forms)


def meant_words(phrase: Phrase) -> list[frozenset[str]]:
    """The words of captions that mean each content word of a phrase."""
    return [caption_words(word) for word in phrase.read.content]


def is_captioned(photo: StoredPhoto, shown: Shown, words: Sequence[frozenset[str]]) -> bool:
    """Whether a shown caption has all words of a phrase; a word is the set of its forms."""
    captions = [Caption.of(region) for region in shown.choose(photo.regions)]
    return any(all(map(caption.has, words)) for caption in captions)


def confidence_of(word: frozenset[str], captions: Sequence[Caption]) -> float:
    """The highest confidence of a caption that has one of the forms of a word."""
    return max((caption.confidence for caption in captions if caption.has(word)), default=0.0)


class Animal(NamedTuple):
    """What a phrase is about, if that is an animal."""

    classes: frozenset[str]
    vector: Floats
    """(h,)"""

    @classmethod
    def of(cls, phrase: Phrase) -> Animal | None:
        """None if the phrase is about something else: "a hot dog", "a woman with a dog"."""
        pairs = zip(phrase.read.words, phrase.aligned_tokens, strict=True)
        words = [word.word for word, token in pairs if token != UNKNOWN]
        place = head_place(words)
        classes = frozenset(object_names().classes_of(words[: place + 1]))
        if not classes or not classes <= object_names().animals:
            return None
        return cls(classes, phrase.vectors[place])

    def is_another(self, photo: StoredPhoto, vectors: Floats, shown: Shown) -> bool:
        """Whether the region that it fits best has a shown caption with another animal. `vectors`:
        (R, h), of the photo's regions."""
        fits = vectors @ self.vector
        captioned = [row for row, region in enumerate(photo.regions) if region.caption]
        if not captioned:
            return False
        region = photo.regions[max(captioned, key=fits.__getitem__)]
        if region not in shown.choose(photo.regions):
            return False
        named = frozenset(named_classes(region.caption))
        return bool(named) and named <= object_names().animals - self.classes
