"""Box geometry in numpy: conversions, IoU, suppression, clipping, scaling.

Boxes are float arrays (N, 4). `xyxy` is left, top, right, bottom; `xywh` is left, top, width,
height; `cxcywh` is centre and size. There is no +1 pixel anywhere, except with `plus_one` of `iou`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regiontalk.errors import UsageError

Floats = NDArray[np.floating]
Integers = NDArray[np.intp]

_CHUNK = 256


def xywh_to_xyxy(boxes_xywh: ArrayLike) -> Floats:
    boxes = _as_boxes(boxes_xywh)
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


def cxcywh_to_xyxy(boxes_cxcywh: ArrayLike) -> Floats:
    boxes = _as_boxes(boxes_cxcywh)
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)


def xyxy_to_cxcywh(boxes_xyxy: ArrayLike) -> Floats:
    boxes = _as_boxes(boxes_xyxy)
    return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], axis=1)


def area(boxes_xyxy: ArrayLike, plus_one: bool = False) -> Floats:
    """Areas (N,); 0 for inverted boxes."""
    boxes = _as_boxes(boxes_xyxy)
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2] + float(plus_one), 0)
    return sides[:, 0] * sides[:, 1]


def iou(a_xyxy: ArrayLike, b_xyxy: ArrayLike, plus_one: bool = False) -> Floats:
    """Intersection over union of every pair, (N, M). `plus_one` counts the last pixel in (DenseCap
    code)."""
    a = _as_boxes(a_xyxy)
    b = _as_boxes(b_xyxy)
    width = np.minimum(a[:, None, 2], b[None, :, 2]) - np.maximum(a[:, None, 0], b[None, :, 0])
    height = np.minimum(a[:, None, 3], b[None, :, 3]) - np.maximum(a[:, None, 1], b[None, :, 1])
    overlap = np.maximum(width + float(plus_one), 0) * np.maximum(height + float(plus_one), 0)
    union = area(a, plus_one)[:, None] + area(b, plus_one)[None, :] - overlap
    ratio: Floats = np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0)
    return ratio


def nms(
    boxes_xyxy: ArrayLike, scores: ArrayLike, threshold: float, limit: int | None = None
) -> Integers:
    """Greedy non-maximum suppression: the kept indices, best score first (equal scores: lower index
    first).

    A box is dropped if its IoU with a kept, better box is above `threshold`. Stops at `limit` kept
    boxes.
    """
    boxes = _as_boxes(boxes_xyxy)
    ranked = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    kept: list[int] = []
    # Chunk by chunk, because with a limit most boxes are never needed.
    for start in range(0, len(ranked), _CHUNK):
        chunk = ranked[start : start + _CHUNK]
        chunk = chunk[~(iou(boxes[chunk], boxes[kept]) > threshold).any(axis=1)]
        close = iou(boxes[chunk], boxes[chunk]) > threshold
        free = np.ones(len(chunk), dtype=bool)
        for number, box in enumerate(chunk.tolist()):
            if not free[number]:
                continue
            if len(kept) == limit:
                return np.array(kept, dtype=np.intp)
            kept.append(box)
            free &= ~close[number]
    return np.array(kept, dtype=np.intp)


def clip(boxes_xyxy: ArrayLike, width: float, height: float) -> Floats:
    """Boxes clipped to the image, every coordinate within [0, width] or [0, height]."""
    boxes = _as_boxes(boxes_xyxy)
    return np.clip(boxes, 0, np.array([width, height, width, height], dtype=boxes.dtype))


def scale(boxes_xyxy: ArrayLike, factor_x: float, factor_y: float) -> Floats:
    boxes = _as_boxes(boxes_xyxy)
    return boxes * np.array([factor_x, factor_y, factor_x, factor_y], dtype=boxes.dtype)


def flip(boxes_xyxy: ArrayLike, width: float) -> Floats:
    """Boxes of the mirrored image (left and right exchanged)."""
    boxes = _as_boxes(boxes_xyxy)
    return np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], axis=1)


def enlarge(boxes_xyxy: ArrayLike, factor: float) -> Floats:
    """Boxes with the same centres and scaled sides."""
    boxes = xyxy_to_cxcywh(boxes_xyxy)
    return cxcywh_to_xyxy(boxes * [1, 1, factor, factor])


PLACE_NUMBERS = 5  # numbers that describe the place of a box; all zero for padding


def places(boxes_xyxy: Floats, sizes: ArrayLike) -> Floats:
    """Boxes (…, N, 4) of photos of sizes (…, 2) -> left, top, right, bottom and area as shares of
    them, (…, N, 5)."""
    corners = boxes_xyxy / np.tile(np.asarray(sizes), 2)[..., None, :]
    sides = corners[..., 2:] - corners[..., :2]
    return np.concatenate([corners, sides[..., :1] * sides[..., 1:]], axis=-1)


def merge_groups(
    boxes_xyxy: ArrayLike, threshold: float = 0.7, plus_one: bool = False
) -> list[list[int]]:
    """DenseCap section 4: groups of heavily overlapping boxes, each a list of indices.

    Greedy: the box with the most overlapping boxes (IoU >= threshold) forms a group with them, and
    so on with the rest; of equal ones the first.
    """
    boxes = _as_boxes(boxes_xyxy)
    close = np.empty((len(boxes), len(boxes)), dtype=bool)
    for start in range(
        0, len(boxes), _CHUNK
    ):  # a byte for each pair is enough: IoUs would take a hundred
        close[start : start + _CHUNK] = (
            iou(boxes[start : start + _CHUNK], boxes, plus_one) >= threshold
        )
    np.fill_diagonal(close, True)
    free = np.ones(len(close), dtype=bool)
    counts = close.sum(axis=1)
    groups: list[list[int]] = []
    while free.any():
        members = np.flatnonzero(close[int(np.argmax(np.where(free, counts, -1)))] & free)
        groups.append(members.tolist())
        free[members] = False
        counts -= close[members].sum(axis=0)
    return groups


def given_boxes(boxes: ArrayLike, photo_size: tuple[int, int]) -> NDArray[np.float64]:
    """The user's boxes in pixels, clipped to the photo. If all numbers are from 0 to 1, they are
    fractions of it."""
    try:
        values = np.asarray(boxes, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"boxes must be rows of four numbers: {error}") from error
    if values.size == 0:
        return np.zeros((0, 4))
    if values.ndim != 2 or values.shape[1] != 4:
        raise UsageError(
            "boxes must be rows of four numbers (left, top, right, bottom), not of shape "
            f"{values.shape}"
        )
    fractions = bool(((values >= 0) & (values <= 1)).all())
    clipped = clip(values * (photo_size * 2) if fractions else values, *photo_size).astype(
        np.float64
    )
    for number, box in enumerate(clipped):
        if not (box[2] > box[0] and box[3] > box[1]):  # written so that NaN fails too
            raise UsageError(
                f"box {number}, {values[number].tolist()}: nothing of it lies in the photo of "
                f"{photo_size[0]}×{photo_size[1]} pixels",
                hint="left, top, right, bottom",
            )
        if not fractions and (values[number] <= 1).all() and (values[number] >= 0).all():
            raise UsageError(
                f"box {number}, {values[number].tolist()}: fractions of the photo among boxes in "
                "pixels",
                hint="give all boxes in pixels, or all as fractions",
            )
    return clipped


def _as_boxes(boxes: ArrayLike) -> Floats:
    array = np.asarray(boxes)
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    return array.reshape(-1, 4)
