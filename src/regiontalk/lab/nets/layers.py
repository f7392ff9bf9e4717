"""Layers that several backbones use."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

STRIDE = 16  # pixels between two cells of every backbone's feature map


def cells_inside(sizes: Tensor, height: int, width: int) -> Tensor:
    """Which cells of a batch of maps show a part of their photo, not padding: sizes (N, 2) in
    pixels -> (N, h, w)."""
    right = torch.arange(width, device=sizes.device) * STRIDE < sizes[:, :1]  # (N, w)
    down = torch.arange(height, device=sizes.device) * STRIDE < sizes[:, 1:]  # (N, h)
    return down[:, :, None] & right[:, None, :]


def skip_photos(y: Tensor, rate: float, training: bool) -> Tensor:
    """Stochastic depth: in training, `rate` of the photos in y (N, …) become zero, and the others
    grow for it."""
    if not (training and rate):
        return y
    stays = torch.rand(len(y), *[1] * (y.dim() - 1), device=y.device) >= rate
    return y * stays / (1 - rate)


class Normalize(nn.Module):
    """(x − mean) / deviation per channel, in units of 0–255."""

    def __init__(
        self, mean: tuple[float, float, float], deviation: tuple[float, float, float]
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer(
            "deviation", torch.tensor(deviation).view(1, 3, 1, 1), persistent=False
        )

    def forward(self, images: Tensor) -> Tensor:
        return (images - cast(Tensor, self.mean)) / cast(Tensor, self.deviation)


class SameConv(nn.Module):
    """Convolution with TensorFlow's SAME padding for even sizes, batch normalisation, and
    optionally ReLU6."""

    def __init__(
        self,
        width: int,
        out: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        active: bool = True,
    ) -> None:
        super().__init__()
        total = kernel - stride if stride > 1 else kernel - 1
        before = total // 2
        after = total - total // 2
        self.pad = (
            nn.ZeroPad2d((before, after, before, after)) if before != after else nn.Identity()
        )
        symmetric = before if before == after else 0
        self.conv = nn.Conv2d(width, out, kernel, stride, symmetric, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out, eps=1e-3, momentum=0.01)
        self.active = nn.ReLU6(inplace=True) if active else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.active(self.norm(self.conv(self.pad(x))))
