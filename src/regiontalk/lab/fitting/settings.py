"""Choosing the score rule, NMS, number of proposals and caption weight on dev photos."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from regiontalk.lab.evaluation.dense_ap import DenseResult, evaluate_dense
from regiontalk.lab.evaluation.language import SentenceScorer
from regiontalk.lab.fitting.photos import SeenPhoto
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import PredictionConfig

TRIED_SCORES = ("final", "product")
FINAL_NMS = (0.3, 0.4, 0.5, 0.6)
TRIED_PROPOSALS = (100, 200, 300)
CAPTION_WEIGHTS = (0.0, 0.5, 1.0)
MAX_MAP_LOSS = 0.001  # of dense mAP: what fewer proposals, and so less time, may cost


def settings_to_try(base: PredictionConfig) -> Iterator[PredictionConfig]:
    for score, nms, proposals, weight in itertools.product(
        TRIED_SCORES, FINAL_NMS, TRIED_PROPOSALS, CAPTION_WEIGHTS
    ):
        yield replace(base, score=score, final_nms=nms, proposals=proposals, caption_weight=weight)


def try_settings(
    photos: Sequence[SeenPhoto],
    words: Vocabulary,
    tried: Iterable[PredictionConfig],
    scorer: SentenceScorer,
) -> list[tuple[PredictionConfig, DenseResult]]:
    """Every setting with its result, best dense mAP first."""
    truth = [photo.record for photo in photos]
    results = []
    for settings in tried:
        images = (photo.regions(settings, words) for photo in photos)
        results.append((settings, evaluate_dense(truth, images, scorer, check_boxes=False)))
    return sorted(results, key=lambda pair: -pair[1].map)


def choose(results: Sequence[tuple[PredictionConfig, DenseResult]]) -> PredictionConfig:
    """The best of the settings with the fewest proposals that are as good as the best; `results`
    come best first."""
    best = results[0][1].map
    good = [settings for settings, result in results if result.map >= best - MAX_MAP_LOSS]
    return min(good, key=lambda settings: settings.proposals)
