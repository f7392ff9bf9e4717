from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.inference.keywords import choose_tags
from regiontalk.models.name_table import NameTable
from regiontalk.results import Region, Shown

LINE = Shown(confidence=0.55, sure_confidence=0.55)
NAMES = ("schipperke", "cat", "person", "kite (bird)", "lipstick")
TABLE = NameTable(
    "detector",
    NAMES,
    ("dog", "cat", "person", "bird", "lipstick"),
    np.zeros((5, 2), np.float32),
    np.zeros(5, np.float32),
)


def region(
    caption: str, confidence: float = 0.9, name: str | None = None, name_confidence: float = 0.9
) -> Region:
    probability = None if name is None else name_confidence
    return Region((0, 0, 9, 9), 0.9, caption, -1.0, confidence, name, probability)


def test_a_taught_word_is_a_keyword_as_it_was_taught() -> None:
    rex = Region((0, 0, 9, 9), 0.9, "Rex", None, 0.9, "Rex", 0.9, taught=True)
    assert [tag.path for tag in choose_tags([rex], LINE, TABLE)] == ["Rex"]


@pytest.mark.parametrize(
    ("found", "paths"),
    [
        ([region("a dog"), region("a field of grass")], ["animal|dog", "field"]),
        ([region("a dog", 0.4)], []),  # not sure
        ([region("a dog", name="schipperke")], ["animal|dog|schipperke"]),
        ([region("a dog", name="schipperke", name_confidence=0.7)], ["animal|dog"]),
        ([region("a man", name="person")], ["person|man"]),  # says no more
        ([region("a dog", name="cat")], ["animal|cat"]),  # the name is right more often
        ([region("a dining table", name="lipstick")], ["furniture|dining table", "lipstick"]),
        ([region("a bird", name="kite (bird)")], ["animal|bird|kite"]),
        ([region("a dog"), region("two dogs")], ["animal|dog"]),
        ([], []),
    ],
)
def test_keywords_of_regions(found: list[Region], paths: list[str]) -> None:
    assert [tag.path for tag in choose_tags(found, LINE, TABLE)] == paths


def test_a_model_without_names_has_nouns() -> None:
    assert [tag.path for tag in choose_tags([region("a puppy")], LINE, None)] == [
        "animal|dog|puppy"
    ]


def test_of_a_model(tiny_model: Path, scene: Image.Image) -> None:
    model = regiontalk.load(tiny_model)
    found = model.tags(scene, threshold=0.0)
    regions = model.shown(threshold=0.0).at_first(model(scene).regions)
    assert found.tags == choose_tags(regions, model.shown(), None)
    assert [one.tags for one in model.tags([scene], threshold=0.0)] == [found.tags]
    assert found.tags == model.alt_text(scene, threshold=0.0).tags
