"""Taught words: which regions show them, and which word is said."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.inference.taught import (
    SURE,
    TaughtWords,
    Weights,
    are_parts,
    say_taught,
    without_parts,
)
from regiontalk.models.runtime import Floats
from regiontalk.results import Region
from taught_things import a_book, a_space, things

WEIGHTS = Weights(fit=20.0, usual=20.0, examples=0.0, bias=-3.0)


def taught(**words: Floats) -> TaughtWords:
    book = a_book(**words)
    return TaughtWords.of(book, book.codes, a_space(), WEIGHTS)


def test_one_example_is_enough_to_tell_a_thing_from_everyday_ones() -> None:
    known = taught(croissant=things(0))
    assert known.probabilities(things(0, 20, seed=1)).min() > SURE
    everyday = known.probabilities_at(a_space(seed=5).places)
    assert (everyday > SURE).mean() < 0.05


def test_the_likelier_of_two_words_wins_and_both_are_known() -> None:
    dogs = things(1, 5)
    rex = dogs + 0.6 * things(2, 5)
    known = taught(corgi=dogs, Rex=rex)
    a_corgi, his_photo = known.probabilities(np.concatenate([things(1, seed=9), rex[:1] * 1.1]))
    assert known.names == ("corgi", "Rex")
    assert a_corgi[0] > a_corgi[1]
    assert his_photo[1] > his_photo[0] > SURE  # a search for corgis finds him too


def test_a_region_closer_to_what_a_word_does_not_mean_is_not_it() -> None:
    bun = things(0) + 0.7 * things(3)
    assert taught(croissant=things(0, 3)).probabilities(bun)[0, 0] > SURE
    known = taught(croissant=things(0, 3), not_croissant=bun + 0.01)
    assert known.probabilities(bun)[0, 0] == 0
    assert known.probabilities(things(0, seed=4))[0, 0] > SURE


def test_a_word_with_only_wrong_examples_is_not_said() -> None:
    known = taught(mug=things(1), not_croissant=things(0))
    assert known.names == ("mug",)


def test_directions_along_which_examples_differ_count_less() -> None:
    light = np.zeros(16, np.float32)
    light[15] = 3.0
    shades = np.linspace(-1, 1, 8, dtype=np.float32)[:, None] * light  # a thing in any light
    known = taught(mug=things(0, 8) + shades, jug=things(1, 8) + shades)
    dark = things(2, 30, seed=8) - 0.9 * light  # other things, as dark as some mugs
    mugs = things(0, 30, seed=9) - 0.9 * light
    sharp = known.sharpened()
    assert sharp.names == ("mug", "jug")
    for one in (known, sharp):
        assert (one.probabilities(mugs).argmax(axis=1) == 0).mean() > 0.9
    gaps = [
        np.median(one.probabilities(mugs)[:, 0]) - np.median(one.probabilities(dark)[:, 0])
        for one in (known, sharp)
    ]
    assert gaps[1] > gaps[0] + 0.2


def test_words_with_one_example_each_are_as_before() -> None:
    known = taught(mug=things(0), jug=things(1), not_jug=things(2))
    codes = np.concatenate([things(kind, 5, seed=3) for kind in range(4)])
    sharp = known.sharpened().probabilities(codes)
    np.testing.assert_allclose(sharp, known.probabilities(codes), atol=1e-4)


def test_examples_are_checked_by_the_others() -> None:
    muddled = np.concatenate([things(0, 5), things(1, 1, seed=7)])  # the last one is a mug
    known = taught(croissant=muddled, mug=things(1, 5))
    checked = known.by_the_others()[0]
    assert checked[:5, 0].min() > SURE > checked[5, 0]
    assert checked[5, 1] > SURE  # and it looks like a mug
    assert taught(only=things(0)).by_the_others()[0][0, 0] == 0


def test_checking_without_itself_is_teaching_without_it() -> None:
    codes = things(0, 4, noise=0.3)
    checked = taught(croissant=codes, mug=things(1, 3)).by_the_others()[0][1, 0]
    rest = np.delete(codes, 1, axis=0)
    fewer = taught(croissant=rest, mug=things(1, 3))
    middle = fewer.middles[0]
    full = taught(croissant=codes, mug=things(1, 3))
    expected = WEIGHTS.fit * float(full.words[0].own[1] @ middle) + full.offsets[0]
    assert np.log(checked / (1 - checked)) == pytest.approx(expected, abs=1e-3)


def region(x0: float, y0: float, x1: float, y1: float, caption: str = "a dog") -> Region:
    return Region((x0, y0, x1, y1), 0.9, caption, -1.0, 0.8, "dog", 0.7)


def test_a_said_word_replaces_caption_and_name() -> None:
    regions = [region(0, 0, 10, 10), region(50, 50, 60, 60)]
    said = say_taught(regions, np.array([[0.2, 0.9], [0.4, 0.3]]), ["corgi", "Rex"])
    assert said[0].to_dict(0) == {
        "id": 0,
        "xyxy": [0, 0, 10, 10],
        "score": 0.9,
        "caption": "Rex",
        "confidence": 0.9,
        "name": "Rex",
        "name_confidence": 0.9,
        "taught": True,
    }
    assert said[1] is regions[1]


def test_of_equally_likely_words_the_first_is_said() -> None:
    (said,) = say_taught([region(0, 0, 9, 9)], np.array([[0.9, 0.9]]), ["corgi", "Rex"])
    assert said.caption == "a corgi"


def test_parts_and_surroundings_keep_their_captions() -> None:
    whole, part, far = region(0, 0, 100, 100), region(20, 20, 50, 50), region(200, 0, 300, 90)
    said = say_taught([whole, part, far], np.array([[0.8], [0.95], [0.7]]), ["mug"])
    assert [one.caption for one in said] == ["a dog", "a mug", "a mug"]
    boxes = np.array([one.xyxy for one in (whole, part, far)])
    assert without_parts(np.array([0.8, 0.95, 0.7]), boxes).tolist() == [0, 0.95, 0.7]
    assert are_parts(boxes[:0], np.zeros(0), np.zeros(0, dtype=np.intp)).shape == (0,)


def test_no_regions_are_no_problem() -> None:
    assert say_taught([], np.zeros((0, 1)), ["mug"]) == []
