"""The fully convolutional localization layer (DenseCap 3.1.2).

Shapes: N photos, C channels, h × w feature cells of 16 pixels, k anchors per cell, K = h·w·k
proposals, B regions per photo, X × Y cells per region. Boxes are `xyxy` in pixels of the network's
input.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk import boxes
from regiontalk.lab.data.anchors import PAPER_ANCHORS
from regiontalk.lab.nets.layers import STRIDE

ROUNDS_PER_CHECK = 8  # of suppression between two checks for convergence
LARGEST_LOG_SCALE = 4.0  # exp() of more than this times any anchor is far outside every photo


@dataclass(frozen=True)
class LocalizationConfig:
    anchors: tuple[tuple[float, float], ...] = PAPER_ANCHORS
    """(width, height) in input pixels."""
    filters: int = 256
    """Filters of the 3×3 convolution."""
    score_ways: Literal[1, 2] = 1
    """1: a logistic score, 5k outputs (the paper). 2: two-way softmax, 6k outputs (the release)."""


@dataclass(frozen=True)
class Proposals:
    """All proposals of a batch, before any is chosen."""

    boxes_xyxy: Tensor  # (N, K, 4)
    logits: Tensor  # (N, K)


@dataclass(frozen=True)
class LearnedProposals(Proposals):
    """The localization layer's."""

    transforms: Tensor  # (N, K, 4)
    anchors_cxcywh: Tensor  # (K, 4)


def decode_boxes(anchors_cxcywh: Tensor, transforms: Tensor) -> Tensor:
    """Eqs. 1–2: anchors (…, 4) moved by transforms (tx, ty, tw, th) -> boxes `xyxy` (…, 4).

    Differs from the paper: tw and th are cut at `LARGEST_LOG_SCALE`, so that exp() stays finite.
    """
    centre = anchors_cxcywh[..., :2] + transforms[..., :2] * anchors_cxcywh[..., 2:]
    size = anchors_cxcywh[..., 2:] * torch.exp(transforms[..., 2:].clamp(max=LARGEST_LOG_SCALE))
    return torch.cat([centre - size / 2, centre + size / 2], dim=-1)


def encode_boxes(anchors_cxcywh: Tensor, boxes_xyxy: Tensor) -> Tensor:
    """The inverse of eqs. 1–2: the transforms that take the anchors to the boxes."""
    target = to_cxcywh(boxes_xyxy)
    shift = (target[..., :2] - anchors_cxcywh[..., :2]) / anchors_cxcywh[..., 2:]
    return torch.cat(
        [shift, torch.log(target[..., 2:].clamp(min=1e-3) / anchors_cxcywh[..., 2:])], dim=-1
    )


def to_cxcywh(boxes_xyxy: Tensor) -> Tensor:
    size = (boxes_xyxy[..., 2:] - boxes_xyxy[..., :2]).clamp(min=1e-3)
    return torch.cat([(boxes_xyxy[..., :2] + boxes_xyxy[..., 2:]) / 2, size], dim=-1)


def clip_boxes(boxes_xyxy: Tensor, sizes: Tensor) -> Tensor:
    """Boxes (N, B, 4) cut to their photos' sizes (N, 2) = (width, height)."""
    limit = sizes.repeat(1, 2)[:, None, :].to(boxes_xyxy.dtype)
    return torch.minimum(boxes_xyxy.clamp(min=0), limit)


def box_iou(a_xyxy: Tensor, b_xyxy: Tensor) -> Tensor:
    """IoU of every pair: (N, A, 4) and (N, B, 4) -> (N, A, B)."""
    low = torch.maximum(a_xyxy[:, :, None, :2], b_xyxy[:, None, :, :2])
    high = torch.minimum(a_xyxy[:, :, None, 2:], b_xyxy[:, None, :, 2:])
    overlap = (high - low).clamp(min=0).prod(dim=-1)
    area_a = (a_xyxy[..., 2:] - a_xyxy[..., :2]).clamp(min=0).prod(dim=-1)
    area_b = (b_xyxy[..., 2:] - b_xyxy[..., :2]).clamp(min=0).prod(dim=-1)
    return overlap / (area_a[:, :, None] + area_b[:, None, :] - overlap).clamp(min=1e-9)


