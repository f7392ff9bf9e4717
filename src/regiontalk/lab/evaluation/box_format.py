"""Detects boxes in another format than xyxy pixels, which would give an mAP near zero without any
error.

All boxes of a file are checked together: a single odd box may be a model's mistake, hundreds of
them are a format.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from regiontalk import boxes
from regiontalk.boxes import Floats
from regiontalk.errors import DataError

MIN_BOXES_TO_JUDGE = 500  # boxes after which a verdict may come before the end
MAX_OUTSIDE_SHARE = 0.05  # of the image's side that a box may stick out
MIN_FITTING_SHARE = 0.98

_XYXY = "xyxy"
_READINGS: dict[str, Callable[[Floats], Floats]] = {
    _XYXY: lambda given: given,
    "xywh (left, top, width, height)": boxes.xywh_to_xyxy,
    "cxcywh (centre, width, height)": boxes.cxcywh_to_xyxy,
    "yxyx (top, left, bottom, right)": lambda given: given[:, [1, 0, 3, 2]],
}
_HINT = "boxes must be xyxy (left, top, right, bottom) in pixels of the upright image of the truth"


class BoxCheck:
    """Collects boxes; `verdict` raises when they can't be what they should be.

    `true_reach` is the `reach` of the truth's boxes, for judging predictions.
    """

    def __init__(self, what: str, true_reach: ArrayLike = (0.0, 0.0)) -> None:
        self.what = what
        self.true_reach = np.asarray(true_reach)
        self.images = 0
        self.fitting = dict.fromkeys(_READINGS, 0)
        self.seen = 0
        self.largest = 0.0
        self.smallest_side = np.inf
        self.reach = np.zeros(2)  # the furthest right and bottom, in image widths and heights

    def add(self, boxes_xyxy: Floats, width: int, height: int) -> None:
        """Boxes (N, 4) of an image of the truth's width and height."""
        if not len(boxes_xyxy):
            return
        self.seen += len(boxes_xyxy)
        self.images += 1
        for name, read in _READINGS.items():
            self.fitting[name] += _count_fitting(read(boxes_xyxy), width, height)
        self.largest = max(self.largest, float(boxes_xyxy.max()))
        self.smallest_side = min(self.smallest_side, width, height)
        self.reach = np.maximum(self.reach, boxes_xyxy[:, 2:].max(axis=0) / (width, height))

    def verdict(self) -> None:
        """Raises DataError with the convention that the numbers look like."""
        looks_like = self._looks_like() if self.seen else None
        if looks_like:
            raise DataError(
                f"{self.what}: the boxes can't be xyxy pixels; they look like {looks_like}",
                hint=_HINT,
            )

    def _looks_like(self) -> str | None:
        reach = f"{self.reach[0]:.2f} × {self.reach[1]:.2f} of the image's size"
        if self.largest <= 1.5 < self.smallest_side / 8:
            return "coordinates normalised to 0–1"
        name, count = max(
            self.fitting.items(), key=lambda item: item[1]
        )  # of equal ones the first: xyxy
        if self.fitting[_XYXY] >= MIN_FITTING_SHARE * self.seen:
            # Over many images, some prediction comes as near to the right and the bottom edge as
            # the truth.
            smaller = (
                self.images >= 20
                and self.seen >= 200
                and (self.reach < 0.8 * self.true_reach).all()
            )
            return (
                f"pixels of a smaller, resized image (none reaches beyond {reach})"
                if smaller
                else None
            )
        if count >= MIN_FITTING_SHARE * self.seen:
            return name
        if self.fitting[_XYXY] < self.seen / 2:
            return f"pixels of a resized image (they reach {reach})"
        return None


def _count_fitting(boxes_xyxy: Floats, width: int, height: int) -> int:
    """How many are the right way round and inside the image, nearly."""
    size = np.array([width, height])
    low = boxes_xyxy[:, :2]
    high = boxes_xyxy[:, 2:]
    inside = (
        (low >= -MAX_OUTSIDE_SHARE * size)
        & (high <= (1 + MAX_OUTSIDE_SHARE) * size)
        & (low <= high)
    )
    return int(inside.all(axis=1).sum())
