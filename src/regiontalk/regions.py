"""From a network's numbers to regions: the discrete half of inference (DenseCap 3.1, test time).

    propose -> NMS -> recognise -> NMS -> caption -> score -> calibrate -> no repeats

Everything here is numpy and holds for whatever runs the network: a runtime fills `Detections`, the rest is the same.

Shapes: K proposals, B boxes that are recognised, R regions that survive NMS.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk import decoding, ranking
from regiontalk.calibration import Scores, calibrated, sigmoid
from regiontalk.model_folder import PredictionConfig
from regiontalk.ranking import Evidence
from regiontalk.runtime import Floats, Proposed, Runtime, State
from regiontalk.types import Region
from regiontalk.vocabulary import Vocabulary

SAME_PLACE = 0.3  # IoU above which the same words are said of the same thing
ARTICLES = ("a", "an", "the")
ROWS_AT_ONCE = 300  # that are recognised or captioned; bounds the memory that thousands of given boxes take

Rows = NDArray[np.intp]


class Frame(NamedTuple):
    """How a photo lies in the network's input."""

    photo_size: tuple[int, int]
    """Width and height of the upright photo."""
    size: tuple[int, int]
    """Width and height in the input, without the padding."""
    scale: tuple[float, float]
    """From the photo's pixels to the input's."""

    @property
    def whole_xyxy(self) -> Floats:
        """(1, 4) the whole photo in input pixels."""
        return np.array([[0, 0, *self.size]], dtype=np.float32)

    def to_input(self, boxes_xyxy: NDArray[np.float64]) -> Floats:
        return geometry.scale(boxes_xyxy, *self.scale).astype(np.float32)

    def to_photo(self, boxes_xyxy: Floats) -> NDArray[np.float64]:
        scale_x, scale_y = self.scale
        boxes = geometry.scale(boxes_xyxy.astype(np.float64), 1 / scale_x, 1 / scale_y)
        return geometry.clip(boxes, *self.photo_size).astype(np.float64)


class Detections(NamedTuple):
    """What the network says of the best proposals of a photo, best first, or of given boxes; in input pixels."""

    proposals_xyxy: Floats
    """(B, 4) the boxes that were recognised."""
    proposal_logits: Floats
    """(B,)"""
    boxes_xyxy: Floats
    """(B, 4) after the recognition network's refinement; given boxes stay as they are."""
    logits: Floats
    """(B,) the recognition network's."""
    codes: Floats
    """(B, D)"""
    state: State
    """The language model's state before START, a row for every box."""

    def states(self, rows: Rows) -> State:
        return tuple(part[rows] for part in self.state)

    def first(self, count: int) -> Detections:
        """Those of the `count` best proposals: as if no more had been asked for."""
        return Detections(
            self.proposals_xyxy[:count],
            self.proposal_logits[:count],
            self.boxes_xyxy[:count],
            self.logits[:count],
            self.codes[:count],
            tuple(part[:count] for part in self.state),
        )


def detect(runtime: Runtime, proposed: Proposed, frame: Frame, settings: PredictionConfig, limit: int) -> Detections:
    """The `limit` best proposals that survive NMS, recognised."""
    boxes, logits = proposed.boxes_xyxy, proposed.logits
    ranked = np.argsort(-logits, kind="stable")[: settings.candidates]
    chosen = ranked[runtime.nms(boxes[ranked], settings.proposal_nms, limit)]
    recognized = runtime.recognize(proposed.features, frame.size, boxes[chosen])
    return Detections(boxes[chosen], logits[chosen], *recognized)


def detect_given(runtime: Runtime, proposed: Proposed, frame: Frame, boxes_xyxy: NDArray[np.float64]) -> Detections:
    """Given boxes (B, 4) in the photo's pixels, recognised as they are."""
    if not len(boxes_xyxy):  # no graph takes an empty array
        return detect_given(runtime, proposed, frame, np.array([[0.0, 0.0, *frame.photo_size]])).first(0)
    boxes = frame.to_input(boxes_xyxy)
    parts = [
        runtime.recognize(proposed.features, frame.size, boxes[start : start + ROWS_AT_ONCE])
        for start in range(0, len(boxes), ROWS_AT_ONCE)
    ]
    logits = np.concatenate([part.logits for part in parts])
    codes = np.concatenate([part.codes for part in parts])
    state = tuple(np.concatenate(columns) for columns in zip(*(part.state for part in parts), strict=True))
    return Detections(boxes, np.zeros_like(logits), boxes, logits, codes, state)


