"""Regions fitted to their image."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.lab.data.records import TrueRegion
from regiontalk.lab.data.region_boxes import (
    NO_AREA,
    NO_PHRASE,
    Unusable,
    clamp,
    clamp_region,
    union,
)

WIDTH, HEIGHT = 60, 40
coordinates = st.floats(-100, 100, allow_nan=False)
boxes = st.tuples(coordinates, coordinates, coordinates, coordinates)


@given(boxes)
def test_a_clamped_box_lies_inside_and_has_area(box):
    clamped = clamp(box, WIDTH, HEIGHT)
    x0, y0, x1, y1 = box
    overlaps = max(x0, 0) < min(x1, WIDTH) and max(y0, 0) < min(y1, HEIGHT)
    assert (clamped is not None) == overlaps
    if clamped is not None:
        assert 0 <= clamped[0] < clamped[2] <= WIDTH
        assert 0 <= clamped[1] < clamped[3] <= HEIGHT
        assert clamp(clamped, WIDTH, HEIGHT) is clamped


@given(st.lists(boxes, min_size=2, max_size=5))
def test_a_plural_phrase_keeps_the_boxes_inside_and_their_union(several):
    inside = tuple(box for box in (clamp(box, WIDTH, HEIGHT) for box in several) if box is not None)
    region = TrueRegion(union(several), "two dogs", "animals", tuple(several), "7")
    if not inside:
        with pytest.raises(Unusable, match=NO_AREA):
            clamp_region(region, WIDTH, HEIGHT)
        return
    fitted = clamp_region(region, WIDTH, HEIGHT)
    assert fitted.xyxy == union(inside)
    assert fitted.boxes_xyxy == (inside if len(inside) > 1 else ())
    assert (fitted.phrase, fitted.type, fitted.entity) == ("two dogs", "animals", "7")


def test_a_region_inside_is_the_same_object():
    region = TrueRegion((0, 0, WIDTH, HEIGHT), "all of it")
    assert clamp_region(region, WIDTH, HEIGHT) is region


@pytest.mark.parametrize("phrase", ["", " \t"])
def test_a_phrase_must_say_something(phrase):
    with pytest.raises(Unusable, match=NO_PHRASE):
        clamp_region(TrueRegion((0, 0, 9, 9), phrase), WIDTH, HEIGHT)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("corner", range(4))
def test_a_coordinate_that_is_no_number_is_never_clamped(bad, corner):
    box = [1.0, 2.0, 30.0, 20.0]
    box[corner] = bad
    with pytest.raises(ValueError, match="not a number"):
        clamp_region(TrueRegion(tuple(box), "a dog"), WIDTH, HEIGHT)
