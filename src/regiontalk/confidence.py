"""How likely a caption names its region correctly.

p = σ(w · x + b), with x what the network thought of the words and of the place (`FEATURES`). `fitting.confidence` fits
w and b on regions whose names are known. The score of a region is about its place; this is about its words.

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
from regiontalk.errors import UsageError

Floats = NDArray[np.float64]
NEAR = 0.8  # `Confidence.near` where nothing was fitted

FEATURES = (
    "mean_logprob",  # of the words and END
    "least_logprob",  # of the least likely of them
    "least_probability",  # the same, not as a logarithm
    "first_logprob",
    "last_logprob",  # END's where it was reached
    "words",
    "agrees",  # 1 where it has the head word of the caption that the model chose, else 0
    "logit",  # the recognition network's
)


@dataclass(frozen=True)
class Confidence:
    """The fitted numbers, with the features' means and standard deviations already in them."""

    features: tuple[str, ...]
    """`FEATURES` of the program that fitted it; the weights mean nothing to any others."""
    weights: tuple[float, ...]
    """w (F,)"""
    bias: float
    """b"""
    likely: float
    """Captions that are less likely right are not shown unless asked for."""
    near: float
    """Of several captions of a region the longest is said whose confidence is at least this share of the best one's."""

    def __post_init__(self) -> None:
        if self.features != FEATURES:
            raise UsageError("made for other features than this program's", hint="regiontalk fit fits a new one")
        if len(self.weights) != len(FEATURES):
            raise UsageError(f"{len(self.weights)} weights for {len(FEATURES)} features")
        if not all(type(number) is float and math.isfinite(number) for number in (*self.weights, self.bias)):
            raise UsageError("a weight is not a finite number")
        for name in ("likely", "near"):
            if not 0 <= getattr(self, name) <= 1:  # written so that NaN fails too
                raise UsageError(f"{name} is {getattr(self, name)}; it must be from 0 to 1")


def features(captions: Sequence[Caption], agrees: Sequence[bool], logits: NDArray[np.floating]) -> Floats:
    """(R, F) in the order of `FEATURES`."""
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
        )
        for caption, agreeing, logit in zip(captions, agrees, logits.tolist(), strict=True)
    ]
    return np.array(values, dtype=np.float64).reshape(-1, len(FEATURES))


def probabilities(values: Floats, fitted: Confidence | None) -> Floats:
    """Features (R, F) -> (R,) how likely each caption is right.

    Where nothing was fitted, the geometric mean of the words' probabilities stands in, 0 for those that do not agree.
    """
    if fitted is None:
        by_name = dict(zip(FEATURES, values.T, strict=True))
        stand_in: Floats = np.exp(by_name["mean_logprob"]) * by_name["agrees"]
        return stand_in
    return sigmoid((values * np.array(fitted.weights)).sum(axis=1) + fitted.bias)
