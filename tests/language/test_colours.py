"""Which colours captions say, and what is left without some of them."""

from __future__ import annotations

import pytest

from regiontalk.language.colours import colours_said, with_likely_colours


@pytest.mark.parametrize(
    ("caption", "colours"),
    [
        ("a black dog", ["black"]),
        ("a white and black dog", ["white", "black"]),
        ("a man in a light blue shirt and grey pants", ["blue", "gray"]),
        ("a woman in red", ["red"]),
        ("an orange", []),
        ("two dogs and an orange on a plate", []),
        ("an orange and white cat", ["orange", "white"]),
        ("a blonde haired woman", ["blond"]),
        ("a dog in the snow", []),
        ("", []),
    ],
)
def test_colours_are_said_of_things(caption: str, colours: list[str]) -> None:
    assert colours_said(caption.split()) == colours


@pytest.mark.parametrize(
    ("caption", "unlikely", "left"),
    [
        ("a black dog", ["black"], "a dog"),
        ("a black dog", ["white"], "a black dog"),
        ("an orange dog", ["orange"], "a dog"),
        ("a black umbrella", ["black"], "an umbrella"),
        ("a white and black dog", ["black"], "a white dog"),
        ("a white and orange dog", ["white"], "an orange dog"),
        ("a white and black dog", ["black", "white"], "a dog"),
        ("a black and white spotted dog", ["white"], "a black spotted dog"),
        ("red white and blue flags", ["white"], "red and blue flags"),
        ("red white and blue flags", ["red"], "white and blue flags"),
        ("red white and blue flags", ["red", "blue"], "white flags"),
        ("a man in a dark blue shirt", ["blue"], "a man in a shirt"),
        ("a white and dark blue shirt", ["white"], "a dark blue shirt"),
        ("a white and dark blue shirt", ["blue"], "a white shirt"),
        ("a grey dog", ["gray"], "a dog"),
        ("a white haired woman", ["white"], "a woman"),
        ("a tan colored dog", ["tan"], "a dog"),
        ("a woman in red", ["red"], "a woman"),
        ("a woman in red and blue", ["red"], "a woman in blue"),
        ("a woman in red and a man", ["red"], "a woman and a man"),
        ("a man in red shorts", ["red"], "a man in shorts"),
        ("an orange", ["orange"], "an orange"),
        ("a black", ["black"], "a black"),
        ("a white and white ramp", [], "a white ramp"),
        ("a white and white ramp", ["white"], "a ramp"),
        ("an hour with a white hat", ["white"], "an hour with a hat"),
    ],
)
def test_captions_leave_out_unlikely_and_repeated_colours(
    caption: str, unlikely: list[str], left: str
) -> None:
    words = caption.split()
    places = with_likely_colours(words, unlikely)
    assert " ".join(places.values()) == left
    assert all(words[place] in (word, "a", "an") for place, word in places.items())


@pytest.mark.parametrize(
    ("caption", "unlikely", "said"),
    [
        ("a black dog", ["black"], "a brown dog"),
        ("an orange dog on grass", ["orange"], "a brown dog on grass"),
        ("a black and white dog", ["black", "white"], "a brown dog"),
        ("a black and white dog", ["black"], "a white dog"),
        ("a dark blue and white shirt", ["blue", "white"], "a brown shirt"),
        ("a dog with a black ball", ["black"], "a dog with a ball"),
        ("a black dog with a red ball", ["black", "red"], "a brown dog with a ball"),
        ("a light blue shirt", ["blue"], "a brown shirt"),
        ("a white haired dog", ["white"], "a brown dog"),
        ("a white man", ["white"], "a man"),
        ("a blond dog", ["blond"], "a dog"),
        ("a woman in red", ["red"], "a woman"),
        ("a dog", ["black"], "a dog"),
    ],
)
def test_the_thing_itself_has_the_likely_colour_instead(
    caption: str, unlikely: list[str], said: str
) -> None:
    assert " ".join(with_likely_colours(caption.split(), unlikely, "brown").values()) == said


def test_another_colour_has_its_article() -> None:
    said = with_likely_colours(["a", "black", "dog"], ["black"], "orange")
    assert list(said.values()) == ["an", "orange", "dog"]
