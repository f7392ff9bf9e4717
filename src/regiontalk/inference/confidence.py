"""How likely a caption names its region correctly.

p = σ(w · x + b), with x the features of the caption and its region (`CONFIDENCE_FEATURES`).
`lab.fitting.confidence` fits w and b on regions whose names are known. The score of a region is
about its box; the confidence is about its caption.

Shapes: R captions, F features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.decoding import Caption
from regiontalk.models.settings import CONFIDENCE_FEATURES, Confidence

Floats = NDArray[np.float64]


def features(
    captions: Sequence[Caption],
    agrees: Sequence[bool],
    logits: NDArray[np.floating],
    size_features: Floats,
    own: Sequence[Caption],
) -> Floats:
    """(R, F) in the order of `CONFIDENCE_FEATURES`; `size_features` (R, 2) are the last two of
    them, `own` the captions that the model chose for the regions."""
    values = [
        (
            caption.mean_logprob,
            min(caption.logprobs),
            math.exp(min(caption.logprobs)),
            caption.logprobs[0],
            caption.logprobs[-1],
            len(caption.tokens),
            agreeing,
            logit,
            score,
            math.exp(min(chosen.logprobs)),
            math.exp(2 * min(chosen.logprobs)),
            *sizes,
        )
        for caption, agreeing, logit, score, sizes, chosen in zip(
            captions,
            agrees,
            logits.tolist(),
            sigmoid(logits).tolist(),
            size_features.tolist(),
            own,
            strict=True,
        )
    ]
    return np.array(values, dtype=np.float64).reshape(-1, len(CONFIDENCE_FEATURES))


def column(values: Floats, name: str) -> Floats:
    """One feature (R,) of those (R, F)."""
    return values[:, CONFIDENCE_FEATURES.index(name)]


def probabilities(values: Floats, fitted: Confidence | None) -> Floats:
    """Features (R, F) -> (R,) how likely each caption is right.

    Without a fit: the geometric mean of the words' probabilities, or 0 for captions that do not
    agree.
    """
    if fitted is None:
        stand_in: Floats = np.exp(column(values, "mean_logprob")) * column(values, "agrees")
        return stand_in
    used = values[:, [CONFIDENCE_FEATURES.index(name) for name in fitted.features]]
    return sigmoid((used * np.array(fitted.weights)).sum(axis=1) + fitted.bias)
