"""A `Confidence` fitted on regions that lie on true ones: logistic regression on whether their captions name those
(`evaluation.names.is_right`). Regions on nothing that people named are left out: nobody said what they are.

Shapes: C captions, F features, N captions of all photos together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import regions as rules
from regiontalk.calibration import Scores, Verdicts
from regiontalk.confidence import FEATURES, NEAR, Confidence, Floats, probabilities
from regiontalk.data.records import Record
from regiontalk.decoding import Caption
from regiontalk.errors import DataError
from regiontalk.evaluation.names import is_right, truths_near
from regiontalk.evaluation.reliability import Judged, summary
from regiontalk.fitting.cross_validation import cross_validated
from regiontalk.fitting.regression import logistic_regression, rounded, smoothed
from regiontalk.model import Model
from regiontalk.regions import Detections, Rows

LONGEST = 6  # words that are asked for in choosing `near`
NEARS = np.linspace(0.7, 1.0, 7)
WORSE = 0.01  # the share of right captions that longer ones may cost
CUTS = np.linspace(0.3, 0.7, 9)
RIGHT_SHARE = 0.8  # of the captions that are shown


class JudgedCaptions(NamedTuple):
    """Captions of the regions of a photo that lie on true ones: the model's own, and such of other lengths where it
    knows them."""

    rows: Rows
    """(C,) of the detections"""
    own: Verdicts
    """(C,) whether the length was the model's choice"""
    words: NDArray[np.intp]
    """(C,) how many"""
    features: Floats
    """(C, F)"""
    right: Verdicts
    """(C,)"""

    def of(self, rows: Rows) -> JudgedCaptions:
        """Those of some rows of the detections."""
        which = np.isin(self.rows, rows)
        return JudgedCaptions(
            self.rows[which], self.own[which], self.words[which], self.features[which], self.right[which]
        )


def judge_captions(
    model: Model,
    detections: Detections,
    boxes_xyxy: Floats,
    captions: Mapping[int, Caption],
    record: Record,
) -> JudgedCaptions:
    """Judges the captioned rows of the detections, with boxes (B, 4) in the record's pixels."""
    truths = dict(zip(captions, truths_near(boxes_xyxy[list(captions)], record), strict=True))
    rows = np.array([row for row in captions if truths[row]], dtype=np.intp)
    own = [captions[row] for row in rows.tolist()]
    lengths = [range(1, LONGEST + 1 if model.runtime.words.lengths else 1)] * len(own)
    found = rules.choices(model.runtime, detections.states(rows), detections.logits[rows], own, lengths)
    said = [model.runtime.words.decode(one.tokens) for one in found.captions]
    right = [is_right(text, truths[row]) for text, row in zip(said, rows[found.rows].tolist(), strict=True)]
    counts = np.array([len(one.tokens) for one in found.captions], dtype=np.intp)
    is_own = np.arange(len(said)) < len(own)
    return JudgedCaptions(rows[found.rows], is_own, counts, found.features, np.array(right, dtype=bool))


def fit(photos: Sequence[JudgedCaptions]) -> Confidence:
    """The confidence of highest likelihood; `likely` and `near` are yet to be chosen."""
    values = np.concatenate([np.zeros((0, len(FEATURES))), *(photo.features for photo in photos)])
    right = np.concatenate([np.zeros(0, dtype=bool), *(photo.right for photo in photos)])
    if right.all() or not right.any():
        raise DataError(f"of {len(right)} captions {'all are' if right.any() else 'none is'} right: nothing to learn")
    mean, std = values.mean(axis=0), values.std(axis=0)
    std[std == 0] = 1
    columns = np.concatenate([(values - mean) / std, np.ones((len(values), 1))], axis=1)
    *weights, bias = logistic_regression(columns.T, smoothed(right))
    weights = weights / std
    numbers = rounded(np.array([*weights, bias - mean @ weights]))
    return Confidence(FEATURES, numbers[:-1], numbers[-1], likely=float(CUTS[0]), near=NEAR)


def fit_and_check(photos: Sequence[JudgedCaptions]) -> tuple[Confidence, list[Scores]]:
    """A confidence for all photos, and cross-validated confidences (C,) of the captions of each."""
    others = cross_validated(photos, fit)
    sure = [probabilities(photo.features, other) for photo, other in zip(photos, others, strict=True)]
    chosen = fit(photos)
    own, right = (np.concatenate(parts) for parts in zip(*map(_own, photos, sure), strict=True))
    likely, near = _likely(own, right), _near(photos, sure)
    return Confidence(chosen.features, chosen.weights, chosen.bias, likely, near), sure


def _own(photo: JudgedCaptions, sure: Scores) -> tuple[Scores, Verdicts]:
    return sure[photo.own], photo.right[photo.own]


def _likely(sure: Scores, right: Verdicts) -> float:
    """The lowest cut that leaves `RIGHT_SHARE` of right captions; if none does, the highest."""
    enough = (cut for cut in CUTS if (shown := right[sure >= cut]).any() and shown.mean() >= RIGHT_SHARE)
    return round(float(next(enough, CUTS[-1])), 2)


def _near(photos: Sequence[JudgedCaptions], sure: Sequence[Scores]) -> float:
    """The lowest that does not make captions of up to `LONGEST` words wrong more often than the model's own."""
    if all(photo.own.all() for photo in photos):
        return NEAR
    own = np.mean(np.concatenate([photo.right[photo.own] for photo in photos]))
    enough = (near for near in NEARS if _right_at(near, photos, sure) >= own - WORSE)
    return round(float(next(enough, NEARS[-1])), 2)


def _right_at(near: float, photos: Sequence[JudgedCaptions], sure: Sequence[Scores]) -> float:
    """The share of right captions if up to `LONGEST` words are asked for."""
    said = []
    for photo, own in zip(photos, sure, strict=True):
        short = photo.words <= LONGEST
        said.append(photo.right[short][rules.longest_sure(photo.rows[short], photo.words[short], own[short], near)])
    return float(np.mean(np.concatenate(said)))


def report(photos: Sequence[JudgedCaptions], sure: Sequence[Scores], likely: float) -> dict[str, Any]:
    """Figures of the model's own captions of some photos with cross-validated confidences."""
    own, right = (np.concatenate(parts) for parts in zip(*map(_own, photos, sure), strict=True))
    judged = Judged(own, right, len(photos))
    return {"photos": len(photos), "captions": len(own), "all_right": float(right.mean())} | summary(
        judged, own, likely
    )
