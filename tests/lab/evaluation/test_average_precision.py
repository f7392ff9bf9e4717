from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regiontalk.lab.evaluation.average_precision import (
    RULES,
    Pool,
    curve,
    curves,
    hits_needed,
    mean_strict,
)

DENSECAP, JOINT = RULES["densecap"], RULES["joint"]


def ap(right: list[int], truths: int, protocol: str = "densecap") -> float:
    return float(curve(np.array(right, dtype=bool), truths, RULES[protocol]).mean())


def plain_ap(right: list[int], truths: int, levels: list[float], strict: bool) -> float:
    """The definition, level by level."""
    hits = np.cumsum(right)
    recall, precision = hits / truths, hits / np.arange(1, len(right) + 1)
    best = []
    for level in levels:
        reached = recall > level if strict else recall >= level
        best.append(precision[reached].max() if reached.any() else 0)
    return float(np.mean(best))


def test_by_hand() -> None:
    # right, wrong, right of two truths: precision 1 up to recall .5, then 2/3.
    assert ap([1, 0, 1], 2) == pytest.approx((51 * 1 + 50 * 2 / 3) / 101)


def test_half_found() -> None:
    assert ap([1], 2) == pytest.approx(51 / 101)


def test_the_joint_protocol_needs_more_than_the_level() -> None:
    # levels k/99 below .5: k = 0..49, so 50 of 100; recall .5 is not above .5
    assert ap([1], 2, "joint") == pytest.approx(50 / 100)
    # all found: recall 1 is above every level but the last
    assert ap([1, 1], 2, "joint") == pytest.approx(0.99)
    assert ap([1, 1], 2) == 1


def test_nothing_right_and_nothing_at_all() -> None:
    assert ap([0, 0], 2) == 0
    assert ap([], 2) == 0
    assert ap([], 0) == 0


def test_a_level_that_rounding_would_miss_is_reached() -> None:
    # 29 of 100: 0.29 * 100 is 28.999... in floating point
    assert hits_needed(100, DENSECAP).tolist() == list(range(101))
    assert ap([1] * 29, 100) == pytest.approx(30 / 101)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=30), st.integers(0, 10))
@settings(deadline=None)
def test_equals_the_definition(right: list[int], more: int) -> None:
    truths = sum(right) + more or 1
    levels = [
        level / 64 for level in range(65)
    ]  # exact in floating point, so the plain way is right too
    for strict in (False, True):
        rules = type(DENSECAP)(recall_steps=64, strict=strict)
        value = curve(np.array(right, dtype=bool), truths, rules).mean()
        assert value == pytest.approx(plain_ap(right, truths, levels, strict))


def test_iou_at_the_threshold_and_language_above_it() -> None:
    pool = Pool(np.array([0.3, 0.5]), np.array([0.05, 0.0]), 2)
    assert pool.right(0.3, 0.0, DENSECAP).tolist() == [True, False]  # language must be above 0
    assert pool.right(0.3, 0.05, DENSECAP).tolist() == [False, False]
    assert pool.right(0.5, -1.0, DENSECAP).tolist() == [
        False,
        True,
    ]  # boxes alone: any caption will do
    assert pool.right(0.5, -1.0, JOINT).tolist() == [False, False]  # IoU must be above
    assert pool.right(0.3, -1.0, JOINT).tolist() == [False, True]


def test_the_grid_has_boxes_alone_first() -> None:
    pool = Pool(np.array([0.65]), np.array([0.12]), 1)
    grid = curves(pool, DENSECAP).mean(axis=2)
    assert grid.shape == (5, 7)
    expected = np.array([1, 1, 1, 1, 0, 0, 0])  # .12 is above 0, .05 and .1
    assert np.array_equal(grid[:4], np.tile(expected, (4, 1)))
    assert not grid[4].any()  # .65 is below .7
    assert mean_strict(grid[:, 1:]) == pytest.approx(4 / 20)
