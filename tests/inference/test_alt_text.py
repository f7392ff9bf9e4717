"""A sentence if it is sure, else the sure regions, else anything at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import regiontalk
from regiontalk.inference.alt_text import EMPTY_TEXT, MAX_REGIONS, choose_alt_text
from regiontalk.results import Region, Sentence, Shown

SURE, UNSURE = Sentence("a dog runs", -0.4), Sentence("a dog runs", -12.0)


def regions(**scores: float) -> list[Region]:
    return [Region((0, 0, 9, 9), score, f"a {name}") for name, score in scores.items()]


@pytest.mark.parametrize(
    ("sentence", "found", "text", "sure"),
    [
        (SURE, regions(cat=0.9), "a dog runs", True),
        (UNSURE, regions(cat=0.9), "a cat", True),
        (UNSURE, regions(cat=0.9, bowl=0.6, wall=0.2), "a cat and a bowl", True),
        (None, regions(cat=0.9, bowl=0.8, wall=0.7), "a cat, a bowl and a wall", True),
        (UNSURE, regions(cat=0.1), "perhaps a dog runs", False),
        (None, regions(cat=0.1, bowl=0.1), "perhaps a cat", False),
        (None, [], EMPTY_TEXT, True),
        (None, [*regions(cat=0.9), *regions(cat=0.8)], "a cat", True),
    ],
)
def test_what_is_said(
    sentence: Sentence | None, found: list[Region], text: str, sure: bool
) -> None:
    assert choose_alt_text(sentence, found, Shown()) == (text, sure)


def test_taught_words_follow_a_sentence_which_does_not_have_them() -> None:
    rex = Region((0, 0, 9, 9), 0.9, "Rex", confidence=0.9, taught=True)
    spoken = choose_alt_text(SURE, [rex, *regions(cat=0.9)], Shown())
    assert spoken == ("a dog runs; Rex", True)


def test_a_region_is_sure_where_pictures_show_it_as_sure() -> None:
    shown = Shown(confidence=0.55, sure_confidence=0.55)
    unsure = Region((0, 0, 9, 9), 0.9, "a toothbrush", confidence=0.51)
    sure = Region((0, 0, 9, 9), 0.35, "a cat", confidence=0.9)
    assert choose_alt_text(None, [unsure, sure], shown) == ("a cat", True)
    assert choose_alt_text(None, [unsure], shown) == ("perhaps a toothbrush", False)


def test_a_listener_is_spared_long_lists() -> None:
    many = regions(**{f"thing{number}": 0.9 for number in range(20)})
    assert choose_alt_text(None, many, Shown()).text.count("thing") == MAX_REGIONS


def test_from_a_model_with_and_without_sentences(
    speaking_model: Path, tiny_model: Path, scene: Image.Image
) -> None:
    for folder in (speaking_model, tiny_model):
        model = regiontalk.load(folder)
        found = model.alt_text(scene, threshold=0.0, top=3)
        assert found.regions == model(scene, top=3).regions
        sentence = model.describe(scene) if folder == speaking_model else None
        spoken = None if sentence is None else Sentence(sentence.sentence, sentence.logprob)
        assert (found.text, found.sure) == choose_alt_text(spoken, found.regions, model.shown())
        assert found.to_dict()["alt"] == found.text
        assert [one.text for one in model.alt_text([scene, scene], threshold=0.0, top=3)] == [
            found.text
        ] * 2
        assert found.draw().width >= scene.width
