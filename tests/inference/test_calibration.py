"""Calibration changes no order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.inference.calibration import calibrated
from regiontalk.models.settings import UNCHANGED

scores = st.lists(st.floats(0, 1), min_size=2, max_size=30).map(
    lambda values: np.array(sorted(values))
)
numbers = st.tuples(st.floats(0, 20), st.floats(0, 20), st.floats(-20, 20))


@given(scores, numbers)
def test_probabilities_keep_the_order(
    values: np.ndarray, calibration: tuple[float, float, float]
) -> None:
    found = calibrated(values, calibration)
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found) >= 0).all()


@given(scores)
def test_unchanged_is_unchanged(values: np.ndarray) -> None:
    assert calibrated(values, UNCHANGED) is values
