"""Anchors fitted to a data set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regiontalk import boxes
from regiontalk.errors import DataError
from regiontalk.lab.data.anchors import PAPER_ANCHORS, box_shapes, fit_anchors, shape_iou
from regiontalk.lab.data.records import Record, TrueRegion


def make_record(*corners: tuple[float, ...], size: tuple[int, int] = (200, 100)) -> Record:
    return Record("a.jpg", *size, regions=tuple(TrueRegion(box, "x") for box in corners))


def test_shapes_are_in_pixels_of_the_resized_photo():
    records = [
        make_record((0, 0, 20, 10), (5, 5, 5.5, 50)),
        make_record((10, 20, 30, 100), size=(100, 400)),
    ]
    assert box_shapes(records, 400).tolist() == [[40, 20], [20, 80]]  # one is too thin to count


def test_no_regions_no_anchors():
    with pytest.raises(DataError, match="no regions"):
        box_shapes([make_record()], 400)


def test_clusters_are_found():
    random = np.random.default_rng(0)
    centres = np.array([[20.0, 20.0], [60.0, 30.0], [40.0, 120.0], [300.0, 200.0]])
    shapes = np.concatenate([centre * random.uniform(0.95, 1.05, (50, 2)) for centre in centres])
    found = fit_anchors(shapes[random.permutation(200)], 4)
    np.testing.assert_allclose(found, centres, rtol=0.05)


def test_small_ones_come_first_and_the_answer_is_always_the_same():
    shapes = np.random.default_rng(1).uniform(10, 400, (300, 2))
    first, second = fit_anchors(shapes, 12), fit_anchors(shapes.copy(), 12)
    assert np.array_equal(first, second)
    assert (np.diff(first.prod(axis=1)) >= 0).all()
    assert first.shape == (12, 2)


def test_fitted_anchors_fit_better_than_the_papers():
    shapes = np.random.default_rng(2).uniform(8, 60, (400, 2))
    fitted, paper = fit_anchors(shapes, 12), np.array(PAPER_ANCHORS, dtype=float)
    assert (
        shape_iou(shapes, fitted).max(axis=1).mean()
        > 0.8
        > shape_iou(shapes, paper).max(axis=1).mean() + 0.2
    )


def test_more_anchors_than_shapes():
    found = fit_anchors(np.array([[10.0, 20.0], [30.0, 40.0]]), 5)
    assert found.shape == (5, 2)
    assert np.isfinite(found).all()
    assert (found > 0).all()


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_shape_iou_is_that_of_boxes_at_one_corner(seed):
    random = np.random.default_rng(seed)
    a, b = random.uniform(1, 100, (4, 2)), random.uniform(1, 100, (3, 2))
    corners = [np.concatenate([np.zeros_like(sides), sides], axis=1) for sides in (a, b)]
    np.testing.assert_allclose(shape_iou(a, b), boxes.iou(*corners))
