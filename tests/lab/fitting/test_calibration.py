"""A calibration makes scores the shares of right regions they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.inference.calibration import calibrated
from regiontalk.lab.fitting.calibration import fit


def drawn(
    count: int, truth: tuple[float, float, float], seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and verdicts that are right as often as the calibration `truth` says."""
    generator = np.random.default_rng(seed)
    values = generator.beta(0.5, 3, count)
    return values, generator.random(count) < calibrated(values, truth)


@pytest.mark.parametrize("truth", [(1.0, 1.0, 0.5), (0.4, 5.0, -2.0), (2.0, 0.0, 1.0)])
def test_a_fit_finds_what_verdicts_were_drawn_from(truth: tuple[float, float, float]) -> None:
    found = fit(*drawn(40_000, truth))
    grid = np.linspace(0.01, 0.95, 50)
    np.testing.assert_allclose(calibrated(grid, found), calibrated(grid, truth), atol=0.03)


def test_scores_that_never_fail_stay_finite() -> None:
    found = fit(np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, False, True, True]))
    assert np.isfinite(found).all()
    low, high = calibrated(np.array([0.1, 0.9]), found)
    assert low < 0.5 < high


def test_zero_and_one_are_scores_too() -> None:
    found = fit(np.array([0.0, 0.0, 0.5, 1.0, 1.0]), np.array([False, True, False, True, False]))
    assert np.isfinite(calibrated(np.array([0.0, 1.0]), found)).all()


@pytest.mark.parametrize(("verdict", "said"), [(True, "right"), (False, "wrong")])
def test_verdicts_of_one_kind_are_refused(verdict: bool, said: str) -> None:
    with pytest.raises(DataError, match=f"all of 3 regions are {said}"):
        fit(np.array([0.1, 0.5, 0.9]), np.full(3, verdict))


def test_scores_that_mislead_are_refused() -> None:
    values, right = drawn(2000, (1.0, 1.0, 0.0))
    with pytest.raises(DataError, match="do not tell right regions"):
        fit(1 - values, right)
