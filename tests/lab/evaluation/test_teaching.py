"""How well taught words are recognised, on made-up things."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.taught import Weights
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation import teaching
from regiontalk.lab.evaluation.teaching import (
    choose_words,
    enough,
    fit,
    halves,
    measure,
    without_examples,
)
from regiontalk.models.runtime import Floats
from taught_things import SIZE, a_space, things

EVERYDAY = a_space(seed=3).places


def words(noise: float) -> dict[str, Floats]:
    return {f"word {kind:02}": things(kind, 14, noise=noise) for kind in range(SIZE)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teaching, "REPEATS", 2)


def test_more_examples_and_clearer_things_are_recognised_better() -> None:
    space = a_space()
    clear, blurred = words(0.05), words(0.22)
    weights = fit(blurred, EVERYDAY, space)
    figures = measure(blurred, EVERYDAY, space, weights)["by_examples"]
    assert figures["1"]["right"] < figures["10"]["right"]
    of_clear = measure(clear, EVERYDAY, space, weights)["by_examples"]
    assert of_clear["3"]["right"] > figures["3"]["right"]
    for shares in figures.values():
        assert shares["right_and_said"] <= shares["right"]
        assert shares["right_and_said"] + shares["another_said"] <= 100


def test_the_fit_keeps_false_words_rare() -> None:
    space = a_space()
    loose = Weights(20.0, 0.0, 0.0, 0.0)
    before = measure(words(0.2), EVERYDAY, space, loose)["by_examples"]["3"]["false"]
    weights = fit(words(0.2), EVERYDAY, space)
    after = measure(words(0.2), EVERYDAY, space, weights)["by_examples"]["3"]["false"]
    assert after < 4 < before


def test_words_that_look_like_everything_cannot_be_fitted() -> None:
    with pytest.raises(DataError, match="cannot be told from everyday regions"):
        fit(words(2.0), EVERYDAY, a_space())


def test_words_with_few_examples_are_left_out() -> None:
    some = {"many": things(0, 12), "few": things(1, 3), "more": things(2, 12)}
    assert list(enough(some)) == ["many", "more"]
    with pytest.raises(DataError, match="1 words with 11 examples"):
        enough({"many": things(0, 12)})


def test_the_halves_share_no_word() -> None:
    first, second = halves(words(0.1))
    assert set(first) | set(second) == set(words(0.1))
    assert not set(first) & set(second)


def test_words_are_names_that_the_model_cannot_know() -> None:
    def record(name: str, kind: str = "whole") -> Record:
        regions = (TrueRegion((0, 0, 9, 9), name, kind), TrueRegion((0, 0, 9, 9), name, kind))
        return Record("a.jpg", 9, 9, regions=regions)

    names = {"Snare drum": 11, "rare": 10, "cow": 20, "brown-cow": 20}
    records = [record(name) for name, count in names.items() for _ in range(count)]
    records += [record("a harp", "phrase")] * 20
    assert choose_words(records, 5, 0, {"drum", "cow", "brown"}) == {"snare drum"}
    assert len(choose_words(records, 2, 0, set())) == 2
    chosen = teaching.photos_of(records * 3, {"snare drum"}, 0)
    assert len(chosen) == teaching.MAX_PHOTOS  # of 33
    assert {records[number % len(records)].regions[0].phrase for number in chosen} == {"Snare drum"}


def test_examples_are_no_background() -> None:
    space = a_space()
    codes = things(2, 5)
    examples = np.concatenate([space.places, space.place(codes)[:2]])
    left = without_examples(replace(space, places=examples), {"thing": codes})
    assert left.places == pytest.approx(space.places)
