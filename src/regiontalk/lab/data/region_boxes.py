"""Scales regions to an image of another size, and clips them to it; a plural phrase has the union
of its boxes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from regiontalk.lab.data.records import TrueRegion
from regiontalk.results import BoxXYXY

NO_PHRASE = "empty phrase"
NO_AREA = "box without area inside the image"


class Unusable(Exception):
    """A region that cannot be used; the message is one of the reasons above."""


def clamp_region(region: TrueRegion, width: int, height: int) -> TrueRegion:
    """The region with its boxes clipped to the image; the same object if they are inside."""
    if not region.phrase.strip():
        raise Unusable(NO_PHRASE)
    boxes = region.boxes_xyxy or (region.xyxy,)
    inside = [clamp(box, width, height) for box in boxes]
    clamped = tuple(box for box in inside if box is not None)
    if not clamped:
        raise Unusable(NO_AREA)
    if clamped == boxes:
        return region
    return replace(region, xyxy=union(clamped), boxes_xyxy=clamped if len(clamped) > 1 else ())


def clamp(box: BoxXYXY, width: int, height: int) -> BoxXYXY | None:
    """The part of a box inside the image, None if it is empty; the box itself if it is inside."""
    x0, y0, x1, y1 = box
    if 0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height:
        return box
    if not all(math.isfinite(value) for value in box):
        raise ValueError(f"a box with a coordinate that is not a number: {box}")
    x0, y0, x1, y1 = max(x0, 0), max(y0, 0), min(x1, width), min(y1, height)
    return (x0, y0, x1, y1) if x0 < x1 and y0 < y1 else None


def union(boxes_xyxy: Iterable[BoxXYXY]) -> BoxXYXY:
    """The smallest box around several."""
    lefts, tops, rights, bottoms = zip(*boxes_xyxy, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def scale_region(region: TrueRegion, x: float, y: float) -> TrueRegion:
    """The region on a photo that was resized by `x` and `y`."""

    def scale(box: BoxXYXY) -> BoxXYXY:
        return (
            round(box[0] * x, 3),
            round(box[1] * y, 3),
            round(box[2] * x, 3),
            round(box[3] * y, 3),
        )

    return replace(
        region, xyxy=scale(region.xyxy), boxes_xyxy=tuple(scale(box) for box in region.boxes_xyxy)
    )
