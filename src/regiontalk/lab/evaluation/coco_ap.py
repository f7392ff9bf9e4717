"""COCO's average precision of boxes: the mean over classes and the IoU thresholds .5, .55 … .95,
101 recall levels, at most 100 boxes of a class in a photo.

The figures equal those of `pycocotools` for truth without crowds (`iscrowd`), which our records do
not have, and for boxes of any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.boxes import Floats

IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALL_LEVELS = np.linspace(0, 1, 101)
MOST_BOXES = 100  # of a class in a photo
HALF, THREE_QUARTERS = 0, 5  # the places of .5 and .75 among the thresholds


class Detected(NamedTuple):
    """The boxes of one class in one photo: what was found, and the truth."""

    boxes_xyxy: Floats
    """(D, 4) the detected boxes."""
    scores: Floats
    """(D,) the scores of the detected boxes."""
    truths_xyxy: Floats
    """(G, 4) the true boxes."""


def coco_ap(classes: Mapping[str, Iterable[Detected]]) -> dict[str, object]:
    """`ap`, `ap50`, `ap75` in percent, and `classes` with the AP of each; a class without truth is
    left out, as in COCO."""
    by_class = {name: average_precisions(list(photos)) for name, photos in classes.items()}
    known = {name: values for name, values in by_class.items() if values is not None}
    if not known:
        return {"ap": 0.0, "ap50": 0.0, "ap75": 0.0, "classes": {}}
    means = 100 * np.mean(list(known.values()), axis=0)
    return {
        "ap": float(means.mean()),
        "ap50": float(means[HALF]),
        "ap75": float(means[THREE_QUARTERS]),
        "classes": {name: 100 * float(values.mean()) for name, values in known.items()},
    }


def average_precisions(photos: Sequence[Detected]) -> Floats | None:
    """(10,) AP of a class at each IoU threshold; None without truth."""
    truths = sum(len(photo.truths_xyxy) for photo in photos)
    if not truths:
        return None
    ranked = [_best(photo) for photo in photos]
    scores = np.concatenate([photo.scores for photo in ranked])
    right = np.concatenate([matches(photo) for photo in ranked], axis=1)
    order = np.argsort(-scores, kind="stable")
    return np.array([_average_precision(row[order], truths) for row in right])


def _best(photo: Detected) -> Detected:
    order = np.argsort(-photo.scores, kind="stable")[:MOST_BOXES]
    return photo._replace(boxes_xyxy=photo.boxes_xyxy[order], scores=photo.scores[order])


def matches(photo: Detected) -> NDArray[np.bool_]:
    """(10, D) which boxes, best first, are right at each threshold.

    Each takes the true box of highest IoU that no better one has taken (of equal ones the last).
    """
    overlaps = geometry.iou(photo.boxes_xyxy, photo.truths_xyxy)
    right = np.zeros((len(IOU_THRESHOLDS), len(overlaps)), dtype=bool)
    for level, threshold in enumerate(IOU_THRESHOLDS):
        free = np.ones(overlaps.shape[1], dtype=bool)
        for number, row in enumerate(overlaps):
            fitting = free & (row >= threshold)
            if fitting.any():
                candidates = np.where(fitting, row, -1.0)
                free[len(row) - 1 - int(candidates[::-1].argmax())] = False
                right[level, number] = True
    return right


def _average_precision(right: NDArray[np.bool_], truths: int) -> float:
    """The mean over recall levels of the best precision at that recall or any higher one."""
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(right) + 1)
    best_from = np.maximum.accumulate(precision[::-1])[::-1]
    first = np.searchsorted(hits / truths, RECALL_LEVELS, side="left")
    reached = first < len(right)
    return float(best_from[first[reached]].sum() / len(RECALL_LEVELS))
