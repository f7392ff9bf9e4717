"""Average precision of dense captioning, over boxes and captions (DenseCap section 4.1).

A detection is right at (t, s) when it is the first to claim a truth, overlaps it by an IoU of t,
and its caption scores above s against the truth's references. Detections of all images are ranked
together; mAP is the mean over 5 IoU × 6 language thresholds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

import numpy as np

from regiontalk.boxes import Floats, Integers
from regiontalk.errors import DataError
from regiontalk.lab.data.merged_truth import TruthImage, truth_of, truths_by_path
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.average_precision import (
    IOU_THRESHOLDS,
    LANGUAGE_THRESHOLDS,
    RULES,
    Pool,
    Rules,
    curves,
    mean_strict,
)
from regiontalk.lab.evaluation.box_format import MIN_BOXES_TO_JUDGE, BoxCheck
from regiontalk.lab.evaluation.intervals import bootstrap
from regiontalk.lab.evaluation.language import SentenceScorer, TreebankWords, score_once
from regiontalk.lab.evaluation.matching import MatchedImage, boxes_of, match
from regiontalk.lab.evaluation.reference_scores import measure_references
from regiontalk.results import ImageRegions

AP_NAMES = [f"{iou:g}@{score:g}" for iou, score in product(IOU_THRESHOLDS, LANGUAGE_THRESHOLDS)]
"""The keys of the average precisions at each pair of thresholds."""


@dataclass(frozen=True)
class DenseResult:
    """Figures between 0 and 1. `ap` is (5, 6): IoU by language thresholds."""

    metric: str
    protocol: str
    images: int
    truths: int
    detections: int
    ap: Floats
    detection_ap: Floats
    language: float  # mean score of the captions against their image's bag of references
    reference_scores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    intervals: Mapping[str, list[float]] = field(default_factory=dict)  # 95 %, over images

    @property
    def map(self) -> float:
        return float(self.ap.mean())

    @property
    def map_strict(self) -> float:
        return mean_strict(self.ap)

    @property
    def detection_map(self) -> float:
        return float(self.detection_ap.mean())

    def to_dict(self) -> dict[str, Any]:
        return {
            "map": self.map,
            "map_strict": self.map_strict,
            "detection_map": self.detection_map,
            self.metric: self.language,
            "language_metric": self.metric,
            "ap": dict(zip(AP_NAMES, self.ap.ravel().tolist(), strict=True)),
            "images": self.images,
            "truths": self.truths,
            "detections": self.detections,
            "protocol": self.protocol,
            "reference_scores": dict(self.reference_scores),
            "intervals": dict(self.intervals),
        }


def evaluate_dense(
    truth: Iterable[Record],
    predictions: Iterable[ImageRegions],
    scorer: SentenceScorer,
    rules: Rules = RULES["densecap"],
    check_boxes: bool = True,
) -> DenseResult:
    """Evaluates predictions against records; `path` of the one is `image` of the other.

    Only numbers are kept of a detection, so predictions may be a stream. An image without
    predictions counts as one where nothing was found.
    """
    evaluation = DenseEvaluation(truth, scorer, rules, check_boxes)
    for image in predictions:
        evaluation.add(image)
    return evaluation.result()


class DenseEvaluation:
    """`evaluate_dense` step by step: `add` every image, then `result`."""

    BATCH = 64  # images whose captions are scored together

    def __init__(
        self,
        truth: Iterable[Record],
        scorer: SentenceScorer,
        rules: Rules,
        check_boxes: bool = True,
    ) -> None:
        self.rules = rules
        self.scorer = TreebankWords(scorer) if rules.treebank_words else scorer
        self.truths = truths_by_path(
            truth_of(record, rules.plus_one, rules.drop_invalid) for record in truth
        )
        if not self.truths:
            raise DataError("the truth has no image")
        self.check = _prediction_check(self.truths.values()) if check_boxes else None
        self.matched: dict[str, MatchedImage] = {}
        self.waiting: list[MatchedImage] = []
        self.bag_total = 0.0
        self.captions = 0

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and height of the truth's images, by path."""
        return {path: (truth.width, truth.height) for path, truth in self.truths.items()}

    def add(self, image: ImageRegions) -> None:
        truth = self.truths.get(image.path)
        if truth is None:
            raise DataError(f"the prediction {image.path} has no image in the truth")
        if image.path in self.matched:
            raise DataError(f"two predictions for {image.path}")
        if self.check is not None:
            before = self.check.seen
            self.check.add(boxes_of(image.regions), truth.width, truth.height)
            if before < MIN_BOXES_TO_JUDGE <= self.check.seen:
                self.check.verdict()
        matched = match(truth, image.regions, self.rules.plus_one, self.rules.last_truth_slip)
        self.matched[image.path] = matched
        self.waiting.append(matched)
        self.captions += len(image.regions) if truth.bag else 0
        if len(self.waiting) >= self.BATCH:
            self._score_waiting()

    def result(self, reference_scores: bool = False, intervals: bool = False) -> DenseResult:
        self._score_waiting()
        if self.check is not None:
            self.check.verdict()
        references = (
            measure_references(self.truths.values(), self.scorer, self.rules)
            if reference_scores
            else {}
        )
        pool = self.pool()
        ap = curves(pool, self.rules).mean(axis=2)
        return DenseResult(
            metric=self.scorer.metric,
            protocol=self.rules.title,
            images=len(self.truths),
            truths=pool.truths,
            detections=len(pool.overlaps),
            ap=ap[:, 1:],
            detection_ap=ap[:, 0],
            language=self.bag_total / self.captions if self.captions else 0.0,
            reference_scores=references,
            intervals=self.intervals() if intervals else {},
        )

    def pool(self) -> Pool:
        """All detections, best first; of equal scores the first by path, box and caption."""
        return self._pool_and_images()[0]

    def _pool_and_images(self) -> tuple[Pool, Integers]:
        """The pool, and the number of the image of each detection, in the order of the paths."""
        images = [self.matched.get(path) for path in sorted(self.truths)]
        counts = np.array([0 if image is None else len(image.scores) for image in images])
        matched = [image for image in images if image is not None]
        scores = np.concatenate([np.empty(0), *(image.scores for image in matched)])
        order = np.argsort(-scores, kind="stable")
        overlaps = np.concatenate([np.empty(0), *(image.overlaps for image in matched)])
        language = np.concatenate([np.empty(0), *(image.language for image in matched)])
        truths = sum(len(truth.references) for truth in self.truths.values())
        numbers = np.repeat(np.arange(len(images)), counts)
        return Pool(overlaps[order], language[order], truths), numbers[order]

    def intervals(self) -> dict[str, list[float]]:
        """The 95 % intervals of `map`, `map_strict` and `detection_map`, over images."""
        truths = np.array([len(self.truths[path].references) for path in sorted(self.truths)])
        pool, images = self._pool_and_images()

        def figures_of(sample: Integers) -> dict[str, float]:
            times = np.bincount(sample, minlength=len(truths))
            rows = np.repeat(np.arange(len(images)), times[images])
            drawn = Pool(pool.overlaps[rows], pool.language[rows], int(truths[sample].sum()))
            ap = curves(drawn, self.rules).mean(axis=2)
            return {
                "map": float(ap[:, 1:].mean()),
                "map_strict": mean_strict(ap[:, 1:]),
                "detection_map": float(ap[:, 0].mean()),
            }

        return bootstrap(len(truths), figures_of)

    def image_maps(self) -> dict[str, float]:
        """The mAP of every image with truths as if it were the only one, to find the best and the
        worst."""
        out = {}
        for path, truth in self.truths.items():
            matched = self.matched.get(path)
            if matched is not None and truth.references:
                pool = Pool(matched.overlaps, matched.language, len(truth.references))
                out[path] = float(curves(pool, self.rules)[:, 1:].mean())
        return out

    def _score_waiting(self) -> None:
        """Language scores of the batch: against the claimed truth, and against the image's bag."""
        claims = iter(
            score_once(
                self.scorer, list(chain.from_iterable(image.claims for image in self.waiting))
            )
        )
        bags = iter(
            self.scorer.scores(list(chain.from_iterable(image.bag_pairs for image in self.waiting)))
        )
        for image in self.waiting:
            image.language[image.claiming] = [next(claims) for _ in image.claims]
            self.bag_total += sum(weight * next(bags) for weight in image.bag_weights)
            image.forget_texts()
        self.waiting.clear()


def _prediction_check(truths: Iterable[TruthImage]) -> BoxCheck:
    """Checks the truth's boxes; returns the check for the predictions'."""
    check = BoxCheck("truth")
    for truth in truths:
        check.add(truth.boxes_xyxy, truth.width, truth.height)
    check.verdict()
    return BoxCheck("predictions", check.reach)
