"""Layers that several nets use."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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


class Attention(nn.Module):
    """Multi-head attention of tokens on each other: E numbers of each of T tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Tokens (N, T, E), and which of them are attended to (N, 1, 1, T; None: all) -> (N, T,
        E)."""
        count, tokens, width = x.shape
        # Linear layers get matrices, not stacks of them: only those become `Gemm`, which export can
        # store in 8 bits.
        qkv = self.qkv(x.flatten(0, 1)).view(count, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # (N, heads, T, E / heads) each
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        mixed = mixed.transpose(1, 2).reshape(count * tokens, width)
        return self.proj(mixed).view(count, tokens, width)


class MLP(nn.Module):
    """Two linear layers with GELU between them, on each token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x.flatten(0, 1)))).view_as(x)
