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

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores, calibrated, sigmoid
from regiontalk.inference.decoding import Caption
from regiontalk.inference.regions import RegionTable, Rows
from regiontalk.language.articles import ARTICLES, as_caption
from regiontalk.language.object_names import plain_name
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import RANKING_FEATURES, PredictionConfig, Ranking

Floats = NDArray[np.float64]
MIN_VOTE_IOU = 0.7  # above it, a refined proposal counts as the same region
MIN_REPEAT_IOU = 0.3  # above it, two regions with the same words are the same thing


def rank(
    regions: RegionTable, settings: PredictionConfig, words: Vocabulary
) -> tuple[Rows, Scores]:
    """Scores captioned regions, calibrates the scores, and drops repeats: the rows that are kept,
    highest score first, and their scores."""
    scores = score(regions, settings)
    ranked = np.argsort(-scores, kind="stable")
    captions = [words.decode(regions.captions[row].tokens) for row in ranked.tolist()]
    kept = ranked[without_repeats(regions.boxes_xyxy[ranked], captions)]
    return kept, scores[kept]


def score(regions: RegionTable, settings: PredictionConfig) -> Scores:
    """(R,) the scores by the fitted ranking if there is one, else by the rules of the settings;
    then calibrated."""
    if settings.ranking is not None:
        scores = ranking_scores(ranking_features(regions), settings.ranking)
    else:
        scores = weigh_captions(regions.scores, regions.captions, settings)
    return calibrated(scores, settings.calibration)


def weigh_captions(
    scores: Scores, captions: Sequence[Caption], settings: PredictionConfig
) -> Scores:
    """The scores, lowered where the caption is unlikely."""
    mean_logprobs = np.array([caption.mean_logprob for caption in captions])
    return scores * np.exp(settings.caption_weight * mean_logprobs)


def drop_repeats(regions: RegionTable, words: Vocabulary) -> RegionTable:
    """The captioned regions that are no repeats (see `without_repeats`)."""
    return regions.take(without_repeats(regions.boxes_xyxy, texts(regions, words)))


def texts(regions: RegionTable, words: Vocabulary) -> list[str]:
    """What is said of each region: its caption, or its name."""
    captions = [words.decode(caption.tokens) for caption in regions.captions]
    if not regions.called:
        return captions
    return [
        as_caption(plain_name(name.name)) if is_called else caption
        for caption, name, is_called in zip(captions, regions.names, regions.called, strict=True)
    ]


def without_repeats(boxes_xyxy: NDArray[np.floating], captions: Sequence[str]) -> Rows:
    """Rows without repeats: of regions in about the same place with the same words (articles
    ignored) only the first. Regions without words or with an empty box are dropped."""
    is_near = geometry.iou(boxes_xyxy, boxes_xyxy) > MIN_REPEAT_IOU
    has_area = geometry.area(boxes_xyxy) > 0
    kept_rows: dict[tuple[str, ...], list[int]] = {}  # by their words
    for row, caption in enumerate(captions):
        words = tuple(word for word in caption.split() if word not in ARTICLES)
        rivals = kept_rows.setdefault(words, [])
        if caption and has_area[row] and not is_near[row, rivals].any():
            rivals.append(row)
    return np.array(sorted(itertools.chain(*kept_rows.values())), dtype=np.intp)


def ranking_features(regions: RegionTable) -> Floats:
    """(R, F) in the order of `RANKING_FEATURES`, of captioned regions. Neither the photo's scale
    nor the order of regions changes them."""
    columns = [
        regions.logits,
        [caption.mean_logprob for caption in regions.captions],
        [len(caption.tokens) for caption in regions.captions],
        *geometry.places(regions.boxes_xyxy, regions.frame.photo_size).T,
        np.log(regions.votes),
        *_rivalry(regions),
    ]
    return np.array(columns, dtype=np.float64).reshape(len(RANKING_FEATURES), -1).T


def ranking_scores(values: Floats, ranking: Ranking) -> Floats:
    """Features (R, F) -> scores (R,) between 0 and 1."""
    # Sums row by row: a matrix product may give different results for equal rows.
    products = values[:, None] * np.array(ranking.weights)  # (R, H, F)
    hidden = products.sum(axis=2) + np.array(ranking.biases)  # (R, H)
    outputs = np.maximum(hidden, 0) * np.array(ranking.outputs)
    return sigmoid(outputs.sum(axis=1) + ranking.output_bias)


def votes(regions: RegionTable, recognized: RegionTable, settings: PredictionConfig) -> Rows:
    """(R,) how many of the refined proposals agree with each region; at least 1, the region itself.

    The same number of voters as when the ranking was fitted, whatever the option `proposals`.
    """
    voters_xyxy = recognized.input_xyxy[: settings.proposals]
    overlaps = geometry.iou(regions.input_xyxy, voters_xyxy)
    agreeing = np.count_nonzero(overlaps > MIN_VOTE_IOU, axis=1)
    counts: Rows = np.maximum(agreeing, 1)  # an empty box does not even overlap itself
    return counts


def _rivalry(regions: RegionTable) -> tuple[Floats, Floats, Floats]:
    """(R,) each: `inside_better`, `around_better` and `said_before`."""
    share_inside = _share_inside(regions.boxes_xyxy)
    share_either = np.maximum(share_inside, share_inside.T)
    is_better = regions.scores[None, :] > regions.scores[:, None]  # [i, j]: j is better than i
    has_same_words = _have_same_words(regions.captions)
    return (
        (share_inside * is_better).max(axis=1, initial=0.0),
        (share_inside.T * is_better).max(axis=1, initial=0.0),
        (share_either * (is_better & has_same_words)).max(axis=1, initial=0.0),
    )


def _have_same_words(captions: Sequence[Caption]) -> NDArray[np.bool_]:
    """(R, R) which captions have the same words."""
    numbers: dict[tuple[int, ...], int] = {}
    kinds = np.array([numbers.setdefault(caption.tokens, len(numbers)) for caption in captions])
    same: NDArray[np.bool_] = kinds[:, None] == kinds[None, :]
    return same


def _share_inside(boxes_xyxy: Floats) -> Floats:
    """(R, R): the share of box i that lies in box j; 0 for empty boxes."""
    areas = geometry.area(boxes_xyxy)
    overlap = geometry.iou(boxes_xyxy, boxes_xyxy)
    # IoU = common / (a + b − common)
    common = overlap * (areas[:, None] + areas[None, :]) / (1 + overlap)
    share: Floats = np.divide(
        common, areas[:, None], out=np.zeros_like(common), where=areas[:, None] > 0
    )
    return share
