"""Box geometry in numpy: conversions, IoU, suppression, clipping, scaling.

Boxes are float arrays (N, 4). `xyxy` is left, top, right, bottom; `xywh` is left, top, width, height;
`cxcywh` is centre and size. No +1 pixel anywhere except where `iou` is asked for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.floating]
Integers = NDArray[np.intp]


def xywh_to_xyxy(boxes_xywh: ArrayLike) -> Floats:
    boxes = _as_boxes(boxes_xywh)
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


def xyxy_to_xywh(boxes_xyxy: ArrayLike) -> Floats:
    boxes = _as_boxes(boxes_xyxy)
    return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)


def cxcywh_to_xyxy(boxes_cxcywh: ArrayLike) -> Floats:
    boxes = _as_boxes(boxes_cxcywh)
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


def xyxy_to_cxcywh(boxes_xyxy: ArrayLike) -> Floats:
    boxes = _as_boxes(boxes_xyxy)
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)


def area(boxes_xyxy: ArrayLike, plus_one: bool = False) -> Floats:
    """Areas (N,); a box turned inside out has none."""
    boxes = _as_boxes(boxes_xyxy)
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2] + float(plus_one), 0)
    return sides[:, 0] * sides[:, 1]


def iou(a_xyxy: ArrayLike, b_xyxy: ArrayLike, plus_one: bool = False) -> Floats:
    """Intersection over union of every pair, (N, M). `plus_one` counts the last pixel in, as DenseCap does."""
    a, b = _as_boxes(a_xyxy), _as_boxes(b_xyxy)
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = np.maximum(high - low + float(plus_one), 0)
    overlap = sides[..., 0] * sides[..., 1]
    union = area(a, plus_one)[:, None] + area(b, plus_one)[None, :] - overlap
    return np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0)


def nms(boxes_xyxy: ArrayLike, scores: ArrayLike, threshold: float, limit: int | None = None) -> Integers:
    """Greedy non-maximum suppression: the kept indices, best score first (equal scores: lower index first).

    A box goes when its IoU with a kept, better box is above `threshold`. Stops at `limit` kept boxes.
    """
    boxes = _as_boxes(boxes_xyxy)
    ranked = np.argsort(-np.asarray(scores), kind="stable")
    x0, y0, x1, y1 = (np.ascontiguousarray(column) for column in boxes[ranked].T)
    areas = np.maximum(x1 - x0, 0) * np.maximum(y1 - y0, 0)
    rest = np.arange(len(ranked))
    kept: list[int] = []
    while rest.size and (limit is None or len(kept) < limit):
        best, rest = rest[0], rest[1:]
        kept.append(int(ranked[best]))
        width = np.minimum(x1[best], x1[rest]) - np.maximum(x0[best], x0[rest])
        height = np.minimum(y1[best], y1[rest]) - np.maximum(y0[best], y0[rest])
        overlap = np.maximum(width, 0) * np.maximum(height, 0)
        rest = rest[overlap <= threshold * (areas[best] + areas[rest] - overlap)]
    return np.array(kept, dtype=np.intp)


def clip(boxes_xyxy: ArrayLike, width: float, height: float) -> Floats:
    """Boxes cut to the image, every coordinate within [0, width] or [0, height]."""
    boxes = _as_boxes(boxes_xyxy)
    return np.clip(boxes, 0, np.array([width, height, width, height], dtype=boxes.dtype))


def scale(boxes_xyxy: ArrayLike, factor_x: float, factor_y: float) -> Floats:
    boxes = _as_boxes(boxes_xyxy)
    return boxes * np.array([factor_x, factor_y, factor_x, factor_y], dtype=boxes.dtype)


def flip(boxes_xyxy: ArrayLike, width: float) -> Floats:
    """Boxes of the mirrored image (left and right exchanged)."""
    boxes = _as_boxes(boxes_xyxy)
    return np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], axis=1)


def merge_groups(boxes_xyxy: ArrayLike, threshold: float = 0.7, plus_one: bool = False) -> list[list[int]]:
    """DenseCap section 4: groups of heavily overlapping boxes, each a list of indices.

    Again and again the box with most overlapping boxes (IoU >= threshold) takes them with it;
    of equal ones the first.
    """
    close = iou(boxes_xyxy, boxes_xyxy, plus_one) >= threshold
    np.fill_diagonal(close, True)
    free = np.ones(len(close), dtype=bool)
    groups: list[list[int]] = []
    while free.any():
        counts = np.where(free, (close & free).sum(axis=1), -1)
        members = np.flatnonzero(close[int(np.argmax(counts))] & free)
        groups.append([int(member) for member in members])
        free[members] = False
    return groups


def _as_boxes(boxes: ArrayLike) -> Floats:
    array = np.asarray(boxes)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    return array.reshape(-1, 4)
