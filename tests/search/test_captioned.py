"""What captions say about the words of a query."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.inference.phrases import Phrase
from regiontalk.language.query_words import read_phrase
from regiontalk.language.vocabulary import UNKNOWN, Vocabulary
from regiontalk.results import Region, Shown
from regiontalk.search.captioned import Animal
from regiontalk.search.store import StoredPhoto

KNOWN = Vocabulary(("a", "dog", "hot", "bear", "teddy", "bird", "woman", "with", "car"), "karpathy")
SHOWN = Shown(threshold=0.3, confidence=0.5)


def phrase(text: str) -> Phrase:
    """Its words have the vectors (1, 0, …), (0, 1, …) and so on."""
    read = read_phrase(text, [KNOWN])
    tokens = tuple(KNOWN.encode([word.word or "xyzzy" for word in read.words]))
    known = sum(token != UNKNOWN for token in tokens)
    return Phrase(read, tokens, tokens, np.eye(known, dtype=np.float32))


def photo(*captions: str, confidence: float = 0.9) -> StoredPhoto:
    """The whole photo has no caption."""
    regions = [Region((0.0, 0.0, 9.0, 9.0), 0.5, "")]
    regions += [
        Region((0.0, 0.0, 9.0, 9.0), 0.5, caption, confidence=confidence) for caption in captions
    ]
    scores = (0.0,) * len(regions)
    return StoredPhoto(1, "key", "a.jpg", (9, 9), "", tuple(regions), scores)


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("a dog", {"dog"}),
        ("xqzzt dog", {"dog"}),
        ("birds", {"bird"}),
        ("a hot dog", None),
        ("teddy bear", None),
        ("a woman with a dog", None),
        ("a car", None),
        ("xqzzt", None),
    ],
)
def test_what_a_phrase_is_about_if_that_is_an_animal(text: str, classes: set[str] | None) -> None:
    animal = Animal.of(phrase(text))
    assert (None if animal is None else animal.classes) == classes


@pytest.mark.parametrize(
    ("caption", "confidence", "is_another"),
    [
        ("a cat on a chair", 0.9, True),
        ("a brown dog", 0.9, False),
        ("a puppy", 0.9, False),
        ("a cat on a chair", 0.4, False),  # not shown
        ("a chair", 0.9, False),
        ("a hot dog", 0.9, False),
        ("a woman", 0.9, False),
    ],
)
def test_another_animal_stands_where_the_word_fits_best(
    caption: str, confidence: float, is_another: bool
) -> None:
    animal = Animal.of(phrase("dog"))
    assert animal is not None
    at_second = np.array([[2.0], [0.1], [1.0]], np.float32)  # the whole photo is not asked
    with_horse = photo("a horse", caption, confidence=confidence)
    assert animal.is_another(with_horse, at_second, SHOWN) == is_another
    assert not animal.is_another(photo(), at_second[:1], SHOWN)
