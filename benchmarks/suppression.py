"""A learned suppression (DenseCap's future work) against the best threshold of NMS and against the
ranking that ships.

NMS drops a region that overlaps a better one. Here a loose NMS keeps more of them, and a net scores
each by itself and by what better regions there are: how much they overlap, and whether they say the
same. What it should score is what the evaluation would give for it (`lab.fitting.ranking`). It is
asked twice: the second time, better regions are those that it preferred the first time. Figures are
cross-validated; peers see the same photos.

python benchmarks/suppression.py data/flickr8k_entities --photos 300
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import regiontalk
from regiontalk import boxes as geometry
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.rank import Floats, ranking_features
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, evenly_spaced
from regiontalk.lab.evaluation.language import Pair, SentenceScorer
from regiontalk.lab.evaluation.scoring_pool import open_meteor
from regiontalk.lab.fitting.cross_validation import cross_validated
from regiontalk.lab.fitting.photos import SeenPhoto, look_at
from regiontalk.lab.fitting.ranking import (
    RankedPhoto,
    fit_layers,
    fit_photos,
    judge,
    targets,
    to_ranked,
)
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.model import Model
from regiontalk.models.settings import UNCHANGED, PredictionConfig
from report import options_of

THRESHOLDS = (0.4, 0.5, 0.6)
LOOSE = (0.6, 0.7)  # NMS before the learned suppression
ROUNDS = 2
NEAR = 0.5  # IoU from which regions crowd each other


class Remembering:
    """A scorer that scores every pair once: what is compared says the same of the same regions."""

    metric = "meteor"

    def __init__(self, scorer: SentenceScorer) -> None:
        self.scorer, self.known = scorer, dict[tuple[str, tuple[str, ...]], float]()

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        asked = [(sentence, tuple(references)) for sentence, references in pairs]
        new = list(dict.fromkeys(pair for pair in asked if pair not in self.known))
        self.known |= zip(new, self.scorer.scores(new), strict=True)
        return [self.known[pair] for pair in asked]


def rivals(regions: RegionTable) -> Floats:
    """What better regions there are (R, 4): overlap, overlap with the same words, how many near,
    how many at all."""
    overlap = geometry.iou(regions.boxes_xyxy, regions.boxes_xyxy)
    better = regions.scores[None, :] > regions.scores[:, None]
    said = [set(caption.tokens) for caption in regions.captions]
    common = np.array([[len(a & b) / max(len(a | b), 1) for b in said] for a in said]).reshape(
        overlap.shape
    )
    columns = [
        (overlap * better).max(axis=1, initial=0.0),
        (np.sqrt(overlap * common) * better).max(axis=1, initial=0.0),
        np.sqrt(((overlap > NEAR) & better).sum(axis=1)),
        np.log1p(better.sum(axis=1)),
    ]
    return np.stack(columns, axis=1)


def suppress(photos: Sequence[RankedPhoto], wanted: Sequence[Floats]) -> list[RankedPhoto]:
    """The photos with the scores that nets give, each fitted on other photos."""
    for _ in range(ROUNDS):
        values = [
            np.hstack([ranking_features(photo.regions), rivals(photo.regions)]) for photo in photos
        ]
        nets = cross_validated(list(zip(values, wanted, strict=True)), _fit)
        scores = [_ask(net, own) for net, own in zip(nets, values, strict=True)]
        photos = [_scored(photo, own) for photo, own in zip(photos, scores, strict=True)]
    return list(photos)


def _fit(photos: Sequence[tuple[Floats, Floats]]) -> list[Floats]:
    values, wanted = zip(*photos, strict=True)
    return fit_layers(np.concatenate(values), np.concatenate(wanted))


def _ask(layers: Sequence[Floats], values: Floats) -> Floats:
    weights, biases, outputs, output_bias = layers
    return sigmoid(np.maximum(values @ weights + biases, 0) @ outputs + output_bias)


def _scored(photo: RankedPhoto, scores: Floats) -> RankedPhoto:
    return replace(photo, regions=replace(photo.regions, scores=scores))


def look(model: Model, folder: Path, count: int, settings: PredictionConfig) -> list[SeenPhoto]:
    dataset = Dataset(folder, "dev")
    asked = DatasetModel(model, dataset)
    tried = [replace(settings, final_nms=threshold) for threshold in {*THRESHOLDS, *LOOSE}]
    return [look_at(asked, dataset[number], tried) for number in evenly_spaced(len(dataset), count)]


def compare(
    seen: Sequence[SeenPhoto], settings: PredictionConfig, words: Vocabulary, scorer: SentenceScorer
) -> dict[str, dict[str, float]]:
    """The figures of each way to choose regions."""

    def survivors(threshold: float) -> list[RankedPhoto]:
        return [to_ranked(photo, replace(settings, final_nms=threshold), words) for photo in seen]

    def figures(
        photos: Sequence[RankedPhoto], rankings: Sequence[Any] | None = None
    ) -> dict[str, float]:
        found = judge(photos, rankings or [None] * len(photos), settings, words, scorer)
        regions = sum(len(photo.captions) for photo in photos) / len(photos)
        return {
            "map": found.map,
            "map_strict": found.map_strict,
            "detection_map": found.detection_map,
        } | {"regions_per_photo": regions}

    rows = {f"nms-{threshold}": figures(survivors(threshold)) for threshold in THRESHOLDS}
    photos = survivors(settings.final_nms)
    rankings = cross_validated(list(zip(photos, targets(photos, scorer), strict=True)), fit_photos)
    rows[f"ranking-{settings.final_nms}"] = figures(photos, rankings)
    for threshold in LOOSE:
        photos = survivors(threshold)
        rows[f"learned-{threshold}"] = figures(suppress(photos, targets(photos, scorer)))
    return rows


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", help="a model folder; default: the package's own")
    parser.add_argument("--photos", type=int, default=300, help="dev photos, evenly spaced")
    options = parser.parse_args()
    model = regiontalk.load(options.model)
    fitted = model.runtime.info.prediction
    settings = replace(
        fitted, ranking=None, calibration=UNCHANGED, confidence=None, caption_weight=0.0
    )
    seen = look(model, options.data, options.photos, settings)
    with open_meteor(workers=os.cpu_count() or 1, notify=partial(print, flush=True)) as scorer:
        rows = compare(seen, settings, model.runtime.words, Remembering(scorer))
    if not options.json:
        for name, row in rows.items():
            print(f"{name:14}", *(f"{key} {value:.4f}" for key, value in row.items()))
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
