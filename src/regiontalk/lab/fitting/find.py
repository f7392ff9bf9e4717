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
from regiontalk.lab.fitting.regression import logistic_regression, rounded, smoothed
from regiontalk.lab.fitting.search import NOTHING_SHARE
from regiontalk.models.settings import FindConfig

ROUNDS = 50
LAST_STEP = 1e-6
IMPOSSIBLE = -1e9  # of a row that is no region

Floats = NDArray[np.float64]


def fit(sought: Sequence[Sought]) -> FindConfig:
    """What fits phrases that were looked for best."""
    pairs = [(one.evidence, one.right) for one in sought if one.evidence is not None]
    choosable = [(evidence, right) for evidence, right in pairs if right.any()]
    if not choosable or all(one.here for one in sought):
        raise DataError(
            "find cannot be fitted: too few phrases in the records", hint="regions with phrases"
        )
    fits, likelihoods, places = rounded(np.maximum(conditional_logit(*_padded(choosable)), 0.0))
    chosen = FindConfig(fits, likelihoods, places)
    best = [(evidence.photo_fit, evidence.choices(chosen), right) for evidence, right in pairs]
    columns = np.array([(photo, choices.max(), 1.0) for photo, choices, _ in best]).T
    right = np.array([right[choices.argmax()] for _, choices, right in best])
    photo, choice, bias = rounded(logistic_regression(columns, smoothed(right)))
    config = replace(chosen, photo=max(photo, 0.0), choice=max(choice, 0.0), bias=bias)
    absent = [one.probabilities(config).max() for one in sought if not one.here]
    likely = min(math.ceil(1000 * float(np.quantile(absent, NOTHING_SHARE))) / 1000, 0.5)
    return replace(config, likely=likely)


def _padded(
    pairs: Sequence[tuple[PhraseEvidence, NDArray[np.bool_]]],
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Features (N, R, 3) of N phrases, which rows are regions (N, R), and which of those are right
    (N, R)."""
    most = max(len(right) for _, right in pairs)
    features = np.zeros((len(pairs), most, 3))
    used = np.zeros((len(pairs), most), dtype=bool)
    rights = np.zeros_like(used)
    for number, (evidence, right) in enumerate(pairs):
        rows = np.stack([evidence.fits, evidence.likelihoods, evidence.places], axis=1)
        features[number, : len(right)] = rows
        used[number, : len(right)] = True
        rights[number, : len(right)] = right
    return features, used, rights


def conditional_logit(
    features: Floats, used: NDArray[np.bool_], right: NDArray[np.bool_]
) -> Floats:
    """The weights (K,) for which right choices among R are the likeliest: features (N, R, K), by
    Newton's method."""
    weights = np.zeros(features.shape[2])
    for _ in range(ROUNDS):
        logits = np.where(used, features @ weights, IMPOSSIBLE)
        chosen = _softmax(logits)  # (N, R)
        wanted = _softmax(np.where(right, logits, IMPOSSIBLE))
        gradient = np.einsum("nr,nrk->k", wanted - chosen, features)
        centred = features - np.einsum("nr,nrk->nk", chosen, features)[:, None]
        curvature = np.einsum("nr,nrk,nrl->kl", chosen, centred, centred) + 1e-9 * np.eye(
            len(weights)
        )
        step = np.linalg.solve(curvature, gradient)
        weights = weights + step
        if np.abs(step).max() < LAST_STEP:
            break
    return weights


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares
