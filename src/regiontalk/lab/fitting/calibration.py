"""A `Calibration` fitted on regions that were judged right or wrong."""

from __future__ import annotations

import numpy as np

from regiontalk.errors import DataError
from regiontalk.inference.calibration import Scores, Verdicts, terms
from regiontalk.lab.fitting.regression import logistic_regression, smoothed
from regiontalk.models.settings import Calibration


def fit(scores: Scores, right: Verdicts) -> Calibration:
    """The calibration of highest likelihood."""
    if right.all() or not right.any():
        verdict = "right" if right.any() else "wrong"
        raise DataError(
            f"all of {len(right)} regions are {verdict}: there is nothing to calibrate with"
        )
    wanted = smoothed(right)
    all_terms = terms(scores)
    for used in (
        [0, 1, 2],
        [0, 2],
        [1, 2],
    ):  # a negative number is left out and the rest fitted again
        weights = np.zeros(3)
        weights[used] = logistic_regression(all_terms[used], wanted)
        if weights[0] >= 0 and weights[1] >= 0:
            return float(weights[0]), float(weights[1]), float(weights[2])
    raise DataError(
        "the scores do not tell right regions from wrong ones: they cannot be calibrated"
    )
