"""Scores as probabilities: beta calibration (Kull, Silva Filho & Flach 2017).

p = σ(a · ln s − b · ln(1 − s) + c), with a and b not negative, so that the order is kept. a = b is
Platt scaling of the logit; two numbers are needed because a product of two scores is rarely close
to 1. `lab.fitting.calibration` fits them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk.models.settings import UNCHANGED, Calibration

Scores = NDArray[np.float64]
Verdicts = NDArray[np.bool_]

MIN_SCORE = 1e-9  # scores are clipped to this distance from 0 and 1


def calibrated(scores: Scores, calibration: Calibration) -> Scores:
    """Probabilities of being right, in the order of the scores."""
    if calibration == UNCHANGED:
        return scores
    a, b, c = calibration
    log, minus_log_rest, _ = terms(scores)
    # Not a matrix product, which may give different results for equal scores.
    return sigmoid(a * log + b * minus_log_rest + c)


def terms(scores: Scores) -> Scores:
    """(3, N): ln s, −ln(1 − s) and 1."""
    inside = np.clip(scores, MIN_SCORE, 1 - MIN_SCORE)
    return np.stack([np.log(inside), -np.log1p(-inside), np.ones_like(inside)])


def sigmoid(values: NDArray[np.floating]) -> Scores:
    probabilities: Scores = 1 / (1 + np.exp(-np.clip(values.astype(np.float64), -500, 500)))
    return probabilities
