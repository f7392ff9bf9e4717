"""Grounding: which phrases count, which region a phrase gets, and what is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.grounding import (
    Mention,
    TrueMention,
    choose_region,
    evaluate_grounding,
    true_mentions,
)

BOXES = np.array([[0, 0, 100, 80], [0, 0, 20, 20], [50, 40, 100, 80]], dtype=float)


def mention(
    fits: list[list[float]], xyxy: tuple[float, ...], types: tuple[str, ...] = ("people",)
) -> Mention:
    truth = TrueMention("photo", "x", (0, len(fits)), (xyxy[0], xyxy[1], xyxy[2], xyxy[3]), types)
    scores = np.array(fits)
    return Mention(truth, BOXES, scores, scores.argmax(axis=1))


def test_mentions_are_phrases_in_the_sentences_that_have_them() -> None:
    region = TrueRegion((1, 2, 3, 4), "A dog", "animals/other", sentences=(0, 1, 2))
    sentences = ("Look , a dog !", "Two dogs .", "A dog on a dog .")
    record = Record("a.jpg", 10, 10, regions=(region,), entity_sentences=sentences)
    found = list(true_mentions(record))
    assert [one.words for one in found] == [(1, 3), (0, 2)]
    assert [one.sentence for one in found] == [sentences[0], sentences[2]]
    assert found[0].types == ("animals", "other")
    assert found[0].xyxy == (1, 2, 3, 4)


def test_a_sentence_that_is_not_there_is_named() -> None:
    record = Record("a.jpg", 10, 10, regions=(TrueRegion((1, 2, 3, 4), "A dog", sentences=(0,)),))
    with pytest.raises(DataError, match=r"a\.jpg: 'A dog' should be in sentence 0 of 0"):
        list(true_mentions(record))


def test_records_without_such_phrases_have_none() -> None:
    plain = TrueRegion((0, 0, 1, 1), "a dog")
    assert not list(true_mentions(Record("a.jpg", 10, 10, regions=(plain,))))


def test_a_phrase_chooses_together_or_by_the_chain() -> None:
    fits = np.array([[0.0, 9.0], [5.0, 0.0], [5.0, 0.0]])
    assert choose_region(fits, (0, 3), None) == 0
    assert choose_region(fits, (0, 2), None) == 1
    assert choose_region(fits, (0, 3), 0.0) == 0
    assert choose_region(fits, (0, 1), 100.0) == 0, "the whole sentence stays together"


def test_the_chain_of_align_is_judged_beside_it() -> None:
    found = mention([[0, 1, 0], [0, 1, 0], [0, 1, 0]], (50, 40, 100, 80))
    result = evaluate_grounding(
        [replace(found, chain=np.array([1, 2, 2])), replace(found, chain=np.array([1, 1, 2]))]
    )
    assert (result["accuracy"], result["chain"]["accuracy"], result["chain"]["mentions"]) == (
        0.0,
        0.5,
        2,
    )


def test_right_and_pointed_at() -> None:
    result = evaluate_grounding(
        [
            mention([[0, 1, 0]], (0, 0, 20, 25)),  # found
            mention(
                [[0, 1, 0]], (0, 0, 40, 40), ("people", "other")
            ),  # too small, but in the middle of it
            mention([[0, 1, 0]], (60, 50, 100, 80), ("other",)),  # elsewhere
        ]
    )
    assert (result["accuracy"], result["pointing"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (result["types"]["people"]["accuracy"], result["types"]["people"]["mentions"]) == (
        0.5,
        2,
    )
    assert (result["types"]["other"]["accuracy"], result["types"]["other"]["pointing"]) == (0, 0.5)
    assert result["mentions"] == 3


def test_baselines_need_no_model() -> None:
    result = evaluate_grounding(
        [mention([[0, 1, 0]], (50, 40, 100, 80)), mention([[0, 1, 0]], (0, 0, 100, 80))]
    )
    accuracy = {name: one["accuracy"] for name, one in result["baselines"].items()}
    assert accuracy == {
        "random region": pytest.approx(1 / 3),
        "centre box": 0.0,
        "largest region": 0.5,
        "whole photo": 0.5,
        "best region there is": 1.0,
    }
    assert result["baselines"]["whole photo"]["pointing"] == 1.0, (
        "its centre is on the first phrase's corner"
    )


def test_the_centre_box_is_half_as_wide_and_high() -> None:
    result = evaluate_grounding([mention([[1, 0, 0]], (25, 20, 75, 60))])
    assert result["baselines"]["centre box"]["accuracy"] == 1.0


def test_nothing_to_look_for() -> None:
    with pytest.raises(DataError, match="no phrase"):
        evaluate_grounding([])
