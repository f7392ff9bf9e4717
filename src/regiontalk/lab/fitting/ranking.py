"""A `Ranking` learned from photos whose true regions are known.

What a region should score: the share of dense captioning's 5 × 6 thresholds (IoU by METEOR) that it
passes against the truth it overlaps most, if no other region does better by the same truth, else 0:
in the evaluation each truth counts once, for the first region that claims it.

Shapes: N regions of all photos together, F features, H hidden units.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.errors import DataError
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.rank import Floats, ranking_features
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.data.merged_truth import TruthImage, truth_of
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.average_precision import (
    IOU_THRESHOLDS,
    LANGUAGE_THRESHOLDS,
    Pool,
    Rules,
)
from regiontalk.lab.evaluation.dense_ap import DenseResult, evaluate_dense
from regiontalk.lab.evaluation.language import SentenceScorer, score_once
from regiontalk.lab.evaluation.matching import best_truths
from regiontalk.lab.fitting.photos import SeenPhoto, to_image
from regiontalk.lab.fitting.regression import rounded
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import RANKING_FEATURES, PredictionConfig, Ranking

HIDDEN_UNITS = 16
STEPS = 200
FIRST_RATE = 0.02  # of the first step; falls to 0 as a cosine
WEIGHT_DECAY = 7e-4  # times the weights, added to the gradient
ADAM_BETAS = (0.9, 0.999)  # Adam's

RULES = Rules()


@dataclass(frozen=True)
class RankedPhoto:
    """What a model found in a photo, and what it should have found, in the record's pixels."""

    record: Record
    regions: RegionTable
    captions: tuple[str, ...]


def to_ranked(photo: SeenPhoto, settings: PredictionConfig, words: Vocabulary) -> RankedPhoto:
    """The regions of a photo that survive NMS under `settings`."""
    regions = photo.surviving(settings)
    captions = tuple(words.decode(caption.tokens) for caption in regions.captions)
    return RankedPhoto(photo.record, regions, captions)


def targets(photos: Sequence[RankedPhoto], scorer: SentenceScorer) -> list[Floats]:
    """What the regions of each photo should score, between 0 and 1."""
    truths = [truth_of(photo.record, RULES.plus_one, RULES.drop_invalid) for photo in photos]
    wishes = [
        best_truths(photo.regions.boxes_xyxy, truth.boxes_xyxy, RULES.plus_one)
        for photo, truth in zip(photos, truths, strict=True)
    ]
    language = _language(photos, truths, wishes, scorer)
    return [
        _best_alone(wanted, overlap, fits)
        for (wanted, overlap), fits in zip(wishes, language, strict=True)
    ]


def _language(
    photos: Sequence[RankedPhoto],
    truths: Sequence[TruthImage],
    wishes: Sequence[tuple[geometry.Integers, geometry.Floats]],
    scorer: SentenceScorer,
) -> list[Floats]:
    """How well every region's words fit the truth it wants; 0 where it is too far from it to be
    right."""
    out = []
    places = []
    pairs = []
    for photo, truth, (wanted, overlap) in zip(photos, truths, wishes, strict=True):
        out.append(np.zeros(len(wanted)))
        for index in np.flatnonzero(overlap >= IOU_THRESHOLDS[0]).tolist():
            caption = photo.captions[index]
            references = truth.references[wanted[index]]
            if caption.strip() and references:
                places.append((out[-1], index))
                pairs.append((caption, references))
    for (language, index), score in zip(places, score_once(scorer, pairs), strict=True):
        language[index] = score
    return out


def _best_alone(wanted: geometry.Integers, overlap: geometry.Floats, language: Floats) -> Floats:
    """The share of thresholds that each region passes, 0 for all but the best of those that want
    the same truth."""
    pool = Pool(overlap, language, truths=len(wanted))
    thresholds = itertools.product(IOU_THRESHOLDS, LANGUAGE_THRESHOLDS)
    passed: Floats = np.mean([pool.right(iou, score, RULES) for iou, score in thresholds], axis=0)
    best_first = np.lexsort((-overlap, -passed))
    _, first = np.unique(wanted[best_first], return_index=True)
    alone = np.zeros(len(wanted))
    alone[best_first[first]] = passed[best_first[first]]
    return alone


