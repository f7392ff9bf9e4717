from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.merged_truth import true_boxes, truth_of, truths_by_path
from regiontalk.lab.data.records import Record, TrueRegion


def record(*regions: TrueRegion) -> Record:
    return Record(image="a.jpg", width=100, height=100, regions=regions)


def region(
    x0: float, y0: float, x1: float, y1: float, phrase: str = "x", *phrases: str
) -> TrueRegion:
    return TrueRegion(xyxy=(x0, y0, x1, y1), phrase=phrase, phrases=phrases)


def test_overlapping_boxes_become_their_mean_with_all_references() -> None:
    truth = truth_of(
        record(region(0, 0, 10, 10, "a"), region(50, 50, 60, 60, "b"), region(0, 0, 10, 11, "c"))
    )
    assert truth.boxes_xyxy.tolist() == [[0, 0, 10, 10.5], [50, 50, 60, 60]]
    assert truth.references == (("a", "c"), ("b",))
    assert truth.bag == ("a", "c", "b")


def test_the_box_with_most_neighbours_merges_first() -> None:
    # In a row, each 20 wide and shifted by 2: IoU with the next .82, with the next but one .67.
    # The middle three have two neighbours each; the first of them takes its two.
    rows = [region(shift, 0, shift + 20, 20, str(shift)) for shift in (0, 2, 4, 6, 8)]
    truth = truth_of(record(*rows), plus_one=False)
    assert truth.references == (("0", "2", "4"), ("6", "8"))
    assert truth.boxes_xyxy[0].tolist() == [2, 0, 22, 20]


def test_plus_one_decides_at_the_edge() -> None:
    # 10 and 14 wide: IoU 10/14 = .714 without, 11/15 = .733 with the last pixel; 7 and 10: .7 and
    # .727
    at_edge = record(region(0, 0, 6.9, 10, "a"), region(0, 0, 10, 10, "b"))
    assert len(truth_of(at_edge, plus_one=False).references) == 2
    assert len(truth_of(at_edge, plus_one=True).references) == 1


def test_merged_truth_is_taken_as_it_is() -> None:
    merged = record(region(0, 0, 10, 10, "a", "a", "b"), region(0, 0, 10, 10, "c", "c"))
    truth = truth_of(merged)
    assert truth.references == (("a", "b"), ("c",))


def test_boxes_without_area_are_dropped_on_demand() -> None:
    bad = record(
        region(5, 5, 5, 9, "thin"), region(9, 9, 3, 3, "inside out"), region(0, 0, 9, 9, "good")
    )
    assert truth_of(bad, drop_invalid=True).references == (("good",),)
    assert len(truth_of(bad).references) == 3


def test_blank_phrases_are_no_references_but_the_box_stays() -> None:
    truth = truth_of(record(region(0, 0, 10, 10, "  ")))
    assert truth.references == ((),)
    assert truth.bag == ()


def test_an_image_without_regions() -> None:
    truth = truth_of(record())
    assert truth.boxes_xyxy.shape == (0, 4)
    assert np.isfinite(truth.boxes_xyxy).all()


def test_an_image_may_stand_in_the_truth_once() -> None:
    with pytest.raises(DataError, match="twice"):
        truths_by_path([truth_of(record()), truth_of(record())])


def test_true_boxes_are_the_merged_ones_that_lie_in_the_photo() -> None:
    inside, twice, outside = (
        region(0, 0, 10, 10, "a"),
        region(0, 0, 10, 12, "b"),
        region(500, 0, 600, 10, "c"),
    )
    assert true_boxes(record(inside, twice, outside, region(5, 5, 5, 9, "d"))).tolist() == [
        [0, 0, 10, 11]
    ]
    assert true_boxes(record()).shape == (0, 4)