def raw_scores(detections: Detections, settings: PredictionConfig) -> Scores:
    """(B,) what the second NMS goes by."""
    scores = sigmoid(detections.logits)
    return scores * sigmoid(detections.proposal_logits) if settings.score == "product" else scores


def survivors(detections: Detections, settings: PredictionConfig) -> Rows:
    """The rows that survive the second NMS, by falling score."""
    return geometry.nms(detections.boxes_xyxy, raw_scores(detections, settings), settings.final_nms)


def caption(runtime: Runtime, state: State, beam: int = 1) -> list[decoding.Caption]:
    """A caption for every row of the language model's state."""
    captions: list[decoding.Caption] = []
    start, longest = runtime.words.start(), runtime.info.prediction.longest
    for first in range(0, len(state[0]), ROWS_AT_ONCE):
        part = tuple(rows[first : first + ROWS_AT_ONCE] for rows in state)
        if beam == 1:
            captions += decoding.greedy(runtime.step, part, start, longest)
        else:
            captions += [best for (best,) in decoding.beam_search(runtime.step, part, start, longest, beam)]
    return captions


def evidence_of(
    detections: Detections,
    rows: Rows,
    captions: Sequence[decoding.Caption],
    frame: Frame,
    settings: PredictionConfig,
) -> Evidence:
    """What the captioned `rows` are scored by."""
    kept = detections.boxes_xyxy[rows]
    # As many voters as when the ranking was fitted, however many proposals were asked for.
    votes = ranking.votes(kept, detections.boxes_xyxy[: settings.proposals])
    scores, logits = raw_scores(detections, settings)[rows], detections.logits[rows].astype(np.float64)
    return Evidence(frame.photo_size, frame.to_photo(kept), scores, logits, votes, captions)


def score(evidence: Evidence, settings: PredictionConfig) -> Scores:
    """By the learned ranking where there is one, else by the rules of the settings; then calibrated."""
    if settings.ranking is not None:
        scores = ranking.scores(ranking.features(evidence), settings.ranking)
    else:
        scores = weigh_captions(evidence.scores, evidence.captions, settings)
    return calibrated(scores, settings.calibration)


def weigh_captions(scores: Scores, captions: Sequence[decoding.Caption], settings: PredictionConfig) -> Scores:
    """The scores, lowered where the words are unlikely."""
    confidence = np.array([caption.mean_logprob for caption in captions])
    return scores * np.exp(settings.caption_weight * confidence)


def rank(evidence: Evidence, settings: PredictionConfig, words: Vocabulary) -> list[Region]:
    """The regions of a photo by falling score, as `settings` score them; none says again what a better one said."""
    regions = to_regions(evidence.boxes_xyxy, score(evidence, settings), evidence.captions, words)
    return without_repeats(sorted(regions, key=lambda region: -region.score))


def to_regions(
    boxes_xyxy: NDArray[np.floating], scores: Scores, captions: Sequence[decoding.Caption], words: Vocabulary
) -> list[Region]:
    return [
        Region((x0, y0, x1, y1), score, words.decode(caption.tokens), caption.logprob)
        for (x0, y0, x1, y1), score, caption in zip(boxes_xyxy.tolist(), scores.tolist(), captions, strict=True)
    ]


def without_repeats(regions: Sequence[Region]) -> list[Region]:
    """Of regions with the same words, articles apart, in about the same place the first; none without words or
    without area."""
    boxes = np.array([region.xyxy for region in regions])
    close = geometry.iou(boxes, boxes) > SAME_PLACE
    kept: dict[tuple[str, ...], list[int]] = {}  # by their words
    for number, (region, area) in enumerate(zip(regions, geometry.area(boxes), strict=True)):
        rivals = kept.setdefault(_without_articles(region.caption), [])
        if region.caption and area > 0 and not close[number, rivals].any():
            rivals.append(number)
    return [regions[number] for number in sorted(itertools.chain(*kept.values()))]


def _without_articles(words: str) -> tuple[str, ...]:
    return tuple(word for word in words.split() if word not in ARTICLES)
