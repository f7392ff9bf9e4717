"""A `Calibration` fitted on regions that were judged right or wrong."""

from __future__ import annotations

import numpy as np

from regiontalk.calibration import Calibration, Scores, Verdicts, sigmoid, terms
from regiontalk.errors import DataError

ROUNDS = 100
LAST_STEP = 1e-9
LONGEST_STEP = 2.0  # Newton's method may shoot off where nearly all are right or wrong


def fit(scores: Scores, right: Verdicts) -> Calibration:
    """The calibration of highest likelihood.

    Platt's smoothed targets, (n₊+1)/(n₊+2) and 1/(n₋+2) instead of 1 and 0, keep it finite where a score tells
    right from wrong without fail.
    """
    hits, misses = int(right.sum()), int((~right).sum())
    if not hits or not misses:
        verdict = "wrong" if misses else "right"
        raise DataError(f"all of {len(right)} regions are {verdict}: there is nothing to calibrate with")
    wanted = np.where(right, (hits + 1) / (hits + 2), 1 / (misses + 2))
    all_terms = terms(scores)
    for used in ([0, 1, 2], [0, 2], [1, 2]):  # a negative number is left out and the rest fitted again
        weights = np.zeros(3)
        weights[used] = _maximise(all_terms[used], wanted)
        if weights[0] >= 0 and weights[1] >= 0:
            return float(weights[0]), float(weights[1]), float(weights[2])
    raise DataError("the scores do not tell right regions from wrong ones: they cannot be calibrated")


def _maximise(columns: Scores, wanted: Scores) -> Scores:
    """Logistic regression by Newton's method: columns (K, N) and targets (N,) -> weights (K,)."""
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