def fit(values: Floats, wanted: Floats) -> Ranking:
    """The net for `FEATURES` (N, F) and targets (N,)."""
    weights, biases, outputs, output_bias = fit_layers(values, wanted)
    return Ranking(
        features=RANKING_FEATURES,
        weights=tuple(map(rounded, weights.T)),
        biases=rounded(biases),
        outputs=rounded(outputs),
        output_bias=rounded(output_bias[None])[0],
    )


def fit_layers(values: Floats, wanted: Floats) -> list[Floats]:
    """Features (N, F) and targets (N,) -> W (F, H), b (H,), v (H,) and c of least cross-entropy,
    all regions at every step of Adam.

    The same on every run: the first weights are drawn with a fixed seed.
    """
    share = float(wanted.mean()) if len(wanted) else 0.0
    if not 0 < share < 1:
        raise DataError(
            f"of {len(wanted)} regions {'all are' if share else 'none is'} right: nothing to learn"
        )
    mean = values.mean(axis=0)
    std = values.std(axis=0)
    std[std == 0] = 1
    inputs = (values - mean) / std
    draw = np.random.default_rng(0).normal
    width = values.shape[1]
    weights = draw(0, width**-0.5, (width, HIDDEN_UNITS))
    outputs = draw(0, 0.1 * HIDDEN_UNITS**-0.5, HIDDEN_UNITS)
    layers = [weights, np.zeros(HIDDEN_UNITS), outputs, np.array(np.log(share / (1 - share)))]
    weights, biases, outputs, output_bias = _descend(layers, inputs, wanted)
    weights = weights / std[:, None]
    return [weights, biases - mean @ weights, outputs, output_bias]


def _descend(layers: list[Floats], inputs: Floats, wanted: Floats) -> list[Floats]:
    """Adam (Kingma & Ba 2015)."""
    means = [np.zeros_like(layer) for layer in layers]
    squares = [np.zeros_like(layer) for layer in layers]
    for step in range(1, STEPS + 1):
        rate = FIRST_RATE * (1 + np.cos(np.pi * step / STEPS)) / 2
        for number, gradient in enumerate(_gradients(layers, inputs, wanted)):
            means[number] = ADAM_BETAS[0] * means[number] + (1 - ADAM_BETAS[0]) * gradient
            squares[number] = ADAM_BETAS[1] * squares[number] + (1 - ADAM_BETAS[1]) * gradient**2
            mean = means[number] / (1 - ADAM_BETAS[0] ** step)
            square = squares[number] / (1 - ADAM_BETAS[1] ** step)
            layers[number] = layers[number] - rate * mean / (np.sqrt(square) + 1e-8)
    return layers


def _gradients(layers: Sequence[Floats], inputs: Floats, wanted: Floats) -> list[Floats]:
    """Gradients of the mean cross-entropy and the decay, by W (F, H), b (H,), v (H,) and c."""
    weights, biases, outputs, output_bias = layers
    hidden = np.maximum(inputs @ weights + biases, 0)  # (N, H)
    probabilities = sigmoid(hidden @ outputs + output_bias)  # (N,)
    by_logit = (probabilities - wanted) / len(wanted)
    by_hidden = by_logit[:, None] * outputs * (hidden > 0)
    return [
        inputs.T @ by_hidden + WEIGHT_DECAY * weights,
        by_hidden.sum(axis=0),
        by_logit @ hidden + WEIGHT_DECAY * outputs,
        by_logit.sum(),
    ]


def fit_photos(photos: Sequence[tuple[RankedPhoto, Floats]]) -> Ranking:
    """A ranking for photos with the targets of their regions."""
    values = [np.zeros((0, len(RANKING_FEATURES)))]
    wanted = [np.zeros(0)]
    for photo, scores in photos:
        values.append(ranking_features(photo.regions))
        wanted.append(scores)
    return fit(np.concatenate(values), np.concatenate(wanted))


def judge(
    photos: Sequence[RankedPhoto],
    rankings: Sequence[Ranking | None],
    settings: PredictionConfig,
    words: Vocabulary,
    scorer: SentenceScorer,
) -> DenseResult:
    """Dense captioning's figures of the photos, each with its own ranking (None: with the rules of
    the settings)."""
    images = [
        to_image(photo.record, photo.regions, replace(settings, ranking=ranking), words)
        for photo, ranking in zip(photos, rankings, strict=True)
    ]
    return evaluate_dense([photo.record for photo in photos], images, scorer, check_boxes=False)
