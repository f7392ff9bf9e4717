"""How likely a caption names its region correctly.

p = σ(w · x + b), with x the features of the caption and its region (`FEATURES`). `fitting.confidence` fits w and b on
regions whose names are known. The score of a region is about its box; the confidence is about its caption.

Shapes: R captions, F features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regiontalk.calibration import sigmoid
from regiontalk.decoding import Caption
from regiontalk.errors import UsageError, check_range

Floats = NDArray[np.float64]
LONGER = 0.55  # `Confidence.longer` where nothing was fitted

FEATURES = (
    "mean_logprob",  # of the words and END
    "least_logprob",  # of the least likely of them
    "least_probability",  # the same, not as a logarithm
    "first_logprob",
    "last_logprob",  # END's where it was reached
    "words",
    "agrees",  # 1 if it has the head word of the caption that the model chose, else 0
    "logit",  # the recognition network's
    "score",  # the same, as a probability
    "own_least_probability",  # of the caption that the model chose
    "own_least_squared",  # its square: the step from likely to certain counts most
    "area",  # of the region, as a share of the photo
    "enlarged",  # how much a small photo was enlarged for the network (`regions.Frame`)
)


@dataclass(frozen=True)
class Confidence:
    """The fitted numbers, with the features' means and standard deviations already in them."""

    features: tuple[str, ...]
    """Those of `FEATURES` that it was fitted to."""
    weights: tuple[float, ...]
    """w (F,)"""
    bias: float
    """b"""
    likely: float
    """Captions with a lower confidence are not shown by default."""
    longer: float = LONGER
    """A caption longer than the model's own is used only if the geometric mean of its words' probabilities is at least
    this. The added words of less likely ones are often wrong."""

    def __post_init__(self) -> None:
        if not set(self.features) <= set(FEATURES):
            raise UsageError("made for other features than this program's", hint="regiontalk fit fits a new one")
        if len(self.weights) != len(self.features):
            raise UsageError(f"{len(self.weights)} weights for {len(self.features)} features")
        if not all(type(number) is float and math.isfinite(number) for number in (*self.weights, self.bias)):
            raise UsageError("a weight is not a finite number")
        check_range(0, 1, likely=self.likely, longer=self.longer)


def features(
    captions: Sequence[Caption],
    agrees: Sequence[bool],
    logits: NDArray[np.floating],
    size_features: Floats,
    own: Sequence[Caption],
) -> Floats:
    """(R, F) in the order of `FEATURES`; `size_features` (R, 2) are the last two of them, `own` the captions that the
    model chose for the regions."""
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
            captions, agrees, logits.tolist(), sigmoid(logits).tolist(), size_features.tolist(), own, strict=True
        )
    ]
    return np.array(values, dtype=np.float64).reshape(-1, len(FEATURES))


def column(values: Floats, name: str) -> Floats:
    """One feature (R,) of those (R, F)."""
    return values[:, FEATURES.index(name)]


def probabilities(values: Floats, fitted: Confidence | None) -> Floats:
    """Features (R, F) -> (R,) how likely each caption is right.

    Without a fit: the geometric mean of the words' probabilities, or 0 for captions that do not agree.
    """
    if fitted is None:
        stand_in: Floats = np.exp(column(values, "mean_logprob")) * column(values, "agrees")
        return stand_in
    used = values[:, [FEATURES.index(name) for name in fitted.features]]
    return sigmoid((used * np.array(fitted.weights)).sum(axis=1) + fitted.bias)