def sample_regions(
    features: Tensor,
    boxes_xyxy: Tensor,
    cells: int,
    samples_per_cell: int = 1,
    affine: Tensor | None = None,
) -> Tensor:
    """Eq. 3: bilinear features of regions; the gradient reaches the box coordinates.

    features (N, C, h, w), boxes (N, B, 4) -> (N·B, C, X, Y) with X = Y = `cells`. The corners of
    the grid lie on the corners of the box. Differs from the paper if `samples_per_cell` > 1: each
    cell is the mean of that many points per side, so that no feature of a large region is skipped.

    With `affine` (N, B, 2, 3) the grid is turned, sheared, scaled and shifted inside each box
    first, whose own coordinates are (x, y, 1) with x and y in -1…1; the gradient reaches it too.
    """
    if affine is not None:
        points = _sample_grid(features, _affine_grid(boxes_xyxy, cells * samples_per_cell, affine))
        return F.avg_pool2d(points, samples_per_cell)
    if samples_per_cell > 1:
        return _sample_means(features, boxes_xyxy, cells, samples_per_cell)
    return _sample_grid(features, _box_grid(boxes_xyxy, cells))


def _box_grid(boxes_xyxy: Tensor, points: int) -> Tensor:
    """Pixels (N, B, points, points, 2) of a grid over each box."""
    ratio = torch.linspace(0, 1, points, device=boxes_xyxy.device, dtype=boxes_xyxy.dtype)
    low = boxes_xyxy[..., :2, None]
    high = boxes_xyxy[..., 2:, None]
    x, y = (low + (high - low) * ratio).unbind(dim=2)  # (N, B, points) each
    return torch.stack(
        [x[:, :, None, :].expand(-1, -1, points, -1), y[:, :, :, None].expand(-1, -1, -1, points)],
        dim=-1,
    )


def _affine_grid(boxes_xyxy: Tensor, points: int, affine: Tensor) -> Tensor:
    """Pixels (N, B, points, points, 2) of a grid that `affine` (N, B, 2, 3) moves inside each
    box."""
    coordinates = torch.linspace(-1, 1, points, device=boxes_xyxy.device, dtype=boxes_xyxy.dtype)
    plane = torch.stack(
        [
            coordinates.expand(points, -1),
            coordinates[:, None].expand(-1, points),
            torch.ones_like(coordinates).expand(points, -1),
        ]
    )
    moved = affine.to(boxes_xyxy.dtype) @ plane.flatten(1)  # (N, B, 2, points²)
    centre, size = to_cxcywh(boxes_xyxy)[..., None].split(2, dim=2)  # (N, B, 2, 1) each
    return (centre + size / 2 * moved).mT.unflatten(2, (points, points))


def _sample_grid(features: Tensor, grid: Tensor) -> Tensor:
    """Gathers one feature per point: pixels (N, B, points, points, 2) -> (N·B, C, points,
    points)."""
    count, channels, height, width = features.shape
    points = grid.shape[2]
    # grid_sample wants -1…1 over the map's outer edges
    x = grid[..., 0] * (2.0 / (STRIDE * width)) - 1
    y = grid[..., 1] * (2.0 / (STRIDE * height)) - 1
    sampled = F.grid_sample(
        features.to(grid.dtype),
        torch.stack([x, y], dim=-1).flatten(1, 2),
        mode="bilinear",
        padding_mode="zeros",
        align_corners=False,
    )  # (N, C, B·points, points)
    return sampled.view(count, channels, -1, points, points).transpose(1, 2).flatten(0, 1)


def _sample_means(
    features: Tensor, boxes_xyxy: Tensor, cells: int, samples_per_cell: int
) -> Tensor:
    """Means over the points of each cell, as two products of matrices.

    Eq. 3 with such means is a weighted sum over rows, then over columns. That is several times as
    fast as a gather of all points, though most of the weights are 0.
    """
    count, channels, height, width = features.shape
    from_columns = _bilinear_weights(
        boxes_xyxy[..., 0::2], cells, samples_per_cell, width
    )  # (N, B, X, w)
    from_rows = _bilinear_weights(
        boxes_xyxy[..., 1::2], cells, samples_per_cell, height
    )  # (N, B, Y, h)
    plane = features.permute(0, 2, 3, 1).flatten(2).to(from_rows.dtype)  # (N, h, w·C)
    rows = from_rows.flatten(1, 2) @ plane  # (N, B·Y, w·C)
    sampled = from_columns[:, :, None] @ rows.view(
        count, -1, cells, width, channels
    )  # (N, B, Y, X, C)
    return sampled.flatten(0, 1).permute(0, 3, 1, 2)


