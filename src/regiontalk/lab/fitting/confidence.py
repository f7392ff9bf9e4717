"""A `Confidence` fitted on regions that lie on true ones, by whether their captions name those
(`lab.evaluation.names.is_right`). Other regions are left out, because no truth says what they show.

Logistic regression on all captions of the reported regions gives the weights. The caption of a
region is chosen by its confidence, so the confidence of a chosen caption would be too high: slope
and offset are fitted on chosen captions.

Shapes: C captions, F features, N captions of all photos together.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.inference.calibration import Scores, Verdicts, terms
from regiontalk.inference.captions import (
    captions_of_lengths,
    choose,
    join_tried,
    own_captions,
)
from regiontalk.inference.confidence import Floats, probabilities
from regiontalk.inference.decoding import Caption
from regiontalk.inference.regions import RegionTable, Rows
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.find import content_words, written_words
from regiontalk.lab.evaluation.names import is_right, truths_near
from regiontalk.lab.evaluation.reliability import Judged, summary
from regiontalk.lab.fitting.cross_validation import cross_validated
from regiontalk.lab.fitting.regression import logistic_regression, rounded, smoothed
from regiontalk.language.object_names import singulars
from regiontalk.model import Model
from regiontalk.models.settings import CONFIDENCE_FEATURES, MIN_LONGER_PROB, Confidence

MAX_TRIED_WORDS = 6  # words that are asked for in choosing `longer`
CUTS = np.linspace(0.3, 0.7, 41)
# of the captions that are shown, on every data set: an easy one does not make up for a hard one
RIGHT_SHARE = 0.75
LONGERS = np.linspace(0.3, 0.7, 9)
TRUE_SHARE = (
    0.46  # of the words that longer captions add: the share for words that people add to a noun
)
ROUNDS = (
    2  # the chosen captions depend on the confidence, and the confidence on the chosen captions
)
UNFITTED = Confidence((), (), 0.0, likely=float(CUTS[0]))


class JudgedCaptions(NamedTuple):
    """Captions of the regions of a photo that lie on true ones: the model's own, and such of other
    lengths where it knows them."""

    rows: Rows
    """(C,) of the detections; each row's own caption comes before all others, in the same order."""
    own: Verdicts
    """(C,) whether the length was the model's choice."""
    features: Floats
    """(C, F) what the confidence is computed from."""
    right: Verdicts
    """(C,) whether the caption names what the region shows."""
    added: NDArray[np.intp]
    """(C, 2) how many content words are not in the own caption, and how many of these people wrote
    about the photo; 0 where they wrote no sentence about it."""

    def of(self, rows: Rows) -> JudgedCaptions:
        """The captions of some rows of the detections."""
        which = np.isin(self.rows, rows)
        return JudgedCaptions._make(part[which] for part in self)

    def said(self, sure: Scores, fitted: Confidence, words: int | None = None) -> Rows:
        """(R,) the captions that are said, if their confidences are `sure`."""
        regions = np.unique(self.rows, return_inverse=True)[1]
        return choose(regions, self.features, sure, fitted, words)


def judge_captions(
    model: Model,
    recognized: RegionTable,
    boxes_xyxy: Floats,
    captions: Mapping[int, Caption],
    record: Record,
) -> JudgedCaptions:
    """Judges the captioned rows of the regions, with boxes (B, 4) in the record's pixels."""
    truths = dict(zip(captions, truths_near(boxes_xyxy[list(captions)], record), strict=True))
    rows = np.array([row for row in captions if truths[row]], dtype=np.intp)
    regions = replace(recognized.take(rows), captions=tuple(captions[row] for row in rows.tolist()))
    lengths = [range(1, MAX_TRIED_WORDS + 1 if model.runtime.words.lengths else 1)] * len(regions)
    others = captions_of_lengths(model.runtime, regions, lengths)
    tried = join_tried(own_captions(regions), others)
    texts = [model.runtime.words.decode(caption.tokens) for caption in tried.captions]
    right = [
        is_right(text, truths[row])
        for text, row in zip(texts, rows[tried.rows].tolist(), strict=True)
    ]
    added = [
        _added(text, texts[row], record)
        for text, row in zip(texts, tried.rows.tolist(), strict=True)
    ]
    return JudgedCaptions(
        rows[tried.rows],
        np.arange(len(texts)) < len(regions),
        tried.features,
        np.array(right, dtype=bool),
        np.array(added, dtype=np.intp).reshape(-1, 2),
    )


def _added(caption: str, own: str, record: Record) -> tuple[int, int]:
    """How many content words of a caption are not in the own one, and how many of these people
    wrote."""
    if not record.sentences:
        return 0, 0
    words = content_words(caption) - content_words(own)
    written = set(chain.from_iterable(singulars(word) for word in written_words(record)))
    return len(words), sum(not written.isdisjoint(singulars(word)) for word in words)


