from __future__ import annotations

import pytest

from regiontalk.language.head_nouns import head_noun, head_place, head_words, kinds_of


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("a man riding a horse", "a man"),
        ("a boy standing on a hill", "a boy"),
        ("a group of people in the snow", "people"),
        ("a hot dog on a plate", "a hot dog"),
        ("an orange shirt", "an orange shirt"),
        ("a red building in the background", "a red building"),
        ("a man painting a wall", "a man"),
        ("", ""),
    ],
)
def test_the_words_up_to_the_head_noun(caption: str, words: str) -> None:
    assert head_words(caption) == words.split()


@pytest.mark.parametrize(
    ("caption", "noun"),
    [
        ("a man riding a horse", "man"),
        ("two teddy bears on a bed", "teddy bear"),
        ("two boys", "boy"),
        ("a field of grass", "field"),
        ("jeans", "jeans"),
        ("a stuffed dog", "stuffed dog"),
        ("glasses", "glasses"),
        ("two", ""),
        ("", ""),
    ],
)
def test_the_noun_as_a_keyword(caption: str, noun: str) -> None:
    assert head_noun(caption) == noun


@pytest.mark.parametrize(
    ("noun", "kinds"),
    [
        ("puppy", ("animal", "dog")),
        ("dog", ("animal",)),
        ("woman", ("person",)),
        ("person", ()),
        ("taxi", ("vehicle", "car")),
        ("desk", ("furniture",)),  # of the class "dining table", but none
        ("bike", ("vehicle",)),  # a bicycle or a motorcycle
        ("jar", ()),  # a bottle, which is tableware, or a vase, which has no kind
        ("stuffed dog", ()),
        ("grass", ()),
    ],
)
def test_what_a_noun_is_a_kind_of(noun: str, kinds: tuple[str, ...]) -> None:
    assert kinds_of(noun) == kinds


def test_the_place_of_the_noun() -> None:
    """The word that a caption of one word is."""
    captions = ("a group of people in the snow", "two dogs running", "grass")
    assert [head_place(caption.split()) for caption in captions] == [3, 1, 0]
    assert head_place([]) == -1
