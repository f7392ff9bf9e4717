from __future__ import annotations

import numpy as np
import pytest

from regiontalk.boxes import Integers
from regiontalk.lab.evaluation.intervals import bootstrap, bootstrap_photos, bootstrap_shares


def test_a_share_has_the_interval_of_the_binomial() -> None:
    right = np.arange(400) < 100

    def share(sample: Integers) -> dict[str, float]:
        return {"share": float(right[sample].mean())}

    ((low, high),) = bootstrap(len(right), share).values()
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)
    assert (low, high) == (
        pytest.approx(0.25 - half, abs=0.01),
        pytest.approx(0.25 + half, abs=0.01),
    )
    assert bootstrap(len(right), share) == {"share": [low, high]}


def test_what_never_varies_has_no_width() -> None:
    assert bootstrap(5, lambda _: {"always": 3.0}, resamples=10) == {"always": [3.0, 3.0]}


def test_a_photo_is_drawn_with_all_of_its_items() -> None:
    def figures(times: Integers) -> dict[str, float]:
        return {"apart": float(abs(times[0] - times[2])), "drawn": float(times[:2].sum())}

    intervals = bootstrap_photos(["a", "b", "a"], figures)
    assert intervals["apart"] == [0.0, 0.0]
    assert intervals["drawn"] == [2.0, 2.0]


def test_shares_vary_with_photos_and_not_with_items() -> None:
    """A hundred phrases of a photo that are all right are one observation."""
    photos = [f"photo {number // 100}" for number in range(400)]
    right = [number < 200 for number in range(400)]
    ((low, high),) = bootstrap_shares(photos, {"right": right}).values()
    assert (low, high) == (0.0, 1.0)
    ((low, high),) = bootstrap_shares(range(400), {"right": right}).values()
    assert (low, high) == (pytest.approx(0.451, abs=0.01), pytest.approx(0.549, abs=0.01))


def test_an_infinite_figure_can_be_an_end() -> None:
    ranks = np.array([1.0, np.inf])
    intervals = bootstrap(2, lambda sample: {"median": float(np.median(ranks[sample]))})
    assert intervals == {"median": [1.0, np.inf]}
