"""Who claims which truth: every rule of the released evaluator on its own."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.lab.data.merged_truth import TruthImage
from regiontalk.lab.evaluation.matching import match
from regiontalk.results import Region

LEFT, RIGHT, FAR = (0.0, 0.0, 9.0, 9.0), (20.0, 0.0, 29.0, 9.0), (50.0, 50.0, 59.0, 59.0)


def truth(*boxes_xyxy: tuple[float, ...]) -> TruthImage:
    references = tuple((f"reference {n}",) for n in range(len(boxes_xyxy)))
    return TruthImage(
        "a.jpg", 100, 100, np.array(boxes_xyxy, dtype=float).reshape(-1, 4), references
    )


def seen(box: tuple[float, ...], score: float, caption: str = "c") -> Region:
    return Region(xyxy=box, score=score, caption=caption)


def test_the_best_scored_detection_claims_and_the_second_gets_nothing() -> None:
    found = match(truth(LEFT), [seen(LEFT, 0.1), seen((0, 0, 9, 8), 0.9)], plus_one=True)
    assert found.scores.tolist() == [0.9, 0.1]
    assert found.overlaps.tolist() == [pytest.approx(0.9), 0]  # the exact box came too late


def test_there_is_no_second_choice() -> None:
    # Both overlap LEFT most; the second also overlaps RIGHT, which stays free.
    wide = (0.0, 0.0, 22.0, 9.0)
    found = match(truth(LEFT, RIGHT), [seen(LEFT, 0.9), seen(wide, 0.8)], plus_one=True)
    assert found.overlaps.tolist() == [1, 0]


def test_any_overlap_uses_a_truth_up() -> None:
    corner = (9.0, 9.0, 40.0, 40.0)  # shares one pixel with LEFT
    found = match(truth(LEFT), [seen(corner, 0.9), seen(LEFT, 0.8)], plus_one=True)
    assert found.overlaps[0] == pytest.approx(1 / (100 + 32 * 32 - 1))
    assert found.overlaps[1] == 0


def test_touching_boxes_overlap_with_plus_one_alone() -> None:
    corner = (9.0, 9.0, 40.0, 40.0)
    found = match(truth(LEFT), [seen(corner, 0.9), seen(LEFT, 0.8)], plus_one=False)
    assert found.overlaps.tolist() == [0, 1]


def test_the_last_truth_slip() -> None:
    regions = [seen(FAR, 0.9), seen(RIGHT, 0.8), seen(LEFT, 0.7)]
    right = match(truth(LEFT, RIGHT), regions, plus_one=True)
    slipped = match(truth(LEFT, RIGHT), regions, plus_one=True, last_truth_slip=True)
    assert right.overlaps.tolist() == [0, 1, 1]
    assert slipped.overlaps.tolist() == [0, 0, 1]  # FAR overlaps nothing and took RIGHT, the last


def test_the_slip_does_nothing_when_the_last_truth_is_taken() -> None:
    regions = [seen(RIGHT, 0.9), seen(FAR, 0.8), seen(LEFT, 0.7)]
    assert match(truth(LEFT, RIGHT), regions, True, last_truth_slip=True).overlaps.tolist() == [
        1,
        0,
        1,
    ]


def test_equal_scores_are_ordered_by_box_then_caption() -> None:
    regions = [seen(RIGHT, 0.5, "b"), seen(LEFT, 0.5, "z"), seen(LEFT, 0.5, "a")]
    for given in (regions, regions[::-1]):
        found = match(truth(LEFT), given, plus_one=True)
        assert found.overlaps.tolist() == [1, 0, 0]
        assert found.claims == [("a", ("reference 0",))]


def test_of_equally_overlapped_truths_the_first_is_wanted() -> None:
    between = (10.0, 0.0, 19.0, 9.0)
    double = (0.0, 0.0, 29.0, 9.0)
    found = match(truth(LEFT, RIGHT, between), [seen(double, 0.9)], plus_one=True)
    assert found.claims == [("c", ("reference 0",))]


def test_only_captions_that_can_be_right_are_scored() -> None:
    poor = (0.0, 0.0, 29.0, 29.0)
    found = match(
        truth(LEFT, RIGHT), [seen(poor, 0.9, "poor box"), seen(RIGHT, 0.8, " ")], plus_one=True
    )
    assert found.claims == []
    assert found.overlaps[1] == 1  # the box is right all the same


def test_the_bag_has_each_caption_once_with_its_weight() -> None:
    found = match(
        truth(LEFT, RIGHT), [seen(FAR, s, c) for s, c in [(1, "x"), (2, "y"), (3, "x")]], True
    )
    assert found.bag_pairs == [
        ("x", ("reference 0", "reference 1")),
        ("y", ("reference 0", "reference 1")),
    ]
    assert found.bag_weights == [2, 1]


@pytest.mark.parametrize("slip", [False, True])
def test_nothing_to_match(slip: bool) -> None:
    nothing = match(truth(), [], True, slip)
    assert nothing.scores.shape == nothing.overlaps.shape == (0,)
    assert match(truth(), [seen(LEFT, 1)], True, slip).overlaps.tolist() == [0]
    assert match(truth(LEFT), [], True, slip).claims == []
