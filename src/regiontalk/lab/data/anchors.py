"""Anchors fitted to a data set: k-means over the boxes' shapes with 1 − IoU as the distance."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record

# The released code's twelve anchors (width, height) for photos whose long side has 720 pixels.
PAPER_ANCHORS = (
    (45, 90), (90, 45), (64, 64),
    (90, 180), (180, 90), (128, 128),
    (181, 362), (362, 181), (256, 256),
    (362, 724), (724, 362), (512, 512),
)  # fmt: skip
MAX_ROUNDS = 100


def box_shapes(records: Iterable[Record], long_side: int) -> NDArray[np.float64]:
    """Widths and heights (M, 2) of all regions, in pixels of photos resized to `long_side`."""
    shapes = []
    for record in records:
        scale = long_side / max(record.width, record.height)
        for region in record.regions:
            x0, y0, x1, y1 = region.xyxy
            if x1 - x0 >= 1 and y1 - y0 >= 1:
                shapes.append(((x1 - x0) * scale, (y1 - y0) * scale))
    if not shapes:
        raise DataError("no regions to fit anchors to")
    return np.array(shapes)


def fit_anchors(shapes: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """`count` anchors (width, height), small ones first; deterministic."""
    by_area = shapes[np.argsort(shapes.prod(axis=1), kind="stable")]
    anchors = by_area[np.linspace(0, len(by_area) - 1, count + 2).astype(int)[1:-1]]
    anchors = anchors * np.where(np.arange(count) % 2, 1.3, 1 / 1.3)[:, None] ** np.array([1, -1])
    for _ in range(MAX_ROUNDS):
        nearest = shape_iou(shapes, anchors).argmax(axis=1)
        moved = np.array(
            [
                np.median(shapes[nearest == n], axis=0) if (nearest == n).any() else anchors[n]
                for n in range(count)
            ]
        )
        if np.allclose(moved, anchors):
            break
        anchors = moved
    ordered: NDArray[np.float64] = anchors[np.argsort(anchors.prod(axis=1), kind="stable")]
    return ordered


def shape_iou(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """IoU of boxes (N, 2) and (M, 2) that share a corner, (N, M)."""
    overlap: NDArray[np.float64] = np.minimum(a[:, None], b[None]).prod(axis=2)
    union: NDArray[np.float64] = a.prod(axis=1)[:, None] + b.prod(axis=1)[None] - overlap
    return overlap / union
