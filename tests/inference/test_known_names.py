"""What regions are called, as evidence for a phrase."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.inference import find as finder
from regiontalk.inference.known_names import (
    others_by_captions,
    others_by_names,
    shown_by_captions,
    shown_by_names,
)
from regiontalk.inference.phrases import Phrase, read_phrases
from regiontalk.model import Model
from regiontalk.models.name_table import NameTable
from regiontalk.results import Region

CAT = Path(__file__).parents[2] / "examples" / "photos" / "chelsea.jpg"


@pytest.fixture(scope="module")
def model() -> Model:
    return regiontalk.load(words_book=False)


def read(model: Model, text: str) -> Phrase:
    return read_phrases(model.runtime, [text])[0]


def test_the_names_of_what_a_phrase_is_about_count_together(model: Model) -> None:
    names = ("dog", "schipperke", "cat", "sofa")
    weights = np.zeros((4, 3), dtype=np.float32)
    table = NameTable("x", names, ("dog", "dog", "cat", "sofa"), weights, weights[:, 0])
    probabilities = np.array([[0.2, 0.5, 0.2, 0.1], [0.0, 0.0, 0.1, 0.9]])

    def shown(text: str) -> object:
        found = shown_by_names(read(model, text), probabilities, table)
        return None if found is None else found.round(6).tolist()

    assert shown("a small dog on a sofa") == [0.7, 0.0]
    assert shown("two puppies") == [0.7, 0.0]
    assert shown("a sofa with a dog") == [0.1, 0.9]
    assert shown("a waterfall") is None
    others = others_by_names(read(model, "a small dog on a sofa"), probabilities, table)
    assert others is not None
    assert others.round(6).tolist() == [0.2, 0.1], "a cat is another animal, a sofa is none"
    assert others_by_names(read(model, "a sofa with a dog"), probabilities, table) is None


def test_captions_with_the_word_count_with_their_confidence(model: Model) -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    regions = [
        Region(box, 0.9, "two brown dogs", confidence=0.8),
        Region(box, 0.9, "a cat on a dog bed", confidence=0.7),
        Region(box, 0.9, "a sofa", confidence=0.6),
        Region(box, 0.9, ""),
    ]

    def shown(text: str) -> object:
        found = shown_by_captions(read(model, text), regions)
        return None if found is None else found.tolist()

    assert shown("a puppy") == [0.8, 0.7, 0.0, 0.0]
    assert shown("a cat with a dog") == [0.0, 0.7, 0.0, 0.0]
    assert shown("a giraffe") == [0.0, 0.0, 0.0, 0.0]
    others = others_by_captions(read(model, "a giraffe"), regions)
    assert others is not None
    assert others.tolist() == [0.8, 0.7, 0.0, 0.8]
    assert others_by_captions(read(model, "a bed"), regions) is None


def test_a_cat_is_called_a_cat_and_no_other_animal(model: Model) -> None:
    phrases = [read(model, f"a {name}") for name in ("cat", "dog", "giraffe", "horse", "sheep")]
    seen = model.candidates(model.look(CAT))
    cat, *others = finder.gather(model.runtime, phrases, seen)
    assert cat.name_logit() > 2
    assert max(one.name_logit() for one in others) < -1
    whole = 0
    assert cat.shares()[whole] > 0.8
    assert max(one.shares()[whole] for one in others) < 0.4