def _bilinear_weights(sides: Tensor, cells: int, samples_per_cell: int, count: int) -> Tensor:
    """How much each of `count` features counts in each cell between two sides (N, B, 2) in pixels,
    (N, B, X, count)."""
    ratio = torch.linspace(0, 1, cells * samples_per_cell, device=sides.device, dtype=sides.dtype)
    points = (
        sides[..., :1] + (sides[..., 1:] - sides[..., :1]) * ratio
    ) / STRIDE - 0.5  # in features
    distance = (
        points[..., None] - torch.arange(count, device=sides.device, dtype=sides.dtype)
    ).abs()
    return (1 - distance).clamp(min=0).unflatten(2, (cells, samples_per_cell)).mean(dim=3)


def crop_regions(images: Tensor, boxes_xyxy: Tensor, side: int) -> Tensor:
    """Regions cut out of their photos and resized: images (N, 3, H, W), boxes (N, B, 4) -> (N·B, 3,
    side, side)."""
    height, width = images.shape[2:]
    ratio = (
        torch.arange(side, device=images.device, dtype=boxes_xyxy.dtype) + 0.5
    ) / side  # of the pixels' middles
    low = boxes_xyxy[..., :2, None]
    high = boxes_xyxy[..., 2:, None]
    x, y = (low + (high - low) * ratio).unbind(dim=2)  # (N, B, side) each
    x, y = x * (2.0 / width) - 1, y * (2.0 / height) - 1
    grid = torch.stack(
        [x[:, :, None, :].expand(-1, -1, side, -1), y[:, :, :, None].expand(-1, -1, -1, side)],
        dim=-1,
    )
    cut = F.grid_sample(
        images, grid.flatten(1, 2), padding_mode="border", align_corners=False
    )  # (N, 3, B·side, side)
    return cut.unflatten(2, (-1, side)).transpose(1, 2).flatten(0, 1)


class LocalizationLayer(nn.Module):
    """3×3 convolution, ReLU, 1×1 convolution: a score and a transform for k anchors in every
    cell."""

    def __init__(self, channels: int, config: LocalizationConfig) -> None:
        super().__init__()
        self.ways = config.score_ways
        self.k = len(config.anchors)
        self.conv = nn.Conv2d(channels, config.filters, 3, padding=1)
        self.scores = nn.Conv2d(config.filters, self.ways * self.k, 1)
        self.transforms = nn.Conv2d(config.filters, 4 * self.k, 1)
        self.register_buffer(
            "shapes", torch.tensor(config.anchors, dtype=torch.float32), persistent=False
        )

    def anchors(self, height: int, width: int) -> Tensor:
        """(K, 4) `cxcywh`, one set of k round the middle of every cell."""
        shapes = cast(Tensor, self.shapes)
        y = (torch.arange(height, device=shapes.device, dtype=shapes.dtype) + 0.5) * STRIDE
        x = (torch.arange(width, device=shapes.device, dtype=shapes.dtype) + 0.5) * STRIDE
        centres = torch.stack(
            [
                x[None, :, None].expand(height, -1, self.k),
                y[:, None, None].expand(-1, width, self.k),
            ],
            dim=-1,
        )  # (h, w, k, 2)
        return torch.cat([centres, shapes.expand(height, width, -1, -1)], dim=-1).reshape(-1, 4)

    def forward(self, features: Tensor) -> LearnedProposals:
        height, width = features.shape[2:]
        hidden = F.relu(self.conv(features))  # (N, 256, h, w)
        scores = self.scores(hidden).permute(0, 2, 3, 1)  # (N, h, w, ways·k)
        logits = scores.reshape(scores.shape[0], -1, self.ways).float()  # (N, K, ways)
        logit = logits[..., 0] if self.ways == 1 else logits[..., 1] - logits[..., 0]
        transforms = (
            self.transforms(hidden).permute(0, 2, 3, 1).reshape(scores.shape[0], -1, 4).float()
        )
        anchors = self.anchors(height, width)
        return LearnedProposals(decode_boxes(anchors, transforms), logit, transforms, anchors)


def box_geometry(boxes_xyxy: Tensor, sizes: Tensor) -> Tensor:
    """Where boxes (N, B, 4) lie in their photos: corners and area as shares of the photo, (N, B,
    5)."""
    corners = clip_boxes(boxes_xyxy, sizes) / sizes.repeat(1, 2)[:, None, :].to(boxes_xyxy.dtype)
    area = (corners[..., 2:] - corners[..., :2]).clamp(min=0).prod(dim=-1, keepdim=True)
    return torch.cat([corners, area], dim=-1)


