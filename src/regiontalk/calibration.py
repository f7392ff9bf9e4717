"""Scores as probabilities: beta calibration (Kull, Silva Filho & Flach 2017), fitted on judged regions.

p = σ(a · ln s − b · ln(1 − s) + c), with a and b not negative, so that no order changes. a = b is Platt's
scaling of the logit; two numbers are needed because a product of two scores hardly comes near 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError

Scores = NDArray[np.float64]
Verdicts = NDArray[np.bool_]
Calibration = tuple[float, float, float]
"""a, b and c."""

UNCHANGED: Calibration = (1.0, 1.0, 0.0)
SMALLEST = 1e-9  # a score nearer to 0 or 1 than this counts as being this near
ROUNDS = 100
LAST_STEP = 1e-9
LONGEST_STEP = 2.0  # Newton's method may shoot off where nearly all are right or wrong


def calibrated(scores: Scores, calibration: Calibration) -> Scores:
    """Probabilities of being right, in the order of the scores."""
    if calibration == UNCHANGED:
        return scores
    a, b, c = calibration
    log, minus_log_rest, _ = _terms(scores)
    return _sigmoid(a * log + b * minus_log_rest + c)  # not as a product of matrices, where equals may come out unequal


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
    terms = _terms(scores)
    for used in ([0, 1, 2], [0, 2], [1, 2]):  # a negative number is left out and the rest fitted again
        weights = np.zeros(3)
        weights[used] = _maximise(terms[used], wanted)
        if weights[0] >= 0 and weights[1] >= 0:
            return float(weights[0]), float(weights[1]), float(weights[2])
    raise DataError("the scores do not tell right regions from wrong ones: they cannot be calibrated")


def _maximise(terms: Scores, wanted: Scores) -> Scores:
    """Logistic regression by Newton's method: terms (K, N) and targets (N,) -> weights (K,)."""
    weights = np.zeros(len(terms))
    for _ in range(ROUNDS):
        found = _sigmoid(weights @ terms)
        curvature = (terms * (found * (1 - found))) @ terms.T + 1e-9 * np.eye(len(terms))
        step = np.linalg.solve(curvature, terms @ (found - wanted))
        longest = float(np.abs(step).max())
        weights = weights - step * min(1.0, LONGEST_STEP / max(longest, LAST_STEP))
        if longest < LAST_STEP:
            break
    return weights


def _terms(scores: Scores) -> Scores:
    """(3, N): ln s, −ln(1 − s) and 1."""
    inside = np.clip(scores, SMALLEST, 1 - SMALLEST)
    return np.stack([np.log(inside), -np.log1p(-inside), np.ones_like(inside)])


def _sigmoid(values: Scores) -> Scores:
    probabilities: Scores = 1 / (1 + np.exp(-np.clip(values, -500, 500)))
    return probabilities
