"""What things are called by one's own list of names."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import UsageError
from regiontalk.inference.name_list import Knowledge, NameList, a_few, read_known_names, say_names
from regiontalk.inference.taught import TaughtWords, Weights
from regiontalk.models.name_table import NameTable
from regiontalk.results import Region
from taught_things import SIZE, a_book, a_space, things

NAMES = ("schipperke", "pug", "pagoda", "cup")
TABLE = NameTable(
    "detector",
    NAMES,
    ("dog", "dog", "building", "cup"),
    np.eye(4, SIZE, dtype=np.float32),
    np.zeros(4, np.float32),
)
KNOWLEDGE = Knowledge(frozenset(["a", "woman", "field"]), TABLE, None)


def codes(*probabilities: float) -> np.ndarray:
    """(1, SIZE) The code of a region to which the table gives these probabilities."""
    code = np.zeros((1, SIZE), np.float32)
    code[0, :4] = np.log(probabilities)
    return code


def region(caption: str, confidence: float | None = 0.6, x0: float = 0) -> Region:
    return Region((x0, 0, x0 + 9, 9), 0.9, caption, -1.0, confidence, "cup", 0.8)


def test_names_are_understood_as_people_write_them() -> None:
    known, unknown = NameList.of(
        [
            "Pugs",
            "the  Schipperke",
            "meadow",
            "quokka",
            "",
            "women",
            "犬",
            "building",
            "quokka",
        ],
        KNOWLEDGE,
    ).split()
    assert known == ("Pugs", "the Schipperke", "meadow", "women", "building")
    assert unknown == ("quokka", "犬")


def test_a_wide_name_counts_the_kinds_that_are_not_on_the_list() -> None:
    listed = NameList.of(["dog", "pug"], KNOWLEDGE)
    np.testing.assert_allclose(
        listed.probabilities(codes(0.3, 0.4, 0.2, 0.1)), [[0.3, 0.4]], rtol=1e-5
    )
    np.testing.assert_allclose(listed.shares(codes(0.3, 0.4, 0.2, 0.1)), [[3 / 7, 4 / 7]], 1e-5)


def test_of_two_names_for_one_thing_the_first_counts_but_its_own_word_before() -> None:
    assert NameList.of(["beaker", "cup"], KNOWLEDGE).place_of("cup") == 1
    assert NameList.of(["pug"], KNOWLEDGE).place_of("dog") is None
    assert NameList.of(["the cup", "cups"], KNOWLEDGE).place_of("cup") == 0


def test_a_likely_name_replaces_the_caption_and_others_lose_their_name() -> None:
    listed = NameList.of(["pug"], KNOWLEDGE)
    every = np.concatenate([codes(0.1, 0.7, 0.1, 0.1), codes(0.1, 0.4, 0.1, 0.4)])
    pug, other = say_names([region("a field"), region("a field", x0=50)], every, listed)
    assert (pug.caption, pug.name, pug.logprob, pug.taught) == ("a pug", "pug", None, False)
    assert pug.confidence == pug.name_confidence == pytest.approx(0.7)
    assert (other.caption, other.confidence, other.name) == ("a field", 0.6, None)


def test_a_caption_that_says_the_name_is_kept() -> None:
    listed = NameList.of(["women", "meadow"], KNOWLEDGE)
    every = np.concatenate([codes(0.25, 0.25, 0.25, 0.25)] * 4)
    regions = [
        region("a woman in a red coat"),
        region("a field", x0=20),
        region("a woman", confidence=0.3, x0=40),
        region("a woman", confidence=None, x0=60),
    ]
    said = say_names(regions, every, listed)
    assert [(one.caption, one.name) for one in said] == [
        ("a woman in a red coat", "women"),
        ("a meadow", "meadow"),
        ("a woman", None),
        ("a woman", "women"),
    ]


def test_a_part_is_not_called_by_the_name_of_the_whole() -> None:
    listed = NameList.of(["cup"], KNOWLEDGE)
    whole, part = region("a cup"), region("a spoon")
    every = np.concatenate([codes(0.7, 0.1, 0.1, 0.1), codes(0.05, 0.05, 0.0001, 0.9)])
    said = say_names([whole, part], every, listed)
    assert [(one.caption, one.name) for one in said] == [("a cup", "cup"), ("a spoon", None)]


def test_taught_words_count_if_they_are_on_the_list() -> None:
    book = a_book(Rex=things(5, 3), cup=things(6, 3))
    weights = Weights(fit=20.0, usual=20.0, examples=0.0, bias=-3.0)
    taught = TaughtWords.of(book, book.codes, a_space(), weights)
    listed = NameList.of(["rex"], Knowledge(frozenset(), TABLE, taught))
    assert listed.split().known == ("rex",)
    every = np.concatenate([things(5, seed=1), things(6, seed=1)])
    rex, cup = say_names([region("a pug"), region("a bowl", x0=50)], every, listed)
    assert (rex.caption, rex.name, rex.taught) == ("a rex", "rex", True)
    assert (cup.caption, cup.name, cup.taught) == ("a bowl", None, False)


@pytest.mark.parametrize(
    ("names", "said"), [([], "empty"), (["  "], "empty"), (["pug", "quokka" * 99], "quokka")]
)
def test_a_list_that_cannot_be_used_is_refused(names: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_known_names(names, KNOWLEDGE)


def test_messages_show_a_few_names() -> None:
    assert a_few(["a", "b"]) == "'a', 'b'"
    assert a_few([str(number) for number in range(9)]).endswith("'4' and 4 more")
