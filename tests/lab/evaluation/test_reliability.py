"""Judging regions, and what a reliability diagram says of their scores."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.reliability import (
    Bin,
    draw_reliability,
    expected_error,
    joined,
    judge,
    judge_words,
    reliability,
    summary,
)
from regiontalk.results import ImageRegions, Region


def record(*boxes: tuple[float, float, float, float], width: int = 100) -> Record:
    return Record(
        "a.jpg", width, width, "dev", regions=tuple(TrueRegion(box, "a thing") for box in boxes)
    )


def regions(*boxes: tuple[float, float, float, float], width: int = 100) -> ImageRegions:
    found = tuple(Region(box, 0.9 - 0.1 * number, "a thing") for number, box in enumerate(boxes))
    return ImageRegions("", width, width, "model", found)


def test_right_is_half_an_overlap_with_any_truth() -> None:
    truth = record((0, 0, 10, 10), (50, 50, 90, 90))
    judged = judge(
        regions((0, 0, 10, 5), (0, 0, 10, 4.9), (50, 50, 90, 90), (52, 50, 90, 90)), truth
    )
    assert judged.right.tolist() == [True, False, True, True]
    assert judged.scores.tolist() == pytest.approx([0.9, 0.8, 0.7, 0.6])


def test_photos_without_truths_or_regions_count() -> None:
    judged = joined(
        [judge(regions((0, 0, 10, 10)), record()), judge(regions(), record((0, 0, 10, 10)))]
    )
    assert (judged.right.tolist(), judged.photos) == ([False], 2)


def test_words_are_judged_where_people_said_what_there_is() -> None:
    truth = Record("a.jpg", 100, 100, "dev", regions=(TrueRegion((0, 0, 10, 10), "a brown dog"),))
    near, off = (0.0, 0.0, 10.0, 6.0), (50.0, 50.0, 90.0, 90.0)
    found = (
        Region(near, 0.9, "a dog", confidence=0.7),
        Region(near, 0.8, "a cat", confidence=0.4),
        Region(off, 0.7, "a dog", confidence=0.9),  # nobody said what is there
        Region(near, 0.6, "a dog"),  # the model does not know
    )
    judged = judge_words(ImageRegions("", 100, 100, "model", found), truth)
    assert (judged.scores.tolist(), judged.right.tolist(), judged.photos) == (
        [0.7, 0.4],
        [True, False],
        1,
    )
    nothing = joined([])
    assert (len(nothing.scores), nothing.photos) == (0, 0)


def test_a_photo_may_have_other_pixels_than_its_record() -> None:
    judged = judge(regions((100, 100, 180, 180), width=200), record((50, 50, 90, 90)))
    assert judged.right.tolist() == [True]


def test_bins_and_the_expected_error() -> None:
    scores = np.array([0.05, 0.06, 0.55, 0.55, 1.0])
    right = np.array([False, False, True, False, True])
    bins = reliability(scores, right)
    assert [(one.low, one.count, one.right) for one in bins] == [
        (0.0, 2, 0.0),
        (0.5, 2, 0.5),
        (0.9, 1, 1.0),
    ]
    assert expected_error(bins) == pytest.approx((0.11 + 2 * 0.05) / 5)
    assert expected_error([]) == 0


def test_the_summary_says_what_a_threshold_leaves() -> None:
    judged = joined(
        [judge(regions((0, 0, 10, 10), (50, 0, 60, 10), (0, 50, 9, 60)), record((0, 0, 10, 10)))]
        * 2
    )
    figures = summary(judged, judged.scores, threshold=0.75)
    assert (figures["regions_per_photo"], figures["right"]) == (2.0, 0.5)
    assert summary(judged, judged.scores, threshold=0.95)["right"] is None


def test_the_picture_has_a_dot_for_every_bin() -> None:
    bins = [Bin(0.0, 90, 0.05, 0.1), Bin(0.9, 10, 0.95, 1.0)]
    picture = ET.fromstring(draw_reliability({"before": bins, "after <b>": bins[:1], "empty": []}))
    name = "{http://www.w3.org/2000/svg}"
    dots = picture.findall(f".//{name}circle")
    assert len(dots) == 3
    places = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in dots]
    assert places[0][0] < places[1][0]
    assert places[0][1] > places[1][1], "a larger share stands higher"
    assert "after <b>" in [text.text for text in picture.iter(f"{name}text")]
