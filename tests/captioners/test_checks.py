"""What captioners answer: what is used, and the one line about what cannot be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

from regiontalk.captioners.checks import asked, to_given_regions, to_regions
from regiontalk.errors import ModelError, UsageError

SIZE = (100, 50)
FINE = ((10, 10, 20, 20), "a dog", 0.5)


def test_the_best_region_comes_first_and_rounding_is_clipped() -> None:
    regions = to_regions([FINE, ((-0.5, 0, 100.7, 50), " a\n red  cat ", 0.9)], SIZE)
    assert [region.caption for region in regions] == ["a red cat", "a dog"]
    assert regions[0].xyxy == (0, 0, 100, 50)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (None, "it gave NoneType, not a list of regions"),
        ("a dog", "it gave str, not a list of regions"),
        ([FINE, ((0, 0, 9, 9), "a dog")], "region 1 is .* must be a tuple of box, caption, score"),
        ([((0, 0, 9), "a dog", 0.5)], r"region 0: the box is \(0, 0, 9\), not four numbers"),
        ([((0, 0, math.nan, 9), "a dog", 0.5)], "has a side that is not a number"),
        ([((0, 0, math.inf, 9), "a dog", 0.5)], "has a side that is not a number"),
        ([((0, 0, 102, 9), "a dog", 0.5)], "is outside of the photo of 100×50 pixels"),
        ([((-2, 0, 9, 9), "a dog", 0.5)], "is outside of the photo"),
        ([((9, 0, 9, 9), "a dog", 0.5)], "is empty; its sides are left, top, right, bottom"),
        ([((99, 49, 0, 0), "a dog", 0.5)], "is empty; its sides are left, top, right, bottom"),
        ([((0, 0, 0.5, 1.0), "a dog", 0.5)], "boxes are in pixels, not fractions"),
        ([((0, 0, 9, 9), "  ", 0.5)], "region 0: the caption is '  ', not words"),
        ([((0, 0, 9, 9), None, 0.5)], "region 0: the caption is None, not words"),
        ([((0, 0, 9, 9), "x" * 1001, 0.5)], "region 0: a caption of 1001 characters; 'xxx"),
        (itertools.repeat(FINE), "more than 10000 regions"),  # it never ends
        ([((0, 0, 9, 9), "a dog", None)], "region 0: the score is None, not a number from 0 to 1"),
        ([((0, 0, 9, 9), "a dog", math.nan)], "region 0: the score is nan, not a number"),
        ([((0, 0, 9, 9), "a dog", 1.5)], "region 0: the score is 1.5, not a number"),
    ],
)
def test_nonsense_is_one_line(answer: Any, line: str) -> None:
    with pytest.raises(ModelError, match=line) as caught:
        asked("toy", "dog.jpg", lambda: to_regions(answer, SIZE))
    assert caught.value.message.startswith("the model 'toy' on dog.jpg: ")
    assert "\n" not in caught.value.message


def test_a_photo_of_one_pixel_has_boxes_of_one_pixel() -> None:
    (region,) = to_regions([((0, 0, 1, 1), "a dot", 0.5)], (1, 1))
    assert region.xyxy == (0, 0, 1, 1)


def test_every_given_box_needs_a_caption() -> None:
    boxes = [(0.0, 0.0, 9.0, 9.0), (1.0, 1.0, 5.0, 5.0)]
    regions = to_given_regions([("a cat", 0.1), ("a dog", 0.9)], boxes)
    assert [(region.xyxy, region.caption) for region in regions] == [
        (boxes[0], "a cat"),
        (boxes[1], "a dog"),
    ]
    with pytest.raises(ModelError, match="1 captions for 2 boxes"):
        asked("toy", "", lambda: to_given_regions([("a cat", 0.1)], boxes))


def test_what_a_captioner_raises_is_one_line_too() -> None:
    def failing(error: BaseException) -> Callable[[], None]:
        def ask() -> None:
            raise error

        return ask

    with pytest.raises(ModelError, match=r"'toy' failed on dog.jpg: KeyError: 'weights'"):
        asked("toy", "dog.jpg", failing(KeyError("weights")))
    with pytest.raises(ModelError) as caught:
        asked("toy", "dog.jpg", failing(RuntimeError("one\ntwo")))
    assert "\n" not in caught.value.message
    with pytest.raises(ModelError, match=r"'toy' failed on dog\.jpg: SystemExit: 2"):
        asked("toy", "dog.jpg", failing(SystemExit(2)))
    with pytest.raises(UsageError):  # an error of this package says what it means
        asked("toy", "dog.jpg", failing(UsageError("boxes")))
    with pytest.raises(MemoryError):
        asked("toy", "dog.jpg", failing(MemoryError()))
