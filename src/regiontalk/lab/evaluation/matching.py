"""Which detection claims which truth of an image (the released DenseCap evaluator's rule)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from regiontalk import boxes
from regiontalk.boxes import Floats, Integers
from regiontalk.lab.data.merged_truth import TruthImage
from regiontalk.lab.data.records import TrueRegion
from regiontalk.lab.evaluation.average_precision import IOU_THRESHOLDS
from regiontalk.lab.evaluation.language import Pair
from regiontalk.results import Region

SAME_BOX = 0.9  # IoU from which a predicted box is the given one, rounded


@dataclass
class MatchedImage:
    """The detections of one image, best first.

    `overlaps` is the IoU with the truth that a detection claims, 0 where it claims none. `language`
    is filled in later for `claiming`, the detections that can be right; `claims` are their captions
    and references.
    """

    scores: Floats
    overlaps: Floats
    language: Floats
    claiming: Integers
    claims: list[Pair] = field(default_factory=list)
    bag_pairs: list[Pair] = field(
        default_factory=list
    )  # each different caption against all references
    bag_weights: list[int] = field(default_factory=list)  # how many detections say it

    def forget_texts(self) -> None:
        """Keeps only numbers: the captions of many images would fill the memory."""
        self.claims = []
        self.bag_pairs = []
        self.bag_weights = []


def match(
    truth: TruthImage, regions: Sequence[Region], plus_one: bool, last_truth_slip: bool = False
) -> MatchedImage:
    """Each detection, highest score first, claims the truth it overlaps most, unless an earlier one
    has claimed it.

    Any overlap above 0 is enough; there is no second choice. With `last_truth_slip` a detection
    that overlaps nothing claims the last truth: the Lua code indexes with -1.
    """
    # The whole key makes the order, and so the result, independent of the order of the input.
    ranked = sorted(regions, key=lambda region: (-region.score, region.xyxy, region.caption))
    nearest, best = best_truths(boxes_of(ranked), truth.boxes_xyxy, plus_one)
    touches = best > 0
    claiming = np.flatnonzero(touches | (last_truth_slip and len(truth.references) > 0))
    _, first = np.unique(nearest[claiming], return_index=True)
    claims = np.zeros(len(ranked), dtype=bool)
    claims[claiming[first]] = True
    overlaps = np.where(claims & touches, best, 0.0)
    near = np.flatnonzero(overlaps >= IOU_THRESHOLDS[0])
    spoken = [n for n in near if ranked[n].caption.strip() and truth.references[nearest[n]]]
    captions = (
        Counter(region.caption for region in ranked if region.caption.strip())
        if truth.bag
        else Counter()
    )
    return MatchedImage(
        scores=np.array([region.score for region in ranked], dtype=np.float64),
        overlaps=overlaps,
        language=np.zeros(len(ranked)),
        claiming=np.array(spoken, dtype=np.intp),
        claims=[(ranked[n].caption, truth.references[nearest[n]]) for n in spoken],
        bag_pairs=[(caption, truth.bag) for caption in captions],
        bag_weights=list(captions.values()),
    )


def best_truths(
    detections_xyxy: Floats, truths_xyxy: Floats, plus_one: bool
) -> tuple[Integers, Floats]:
    """The truth of highest IoU for each detection (of equal ones the first), and that IoU.

    One that overlaps nothing gets the last truth and 0.
    """
    if not len(truths_xyxy):
        return np.zeros(len(detections_xyxy), dtype=np.intp), np.zeros(len(detections_xyxy))
    overlap = boxes.iou(detections_xyxy, truths_xyxy, plus_one)
    best = overlap.max(axis=1)
    return np.where(best > 0, overlap.argmax(axis=1), len(truths_xyxy) - 1), best


def captions_at(boxes_xyxy: Floats, regions: Sequence[Region]) -> list[str | None]:
    """The caption of the region on each of the given boxes (N, 4); None where there is none."""
    if not regions:
        return [None] * len(boxes_xyxy)
    nearest, overlaps = best_truths(boxes_xyxy, boxes_of(regions), plus_one=False)
    pairs = zip(nearest, overlaps, strict=True)
    return [regions[number].caption if overlap >= SAME_BOX else None for number, overlap in pairs]


def boxes_of(regions: Sequence[Region | TrueRegion]) -> Floats:
    return np.array([region.xyxy for region in regions], dtype=np.float64).reshape(-1, 4)
