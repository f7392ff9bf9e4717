"""A `FindConfig` fitted on photos with phrases on boxes.

The weights that choose a region are a conditional logit: among the regions of a photo that shows a
phrase, the right ones get as much of the probability as can be (several may be right: McFadden's
choice among sets). Then logistic regression on whether the chosen region is right, with phrases
that are not there among them. The cut-off is where most of those are reported as absent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.inference.find import PhraseEvidence
from regiontalk.lab.evaluation.find import Sought
from regiontalk.lab.fitting.regression import (
    conditional_logit,
    logistic_regression,
    padded,
    rounded,
    smoothed,
)
from regiontalk.models.settings import FindConfig

NOTHING_SHARE = 0.8  # of the phrases that are not there and should not be found


def fit(sought: Sequence[Sought]) -> FindConfig:
    """What fits phrases that were looked for best."""
    pairs = [(one.evidence, one.right) for one in sought if one.evidence is not None]
    choosable = [(evidence, right) for evidence, right in pairs if right.any()]
    if not choosable or all(one.here for one in sought):
        raise DataError(
            "find cannot be fitted: too few phrases in the records", hint="regions with phrases"
        )
    fits, likelihoods, places = rounded(
        np.maximum(conditional_logit(*padded([_features(*pair) for pair in choosable])), 0.0)
    )
    chosen = FindConfig(fits, likelihoods, places)
    best = [(evidence.photo_fit, evidence.choices(chosen), right) for evidence, right in pairs]
    columns = np.array([(photo, choices.max(), 1.0) for photo, choices, _ in best]).T
    right = np.array([right[choices.argmax()] for _, choices, right in best])
    photo, choice, bias = rounded(logistic_regression(columns, smoothed(right)))
    config = replace(chosen, photo=max(photo, 0.0), choice=max(choice, 0.0), bias=bias)
    absent = [one.probabilities(config).max() for one in sought if not one.here]
    likely = min(math.ceil(1000 * float(np.quantile(absent, NOTHING_SHARE))) / 1000, 0.5)
    return replace(config, likely=likely)


def _features(
    evidence: PhraseEvidence, right: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(R, 3) and (R,)"""
    return np.stack([evidence.fits, evidence.likelihoods, evidence.places], axis=1), right
