"""An `Agreement` fitted on regions that lie on true ones, by whether their captions and their names
name those (`lab.evaluation.names.is_right`).

Two logistic regressions: one says how likely a caption is right, the other how likely a name that
disagrees with its caption is. Every data set counts the same, however many regions it has.

Shapes: R regions of a photo, N regions of all photos together, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError, ModelError
from regiontalk.inference.agreement import agrees, features, probabilities, says_name
from regiontalk.inference.calibration import Scores, Verdicts
from regiontalk.inference.look import caption
from regiontalk.inference.rank import texts
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.names import is_right, truths_near
from regiontalk.lab.evaluation.reliability import Judged, summary
from regiontalk.lab.fitting.confidence import likely_from
from regiontalk.lab.fitting.cross_validation import cross_validated
from regiontalk.lab.fitting.regression import logistic_regression, rounded, smoothed
from regiontalk.language.articles import as_caption
from regiontalk.language.object_names import plain_name
from regiontalk.models.settings import AGREEMENT_FEATURES, Agreement

MIN_DISAGREEING = 20  # regions on which captions and names disagree


class JudgedRegions(NamedTuple):
    """Regions of a photo that lie on true ones."""

    features: Scores
    """(R, F)"""
    caption_right: Verdicts
    name_right: Verdicts
    weight: float
    """How much each region counts: data sets count the same."""

    def said(self, fitted: Agreement) -> tuple[Scores, Verdicts]:
        """(R,) The confidence of what is said of each region, caption or name, and whether it is
        right."""
        by_caption, by_name = probabilities(self.features, fitted)
        called = says_name(self.features, by_caption, by_name)
        confidences = np.where(called, by_name, by_caption)
        return confidences, np.where(called, self.name_right, self.caption_right)


def judge_regions(dataset_model: DatasetModel, record: Record) -> JudgedRegions:
    """The regions that a model without `Agreement` finds in a photo."""
    runtime = dataset_model.model.runtime
    if runtime.names is None:
        raise ModelError(
            f"the model {runtime.info.name!r} has no names",
            hint="regiontalk fit MODEL DATA --only names",
        )
    look = dataset_model.look(record)
    regions = caption(runtime, look)
    width, height = look.frame.photo_size
    scale = [record.width / width, record.height / height] * 2
    truths = truths_near(regions.boxes_xyxy * scale, record)
    rows = np.array([row for row, near in enumerate(truths) if near], dtype=np.intp)
    regions = regions.take(rows)
    captions = texts(regions, runtime.words)
    names = [as_caption(plain_name(name.name)) for name in regions.names]
    near = [truths[row] for row in rows.tolist()]
    return JudgedRegions(
        features(regions, captions, runtime.names) if len(rows) else _no_features(),
        _verdicts(is_right(text, true) for text, true in zip(captions, near, strict=True)),
        _verdicts(is_right(text, true) for text, true in zip(names, near, strict=True)),
        1.0,
    )


def fit_and_check(
    datasets: Sequence[Sequence[JudgedRegions]],
) -> tuple[Agreement, list[list[tuple[Scores, Verdicts]]]]:
    """The numbers for the photos of all data sets; and what is said of each photo's regions by
    numbers that were fitted on others."""
    photos = list(chain.from_iterable(_weighted(dataset) for dataset in datasets))
    others = cross_validated(photos, fit)
    judged = [photo.said(other) for photo, other in zip(photos, others, strict=True)]
    ends = list(accumulate(map(len, datasets)))
    parts = [judged[end - len(dataset) : end] for dataset, end in zip(datasets, ends, strict=True)]
    likely = likely_from([_joined(part) for part in parts])
    return replace(fit(photos), likely=likely), parts


def fit(photos: Sequence[JudgedRegions]) -> Agreement:
    """The numbers of highest likelihood; `likely` is chosen later."""
    values = np.concatenate([_no_features(), *(photo.features for photo in photos)])
    caption_right = np.concatenate([np.zeros(0, bool), *(photo.caption_right for photo in photos)])
    name_right = np.concatenate([np.zeros(0, bool), *(photo.name_right for photo in photos)])
    weights = np.concatenate([np.full(len(photo.features), photo.weight) for photo in photos])
    disagree = ~agrees(values)
    if np.count_nonzero(disagree) < MIN_DISAGREEING:
        raise DataError(
            f"{np.count_nonzero(disagree)} regions with a name that disagrees with the caption: "
            "too few to fit"
        )
    *of_caption, caption_bias = _regression(values, caption_right, weights)
    *of_name, name_bias = _regression(values[disagree], name_right[disagree], weights[disagree])
    return Agreement(tuple(of_caption), caption_bias, tuple(of_name), name_bias, likely=0.0)


def report(photos: Sequence[tuple[Scores, Verdicts]], fitted: Agreement) -> dict[str, Any]:
    """Figures of what is said of some photos."""
    confidences, right = _joined(photos)
    judged = Judged(confidences, right, len(photos))
    figures = summary(judged, confidences, fitted.likely)
    return {
        "photos": len(photos),
        "captions": len(right),
        "all_right": float(right.mean()) if len(right) else 0.0,
    } | figures


def caption_share(photos: Sequence[JudgedRegions]) -> float:
    """The share of right captions, without names."""
    right = np.concatenate([photo.caption_right for photo in photos])
    return float(right.mean()) if len(right) else 0.0


def _weighted(photos: Sequence[JudgedRegions]) -> list[JudgedRegions]:
    regions = sum(len(photo.features) for photo in photos)
    return [photo._replace(weight=1 / max(regions, 1)) for photo in photos]


def _regression(values: Scores, right: Verdicts, weights: Scores) -> tuple[float, ...]:
    """Weights of features (N, F) and, last, the bias; the weights of rows have the mean 1."""
    columns = np.concatenate([values, np.ones((len(values), 1))], axis=1).T
    even = weights / weights.mean()
    return rounded(logistic_regression(columns, smoothed(right), even))


def _joined(photos: Sequence[tuple[Scores, Verdicts]]) -> tuple[Scores, Verdicts]:
    confidences = np.concatenate([np.zeros(0), *(values for values, _ in photos)])
    right = np.concatenate([np.zeros(0, dtype=bool), *(verdicts for _, verdicts in photos)])
    return confidences, right


def _no_features() -> Scores:
    return np.zeros((0, len(AGREEMENT_FEATURES)))


def _verdicts(values: Any) -> NDArray[np.bool_]:
    return np.fromiter(values, dtype=bool)
