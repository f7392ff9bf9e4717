"""Average precision over IoU and language thresholds, by the rules of either of the two known
evaluators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regiontalk.boxes import Floats, Integers

IOU_THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)
LANGUAGE_THRESHOLDS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
STRICT_FROM = 0.1  # below it, sharing "a" with the reference is enough
BOXES_ALONE = -1.0  # a language threshold that every caption passes


@dataclass(frozen=True)
class Rules:
    """What the evaluators differ in. The default is DenseCap's released code."""

    name: str = "densecap"
    plus_one: bool = True  # a box includes its last pixel
    strict: bool = False  # IoU and recall must be above, not at, their thresholds
    recall_steps: int = 100  # recall levels 0, 1/steps, ..., 1
    treebank_words: bool = False  # captions and references pass the treebank tokenizer first
    drop_invalid: bool = False  # truth boxes of no area are left out
    last_truth_slip: bool = False  # a detection that overlaps nothing claims the image's last truth

    @property
    def title(self) -> str:
        return self.name + (" with last-truth slip" if self.last_truth_slip else "")


RULES = {
    "densecap": Rules(),
    "joint": Rules(
        "joint",
        plus_one=False,
        strict=True,
        recall_steps=99,
        treebank_words=True,
        drop_invalid=True,
    ),
}


@dataclass(frozen=True)
class Pool:
    """Detections, best first: overlap with the truth that each claims (0: none) and language
    score."""

    overlaps: Floats
    language: Floats
    truths: int

    def right(self, iou: float, language: float, rules: Rules) -> NDArray[np.bool_]:
        """Which detections count as right at a pair of thresholds."""
        near = self.overlaps > iou if rules.strict else self.overlaps >= iou
        return near if language == BOXES_ALONE else near & (self.language > language)


def curve(right: NDArray[np.bool_], truths: int, rules: Rules) -> Floats:
    """Interpolated precision at the recall levels: the best precision at that recall or any higher
    one."""
    ranks = np.flatnonzero(right) + 1
    hits = np.arange(1, len(ranks) + 1)
    best_from = np.maximum.accumulate((hits / ranks)[::-1])[::-1]
    needed = hits_needed(truths, rules)
    out = np.zeros(rules.recall_steps + 1)
    reached = needed <= len(ranks)
    if len(ranks):
        out[reached] = best_from[np.maximum(needed[reached], 1) - 1]
    return out


def hits_needed(truths: int, rules: Rules) -> Integers:
    """Right detections needed for each recall level, in whole numbers so that rounding decides
    nothing."""
    levels = np.arange(rules.recall_steps + 1)
    if rules.strict:  # hits / truths > level / steps
        return levels * truths // rules.recall_steps + 1
    return -(-levels * truths // rules.recall_steps)


def curves(pool: Pool, rules: Rules) -> Floats:
    """Precision (5, 7, levels): IoU thresholds by boxes alone and the language thresholds."""
    grid = []
    for iou in IOU_THRESHOLDS:
        right = [pool.right(iou, score, rules) for score in (BOXES_ALONE, *LANGUAGE_THRESHOLDS)]
        grid.append([curve(row, pool.truths, rules) for row in right])
    return np.array(grid)


def mean_strict(ap: Floats) -> float:
    """Mean of a (5, 6) grid over the language thresholds that need more than a shared "a"."""
    return float(ap[:, np.array(LANGUAGE_THRESHOLDS) >= STRICT_FROM].mean())
