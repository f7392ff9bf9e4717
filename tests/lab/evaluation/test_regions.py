from __future__ import annotations

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.files import Problems
from regiontalk.lab.evaluation.regions import evaluate_regions
from regiontalk.results import BoxXYXY, ImageRegions, Region

A: BoxXYXY = (0.0, 0.0, 30.0, 30.0)
B: BoxXYXY = (50.0, 50.0, 90.0, 90.0)


def record(*regions: TrueRegion) -> Record:
    return Record("a.jpg", 100, 100, regions=regions)


def predicted(*regions: tuple[BoxXYXY, str]) -> ImageRegions:
    return ImageRegions(
        "a.jpg", 100, 100, "", tuple(Region(box, 1.0, text) for box, text in regions)
    )


TRUTH = record(TrueRegion(A, "a red dog"), TrueRegion(B, "green grass"), TrueRegion(A, "the dog"))


def test_phrases_on_about_the_same_box_are_references_of_one_region() -> None:
    """True boxes are merged as `evaluate dense` merges them."""
    near = (0.0, 0.0, 30.0, 34.0)
    truth = record(TrueRegion(A, "a red dog"), TrueRegion(near, "the dog"), TrueRegion(B, " "))
    for said in ("a red dog", "the dog"):
        scores = evaluate_regions([truth], [predicted(((0.0, 0.0, 30.0, 32.0), said))])
        assert scores["bleu1"] == pytest.approx(1)
        assert scores["sentences"] == 1


def test_captions_are_found_by_their_box() -> None:
    rounded = (50.2, 49.9, 90.1, 90.0)
    scores = evaluate_regions([TRUTH], [predicted((rounded, "green grass"), (A, "the dog"))])
    assert scores["bleu1"] == pytest.approx(1)
    assert scores["sentences"] == 2
    assert scores["missing"] == 0


def test_a_region_without_a_caption_counts_as_wrong_and_is_named() -> None:
    heard: list[str] = []
    scores = evaluate_regions(
        [TRUTH], [predicted((A, "a red dog"))], problems=Problems(tell=heard.append)
    )
    assert scores["rouge_l"] == pytest.approx(0.5)
    assert scores["missing"] == 1
    assert heard == [f"a.jpg: no prediction at {list(B)}; it counts as wrong"]


def test_boxes_that_a_model_chose_are_an_error() -> None:
    with pytest.raises(DataError, match="no predicted box") as caught:
        evaluate_regions([TRUTH], [predicted(((5.0, 5.0, 40.0, 40.0), "a dog"))])
    assert "evaluate dense" in str(caught.value.hint)