def overlap_matrix(ranked_xyxy: Tensor, threshold: float) -> Tensor:
    """(N, K, K): 1 where a better box (row) overlaps a worse one (column) too much; boxes are
    sorted by score.

    In place where possible, since each step passes over the whole matrix. It divides as `boxes.nms`
    does, so that both decide the same for an overlap that is exactly the threshold.
    """
    low, high = ranked_xyxy.permute(2, 0, 1)[..., None].split(2)  # (2, N, K, 1) each: x and y
    high = torch.maximum(low, high)  # an inverted box has no area
    width, height = torch.clamp(high.mT, low, high).sub_(
        torch.clamp(low.mT, low, high)
    )  # (N, K, K) each
    overlap = width.mul_(height)
    area = (high - low).prod(dim=0).clamp_(min=1e-9)
    ratio = overlap.div_((area + area.mT).sub_(overlap))
    above = torch.empty_like(ratio, dtype=torch.bfloat16 if ratio.is_cuda else ratio.dtype)
    return torch.gt(ratio, threshold, out=above).triu_(diagonal=1)


class Suppression:
    """Greedy suppression of boxes (N, K, 4), sorted best first: the indices (N, limit) of the kept
    boxes, and how many of them are valid (N,).

    On the CPU `boxes.nms`, photo by photo. On a GPU all boxes of all photos at the same time: a box
    is kept iff no kept better box overlaps it too much. Applied repeatedly to all boxes, this rule
    converges to the greedy result after as many rounds as the longest chain of suppressions has
    links. Until then the rounds alternately keep too many and too few boxes, so a box on which two
    consecutive rounds agree has converged.
    """

    def __init__(self, threshold: float, limit: int) -> None:
        self.threshold = threshold
        self.limit = limit

    def __call__(self, ranked_xyxy: Tensor) -> tuple[Tensor, Tensor]:
        return self.in_rounds(ranked_xyxy) if ranked_xyxy.is_cuda else self.one_by_one(ranked_xyxy)

    def one_by_one(self, ranked_xyxy: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.zeros(
            len(ranked_xyxy), min(self.limit, ranked_xyxy.shape[1]), dtype=torch.long
        )
        counts = torch.zeros(len(ranked_xyxy), dtype=torch.long)
        falling = -np.arange(ranked_xyxy.shape[1], dtype=np.float64)
        for n, photo in enumerate(ranked_xyxy.numpy()):
            kept = torch.from_numpy(boxes.nms(photo, falling, self.threshold, self.limit))
            places[n, : len(kept)] = kept
            counts[n] = len(kept)
        return places, counts

    def in_rounds(self, ranked_xyxy: Tensor) -> tuple[Tensor, Tensor]:
        overlaps = overlap_matrix(ranked_xyxy, self.threshold)
        everything = torch.ones(
            ranked_xyxy.shape[:2], dtype=overlaps.dtype, device=ranked_xyxy.device
        )
        keep, settled, places, counts = self._rounds(everything, overlaps)
        while not settled:
            keep, settled, places, counts = self._rounds(keep, overlaps)
        return places, counts

    def _rounds(self, keep: Tensor, overlaps: Tensor) -> tuple[Tensor, ...]:
        """Some rounds (N, K) -> (N, K), whether the first kept boxes have converged, and which they
        are."""
        before = keep
        for _ in range(ROUNDS_PER_CHECK):
            before = keep
            keep = torch.bmm(keep[:, None, :], overlaps)[:, 0].eq_(0)
        return keep, *first_kept(keep, before, self.limit)


def first_kept(keep: Tensor, before: Tensor, limit: int) -> tuple[Tensor, Tensor, Tensor]:
    """Whether two consecutive rounds (N, K) agree up to the last needed box of each photo; the
    indices (N, limit) of the first kept boxes, and how many of them are valid (N,)."""
    count = keep.shape[1]
    rank = torch.arange(count, device=keep.device)
    places = torch.where(keep > 0, rank, rank + count)
    first = torch.topk(places, min(limit, count), dim=1, largest=False, sorted=True).values
    settled = ((keep == before) | (rank > first[:, -1:])).all()
    return settled, first % count, (first < count).sum(dim=1)


def gather_boxes(boxes_xyxy: Tensor, index: Tensor) -> Tensor:
    """Boxes (N, K, 4) at indices (N, B) -> (N, B, 4)."""
    return boxes_xyxy.gather(1, index[..., None].expand(-1, -1, 4))
