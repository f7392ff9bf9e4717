from __future__ import annotations

import numpy as np
import pytest

from regiontalk.lab.data.merged_truth import TruthImage
from regiontalk.lab.evaluation.average_precision import RULES
from regiontalk.lab.evaluation.language import UnigramF1
from regiontalk.lab.evaluation.reference_scores import (
    best_constant_caption,
    leave_one_out,
    measure_references,
)

RULE = RULES["densecap"]


def truth(path: str, *references: tuple[str, ...]) -> TruthImage:
    return TruthImage(path, 100, 100, np.zeros((len(references), 4)), references)


def test_the_constant_caption_is_the_one_that_does_best() -> None:
    references = [("a man",), ("a man",), ("a red car",), ("the dog",), ("a man in a hat",)]
    assert best_constant_caption(references, UnigramF1(), RULE) == "a man"


def test_case_does_not_split_the_count() -> None:
    assert best_constant_caption([("A man",), ("a man",), ("b dog",)], UnigramF1(), RULE) == "a man"


def test_each_person_is_left_out_in_turn() -> None:
    assert leave_one_out([("a", "b"), ("alone",), ("c", "d", "e"), ("f", "g")]) == [
        ("a", ["b"]),
        ("d", ["c", "e"]),
        ("f", ["g"]),
    ]


def test_both_scores_by_hand() -> None:
    found = measure_references([truth("b", ("x", "x")), truth("a", ("y", "x"))], UnigramF1(), RULE)
    # by path: truth "a" first. "x" is right everywhere.
    assert found["constant"] == {"caption": "x", "map": 1, "map_strict": 1}
    # person 0 of "a" says "y" against "x": wrong; person 1 of "b" says "x" against "x": right.
    # One right at rank 2 of two: precision 1/2 up to recall 1/2.
    assert found["human"]["truths"] == 2
    assert found["human"]["map"] == pytest.approx(51 / 101 / 2)


def test_truths_without_words_give_no_score() -> None:
    assert measure_references([truth("a", ()), truth("b")], UnigramF1(), RULE) == {}


def test_one_reference_each_gives_no_human() -> None:
    assert set(measure_references([truth("a", ("x",), ())], UnigramF1(), RULE)) == {"constant"}
