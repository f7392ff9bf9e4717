"""Ranks a photo's regions by a small net on a region's box, score, caption and overlap with better regions.

DenseCap ranks by a product of scores and leaves "a trained suppression in place of NMS" to future work. Here the
greedy NMS stays, and the regions that survive it are scored again by a net with one hidden layer:

p = σ(v · max(0, W x + b) + c), with x the features of a region (`FEATURES`).

Shapes: R regions of one photo, P refined proposals, F features, H hidden units.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.calibration import sigmoid
from regiontalk.decoding import Caption
from regiontalk.errors import UsageError

Floats = NDArray[np.float64]

AGREEING = 0.7  # IoU above which a refined proposal counts as the same region

FEATURES = (
    "final_logit",  # the recognition network's
    "mean_logprob",  # of the caption's words
    "words",  # in the caption
    "left",  # this and the next four as shares of the photo
    "top",
    "right",
    "bottom",
    "area",
    "votes",  # logarithm of how many refined proposals agree with it
    "inside_better",  # the largest share of it that lies in one better region
    "around_better",  # the largest share of one better region that lies in it
    "said_before",  # the larger of the two shares, among better regions with the same words
)


@dataclass(frozen=True)
class Ranking:
    """The net's weights, with the features' means and standard deviations already in them."""

    features: tuple[str, ...]
    """`FEATURES` of the program that fitted it; the weights are valid for these only."""
    weights: tuple[tuple[float, ...], ...]
    """W (H, F)"""
    biases: tuple[float, ...]
    """b (H,)"""
    outputs: tuple[float, ...]
    """v (H,)"""
    output_bias: float
    """c"""

    def __post_init__(self) -> None:
        if self.features != FEATURES:
            raise UsageError("made for other features than this program's", hint="regiontalk fit fits a new one")
        hidden, width = len(self.biases), len(FEATURES)
        whole = all(isinstance(row, tuple) and len(row) == width for row in self.weights)
        if not whole or not hidden or {len(self.weights), len(self.outputs)} != {hidden}:
            raise UsageError(f"weights, biases and outputs are not of shapes (H, {width}), (H) and (H)")
        numbers = [*self.biases, *self.outputs, self.output_bias, *itertools.chain(*self.weights)]
        if not all(type(number) is float and math.isfinite(number) for number in numbers):
            raise UsageError("a weight is not a finite number")


class Evidence(NamedTuple):
    """The inputs of the ranking: the regions of a photo that survive NMS."""

    size: tuple[int, int]
    """The photo's width and height."""
    boxes_xyxy: Floats
    """(R, 4) in the photo's pixels."""
    scores: Floats
    """(R,) the scores that NMS sorted by: of two regions, the one with the higher score is better."""
    logits: Floats
    """(R,) the recognition network's."""
    votes: NDArray[np.intp]
    """(R,) see `votes`."""
    captions: Sequence[Caption]


def votes(boxes_xyxy: NDArray[np.floating], refined_xyxy: NDArray[np.floating]) -> NDArray[np.intp]:
    """How many of the refined proposals (P, 4) agree with each region (R, 4); at least 1, the region itself."""
    agreeing = np.count_nonzero(geometry.iou(boxes_xyxy, refined_xyxy) > AGREEING, axis=1)
    counts: NDArray[np.intp] = np.maximum(agreeing, 1)  # an empty box does not even overlap itself
    return counts


def features(evidence: Evidence) -> Floats:
    """(R, F) in the order of `FEATURES`. Neither the photo's scale nor the order of regions changes them."""
    own = [
        evidence.logits,
        [caption.mean_logprob for caption in evidence.captions],
        [len(caption.tokens) for caption in evidence.captions],
    ]
    places = geometry.places(evidence.boxes_xyxy, evidence.size)
    values = [*own, *places.T, np.log(evidence.votes), *_rivalry(evidence)]
    return np.array(values, dtype=np.float64).reshape(len(FEATURES), -1).T


def scores(values: Floats, ranking: Ranking) -> Floats:
    """Features (R, F) -> scores (R,) between 0 and 1."""
    # Sums row by row: a matrix product may give different results for equal rows.
    hidden = (values[:, None] * np.array(ranking.weights)).sum(axis=2) + np.array(ranking.biases)  # (R, H)
    logits = (np.maximum(hidden, 0) * np.array(ranking.outputs)).sum(axis=1) + ranking.output_bias
    return sigmoid(logits)


def _rivalry(evidence: Evidence) -> tuple[Floats, Floats, Floats]:
    """(R,) each: `inside_better`, `around_better` and `said_before`."""
    inside = _inside(evidence.boxes_xyxy)
    better = evidence.scores[None, :] > evidence.scores[:, None]  # [i, j]: j is better than i
    said = [caption.tokens for caption in evidence.captions]
    same = np.array([[ours == theirs for theirs in said] for ours in said], dtype=bool).reshape(better.shape)
    either = np.maximum(inside, inside.T)
    shares = (inside * better, inside.T * better, either * (better & same))
    ours, around, before = (share.max(axis=1, initial=0.0) for share in shares)
    return ours, around, before


def _inside(boxes_xyxy: Floats) -> Floats:
    """(R, R): the share of box i that lies in box j; 0 for empty boxes."""
    areas = geometry.area(boxes_xyxy)
    overlap = geometry.iou(boxes_xyxy, boxes_xyxy)
    common = overlap * (areas[:, None] + areas[None, :]) / (1 + overlap)  # IoU = common / (a + b − common)
    share: Floats = np.divide(common, areas[:, None], out=np.zeros_like(common), where=areas[:, None] > 0)
    return share
