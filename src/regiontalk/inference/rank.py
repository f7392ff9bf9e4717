"""Ranks a photo's regions by a small net on a region's box, score, caption and overlap with better
regions.

DenseCap ranks by a product of scores and leaves "a trained suppression in place of NMS" to future
work. Here the greedy NMS stays, and the regions that survive it are scored again by a net with one
hidden layer:

p = σ(v · max(0, W x + b) + c), with x the features of a region (`RANKING_FEATURES`).

Shapes: R regions of one photo, P refined proposals, F features, H hidden units.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores, calibrated, sigmoid
from regiontalk.inference.decoding import Caption
from regiontalk.inference.detect import raw_scores
from regiontalk.inference.regions import Detections, Frame, Rows
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import RANKING_FEATURES, PredictionConfig, Ranking

Floats = NDArray[np.float64]
AGREEING = 0.7  # IoU above which a refined proposal counts as the same region
SAME_PLACE = 0.3  # IoU above which two regions with the same words are the same thing
ARTICLES = ("a", "an", "the")


class Evidence(NamedTuple):
    """The inputs of the ranking: the regions of a photo that survive NMS."""

    size: tuple[int, int]
    """The photo's width and height."""
    boxes_xyxy: Floats
    """(R, 4) in the photo's pixels."""
    scores: Floats
    """(R,) the scores that NMS sorted by: of two regions, the one with the higher score is
    better."""
    logits: Floats
    """(R,) the recognition network's."""
    votes: NDArray[np.intp]
    """(R,) see `votes`."""
    captions: Sequence[Caption]


def evidence_of(
    detections: Detections,
    rows: Rows,
    captions: Sequence[Caption],
    frame: Frame,
    settings: PredictionConfig,
) -> Evidence:
    """The evidence that the captioned `rows` are scored by."""
    kept = detections.boxes_xyxy[rows]
    # The same number of voters as when the ranking was fitted, whatever the option `proposals`.
    agreeing = votes(kept, detections.boxes_xyxy[: settings.proposals])
    scores, logits = (
        raw_scores(detections, settings)[rows],
        detections.logits[rows].astype(np.float64),
    )
    return Evidence(frame.photo_size, frame.to_photo(kept), scores, logits, agreeing, captions)


def rank(evidence: Evidence, settings: PredictionConfig, words: Vocabulary) -> tuple[Rows, Scores]:
    """The rows of a photo's regions without repeats, highest score first, and their scores."""
    scores = score(evidence, settings)
    ranked = np.argsort(-scores, kind="stable")
    captions = [words.decode(evidence.captions[row].tokens) for row in ranked.tolist()]
    kept = ranked[without_repeats(evidence.boxes_xyxy[ranked], captions)]
    return kept, scores[kept]


def score(evidence: Evidence, settings: PredictionConfig) -> Scores:
    """By the fitted ranking if there is one, else by the rules of the settings; then calibrated."""
    if settings.ranking is not None:
        scores = ranking_scores(ranking_features(evidence), settings.ranking)
    else:
        scores = weigh_captions(evidence.scores, evidence.captions, settings)
    return calibrated(scores, settings.calibration)


def weigh_captions(
    scores: Scores, captions: Sequence[Caption], settings: PredictionConfig
) -> Scores:
    """The scores, lowered where the caption is unlikely."""
    confidence = np.array([caption.mean_logprob for caption in captions])
    return scores * np.exp(settings.caption_weight * confidence)


def without_repeats(boxes_xyxy: NDArray[np.floating], captions: Sequence[str]) -> Rows:
    """Rows without repeats: of regions in about the same place with the same words (articles
    ignored) only the first. Regions without words or with an empty box are dropped."""
    close = geometry.iou(boxes_xyxy, boxes_xyxy) > SAME_PLACE
    kept: dict[tuple[str, ...], list[int]] = {}  # by their words
    for row, (caption, area) in enumerate(zip(captions, geometry.area(boxes_xyxy), strict=True)):
        rivals = kept.setdefault(
            tuple(word for word in caption.split() if word not in ARTICLES), []
        )
        if caption and area > 0 and not close[row, rivals].any():
            rivals.append(row)
    return np.array(sorted(itertools.chain(*kept.values())), dtype=np.intp)


def ranking_features(evidence: Evidence) -> Floats:
    """(R, F) in the order of `RANKING_FEATURES`. Neither the photo's scale nor the order of regions
    changes them."""
    own = [
        evidence.logits,
        [caption.mean_logprob for caption in evidence.captions],
        [len(caption.tokens) for caption in evidence.captions],
    ]
    places = geometry.places(evidence.boxes_xyxy, evidence.size)
    values = [*own, *places.T, np.log(evidence.votes), *_rivalry(evidence)]
    return np.array(values, dtype=np.float64).reshape(len(RANKING_FEATURES), -1).T


def ranking_scores(values: Floats, ranking: Ranking) -> Floats:
    """Features (R, F) -> scores (R,) between 0 and 1."""
    # Sums row by row: a matrix product may give different results for equal rows.
    hidden = (values[:, None] * np.array(ranking.weights)).sum(axis=2) + np.array(
        ranking.biases
    )  # (R, H)
    logits = (np.maximum(hidden, 0) * np.array(ranking.outputs)).sum(axis=1) + ranking.output_bias
    return sigmoid(logits)


def votes(boxes_xyxy: NDArray[np.floating], refined_xyxy: NDArray[np.floating]) -> NDArray[np.intp]:
    """How many of the refined proposals (P, 4) agree with each region (R, 4); at least 1, the
    region itself."""
    agreeing = np.count_nonzero(geometry.iou(boxes_xyxy, refined_xyxy) > AGREEING, axis=1)
    counts: NDArray[np.intp] = np.maximum(agreeing, 1)  # an empty box does not even overlap itself
    return counts


def _rivalry(evidence: Evidence) -> tuple[Floats, Floats, Floats]:
    """(R,) each: `inside_better`, `around_better` and `said_before`."""
    inside = _inside(evidence.boxes_xyxy)
    better = evidence.scores[None, :] > evidence.scores[:, None]  # [i, j]: j is better than i
    said = [caption.tokens for caption in evidence.captions]
    same = np.array([[ours == theirs for theirs in said] for ours in said], dtype=bool).reshape(
        better.shape
    )
    either = np.maximum(inside, inside.T)
    shares = (inside * better, inside.T * better, either * (better & same))
    ours, around, before = (share.max(axis=1, initial=0.0) for share in shares)
    return ours, around, before


def _inside(boxes_xyxy: Floats) -> Floats:
    """(R, R): the share of box i that lies in box j; 0 for empty boxes."""
    areas = geometry.area(boxes_xyxy)
    overlap = geometry.iou(boxes_xyxy, boxes_xyxy)
    common = (
        overlap * (areas[:, None] + areas[None, :]) / (1 + overlap)
    )  # IoU = common / (a + b − common)
    share: Floats = np.divide(
        common, areas[:, None], out=np.zeros_like(common), where=areas[:, None] > 0
    )
    return share
