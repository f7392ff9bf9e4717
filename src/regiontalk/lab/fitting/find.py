"""A `FindConfig` fitted on photos with phrases on boxes.

The weights that choose a region are a conditional logit: among the regions of a photo that shows a
phrase, the right ones get as much of the probability as can be (several may be right: McFadden's
choice among sets). Then logistic regression on whether the chosen region is right, with phrases
that are not there among them. The cut-off is where most of those are reported as absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.inference.find import PhraseEvidence
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.find import Asked, Sought, phrases_of_others, phrases_to_ask
from regiontalk.lab.evaluation.names import objects_of
from regiontalk.lab.fitting.regression import (
    conditional_logit,
    logistic_regression,
    padded,
    rounded,
    smoothed,
)
from regiontalk.models.settings import FindConfig
from regiontalk.results import BoxXYXY

NOTHING_SHARE = 0.8  # of the phrases that are not there and should not be found


def fit(sets: Sequence[Sequence[Sought]]) -> FindConfig:
    """What fits phrases that were looked for best, of one data set or more. In the probability,
    every data set counts the same."""
    sought = [one for of_set in sets for one in of_set]
    pairs = [(one.evidence, one.right) for one in sought if one.evidence is not None]
    choosable = [(evidence, right) for evidence, right in pairs if right.any()]
    if not choosable or all(one.here for one in sought):
        raise DataError(
            "find cannot be fitted: too few phrases in the records", hint="regions with phrases"
        )
    fits, likelihoods, places, names = rounded(
        np.maximum(conditional_logit(*padded([_features(*pair) for pair in choosable])), 0.0)
    )
    chosen = FindConfig(fits, likelihoods, places, name=names)
    choices = [evidence.choices(chosen) for evidence, _ in pairs]
    right = np.array([right[own.argmax()] for (_, right), own in zip(pairs, choices, strict=True)])
    best = np.array([own.max() for own in choices])
    columns = np.array([_photo_features(evidence) for evidence, _ in pairs]).T
    if columns[2].all():
        columns[2] = 0.0  # there is a name for all phrases: `bias` does the same
    photo, photo_name, name_bias, bias, choice = rounded(
        logistic_regression(
            np.concatenate([columns, best[None]]), smoothed(right), _even_counts(sets)
        )
    )
    config = replace(
        chosen,
        photo=max(photo, 0.0),
        choice=max(choice, 0.0),
        bias=bias,
        photo_name=max(photo_name, 0.0),
        name_bias=name_bias,
    )
    likely = min(math.ceil(1000 * max(_cut_offs(sets, config))) / 1000, 0.5)
    return replace(config, likely=likely)


def _even_counts(sets: Sequence[Sequence[Sought]]) -> NDArray[np.float64]:
    """How much each phrase with evidence counts, so that every data set counts the same."""
    sizes = [sum(one.evidence is not None for one in of_set) for of_set in sets]
    mean = sum(sizes) / len(sizes)
    return np.concatenate([np.full(size, mean / max(size, 1)) for size in sizes])


def _cut_offs(sets: Sequence[Sequence[Sought]], config: FindConfig) -> Iterator[float]:
    """The probability below which most of what is not there is reported as absent, by data set."""
    for of_set in sets:
        absent = [one.probabilities(config).max() for one in of_set if not one.here]
        if absent:
            yield float(np.quantile(absent, NOTHING_SHARE))


def _features(
    evidence: PhraseEvidence, right: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(R, 4) and (R,)"""
    columns = (evidence.fits, evidence.likelihoods, evidence.places, evidence.name_logprobs())
    return np.stack(columns, axis=1), right


def _photo_features(evidence: PhraseEvidence) -> tuple[float, float, float, float]:
    """What the probability depends on beside the chosen region's sum."""
    return evidence.photo_fit, evidence.name_logit(), float(evidence.shown is not None), 1.0


def to_ask(records: Sequence[Record], seed: int = 0) -> dict[str, list[Asked]]:
    """What each photo is asked for: the classes of its objects, if it has any, else its phrases;
    and as many that it does not show."""
    random = np.random.default_rng(seed)
    classes = sorted({region.phrase for record in records for region in objects_of(record)})
    absent = phrases_of_others(records)
    asked = {}
    for record in records:
        if objects_of(record):
            asked[record.image] = _objects_to_ask(record, classes, random)
        else:
            asked[record.image] = phrases_to_ask(record, absent[record.image])
    return asked


def _objects_to_ask(
    record: Record, classes: Sequence[str], random: np.random.Generator
) -> list[Asked]:
    """The classes of a photo's objects, and as many that it does not show."""
    boxes: dict[str, list[BoxXYXY]] = {}
    for region in objects_of(record):
        boxes.setdefault(region.phrase, []).append(region.xyxy)
    absent = [name for name in classes if name not in boxes]
    drawn = random.permutation(len(absent))[: len(boxes)].tolist()
    there = [Asked(name, own, ("object",)) for name, own in boxes.items()]
    return [*there, *(Asked(absent[number], []) for number in drawn)]