def fit(photos: Sequence[JudgedCaptions], limits: Confidence = UNFITTED) -> Confidence:
    """The confidence of highest likelihood, with the `likely` and `longer` of `limits`."""
    values = np.concatenate(
        [np.zeros((0, len(CONFIDENCE_FEATURES))), *(photo.features for photo in photos)]
    )
    right = np.concatenate([np.zeros(0, dtype=bool), *(photo.right for photo in photos)])
    if right.all() or not right.any():
        raise DataError(
            f"of {len(right)} captions {'all are' if right.any() else 'none is'} right: nothing "
            "to learn"
        )
    mean = values.mean(axis=0)
    std = values.std(axis=0)
    std[std == 0] = 1
    *weights, bias = _regression((values - mean) / std, right)
    weights = weights / std
    fitted = _with_numbers(limits, weights, bias - mean @ weights)
    for _ in range(ROUNDS):
        sure, verdicts = what_is_said(
            photos, [probabilities(photo.features, fitted) for photo in photos], fitted
        )
        log, minus_log_rest, _ = terms(sure)
        slope, offset = _regression((log + minus_log_rest)[:, None], verdicts)
        fitted = _with_numbers(
            fitted, slope * np.array(fitted.weights), slope * fitted.bias + offset
        )
    return fitted


def _regression(values: Floats, right: Verdicts) -> Floats:
    """Weights of values (N, K) and, last, the bias."""
    return logistic_regression(
        np.concatenate([values, np.ones((len(values), 1))], axis=1).T, smoothed(right)
    )


def _with_numbers(limits: Confidence, weights: Floats, bias: float) -> Confidence:
    numbers = rounded(np.array([*weights, bias]))
    return replace(limits, features=CONFIDENCE_FEATURES, weights=numbers[:-1], bias=numbers[-1])


def what_is_said(
    photos: Sequence[JudgedCaptions], sure: Sequence[Scores], limits: Confidence
) -> tuple[Scores, Verdicts]:
    """Confidences and verdicts (N,) of the captions that are said of all photos."""
    chosen = [
        photo.said(confidences, limits) for photo, confidences in zip(photos, sure, strict=True)
    ]
    return (
        np.concatenate(
            [confidences[places] for confidences, places in zip(sure, chosen, strict=True)]
        ),
        np.concatenate([photo.right[places] for photo, places in zip(photos, chosen, strict=True)]),
    )


def fit_and_check(
    datasets: Sequence[Sequence[JudgedCaptions]],
) -> tuple[Confidence, list[list[Scores]]]:
    """A confidence for the photos of all data sets, and cross-validated confidences (C,) of the
    captions of each."""
    photos = list(itertools.chain(*datasets))
    ends = itertools.accumulate(map(len, datasets))
    parts = [slice(end - len(dataset), end) for dataset, end in zip(datasets, ends, strict=True)]
    limits = UNFITTED
    sure = _of_others(photos, UNFITTED)
    for _ in range(ROUNDS):
        limits = replace(limits, longer=_longer(photos, sure, limits))
        judged = [what_is_said(photos[part], sure[part], limits) for part in parts]
        limits = replace(limits, likely=likely_from(judged))
        sure = _of_others(photos, limits)
    return fit(photos, limits), [sure[part] for part in parts]


def _of_others(photos: Sequence[JudgedCaptions], limits: Confidence) -> list[Scores]:
    """The confidences (C,) of each photo's captions by what was fitted on others."""
    others = cross_validated(photos, partial(fit, limits=limits))
    return [
        probabilities(photo.features, other) for photo, other in zip(photos, others, strict=True)
    ]


def likely_from(datasets: Sequence[tuple[Scores, Verdicts]]) -> float:
    """The lowest cut that leaves `RIGHT_SHARE` of right captions on every data set, by what is said
    there: confidences and verdicts. If none does, the highest."""

    def is_enough(cut: float) -> bool:
        shown = [right[sure >= cut] for sure, right in datasets]
        return all(right.any() and right.mean() >= RIGHT_SHARE for right in shown)

    return round(next((cut for cut in CUTS.tolist() if is_enough(cut)), float(CUTS[-1])), 2)


def _longer(photos: Sequence[JudgedCaptions], sure: Sequence[Scores], limits: Confidence) -> float:
    """The lowest at which `TRUE_SHARE` of the words are true that captions of up to
    `MAX_TRIED_WORDS` words add; if there is none, the one at which most are."""

    def true_share(longer: float) -> float:
        at = replace(limits, longer=longer)
        words, true = sum(
            (
                photo.added[photo.said(confidences, at, MAX_TRIED_WORDS)].sum(axis=0)
                for photo, confidences in zip(photos, sure, strict=True)
            ),
            start=np.zeros(2),
        )
        return float(true / words) if words else 0.0

    shares = {round(longer, 2): true_share(longer) for longer in LONGERS.tolist()}
    if not any(shares.values()):
        return MIN_LONGER_PROB
    enough = (longer for longer, share in shares.items() if share >= TRUE_SHARE)
    return float(next(enough, max(shares, key=shares.__getitem__)))


def report(
    photos: Sequence[JudgedCaptions], sure: Sequence[Scores], fitted: Confidence
) -> dict[str, Any]:
    """Figures of the chosen captions of some photos, with cross-validated confidences."""
    confidences, right = what_is_said(photos, sure, fitted)
    figures = summary(Judged(confidences, right, len(photos)), confidences, fitted.likely)
    return {
        "photos": len(photos),
        "captions": len(confidences),
        "all_right": float(right.mean()),
    } | figures
