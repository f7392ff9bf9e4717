"""What the fits share: logistic regression, and numbers as they are stored."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference.calibration import Verdicts, sigmoid

Floats = NDArray[np.float64]

ROUNDS = 100
LAST_STEP = 1e-9
LONGEST_STEP = 2.0  # Newton's method may diverge where nearly all are right or wrong
DIGITS = 6  # of a stored number


def logistic_regression(columns: Floats, wanted: Floats) -> Floats:
    """By Newton's method: columns (K, N) and targets (N,) -> weights (K,)."""
    weights = np.zeros(len(columns))
    for _ in range(ROUNDS):
        found = sigmoid(weights @ columns)
        curvature = (columns * (found * (1 - found))) @ columns.T + 1e-9 * np.eye(len(columns))
        step = np.linalg.solve(curvature, columns @ (found - wanted))
        longest = float(np.abs(step).max())
        weights = weights - step * min(1.0, LONGEST_STEP / max(longest, LAST_STEP))
        if longest < LAST_STEP:
            break
    return weights


def smoothed(right: Verdicts) -> Floats:
    """Platt's targets, (n₊+1)/(n₊+2) and 1/(n₋+2) instead of 1 and 0: they keep a fit finite where
    right and wrong can be separated without error."""
    hits = int(right.sum())
    misses = int((~right).sum())
    return np.where(right, (hits + 1) / (hits + 2), 1 / (misses + 2))


def rounded(numbers: Floats) -> tuple[float, ...]:
    return tuple(float(f"{number:.{DIGITS}g}") for number in numbers.tolist())
