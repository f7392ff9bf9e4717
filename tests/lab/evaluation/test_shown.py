"""What is shown of a photo, against what people wrote of it."""

from __future__ import annotations

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.shown import ShownCounts, count_shown, evaluate_shown
from regiontalk.results import ImageRegions, Region, Shown

DOG = (0.0, 0.0, 40.0, 40.0)
BALL = (60.0, 60.0, 90.0, 90.0)
NOWHERE = (0.0, 60.0, 30.0, 99.0)
RECORD = Record(
    image="a.jpg",
    width=100,
    height=100,
    split="dev",
    entity_sentences=(
        "A black and white dog runs after a ball .",
        "There is a puppy with a ball .",
        "Two men watch .",
        "A ball in the grass .",
    ),
    regions=(
        TrueRegion(BALL, "a ball", entity="2", sentences=(0, 1, 3)),
        TrueRegion(DOG, "a black and white dog", entity="1", sentences=(0,)),
        TrueRegion(DOG, "a puppy", entity="1", sentences=(1,)),
    ),
)


def shown(*captions: tuple[tuple[float, float, float, float], str, float]) -> ImageRegions:
    regions = tuple(Region(box, 0.9, text, confidence=sure) for box, text, sure in captions)
    return ImageRegions("a.jpg", 100, 100, "", regions, Shown(confidence=0.7))


def test_captions_colours_and_first_things_are_counted() -> None:
    photo = shown(
        (DOG, "a white and brown dog", 0.9),
        (BALL, "a red frisbee", 0.8),
        (NOWHERE, "green grass", 0.7),
        (BALL, "a ball", 0.6),  # not shown
    )
    assert count_shown(photo, RECORD) == ShownCounts(
        captions=3,
        on_truths=2,
        right=1,
        colours=4,
        colours_with_truth=2,  # no phrase says the ball's colour
        colours_right=1,
        first_things=3,  # the men have no box
        first_things_named=2,  # the dog, twice
    )


def test_figures_are_shares_of_all_photos() -> None:
    counts = ShownCounts(3, 2, 1, 4, 2, 1, 4, 2)
    nothing = ShownCounts(1, 0, 0, 0, 0, 0, 0, 0)
    figures = evaluate_shown([counts, nothing])
    assert (figures["right"], figures["colours_right"], figures["first_things_named"]) == (
        50,
        50,
        50,
    )
    assert (figures["captions_per_photo"], figures["colours_per_photo"]) == (2, 2)
    assert set(figures["intervals"]) == {"right", "colours_right", "first_things_named"}
    with pytest.raises(DataError, match="no caption is shown"):
        evaluate_shown([ShownCounts(*[0] * len(ShownCounts._fields))])
