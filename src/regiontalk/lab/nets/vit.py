"""A vision transformer as a backbone (Dosovitskiy et al. 2021; DINOv2's ViT-S: Oquab et al. 2023).

Differs from the paper: DenseCap's backbone is convolutional. Patches are 16 pixels wide, the stride
of all backbones; DINOv2's are 14, and `weights` resizes its patch kernel.

Shapes: N photos, H × W pixels, h = H/16, w = W/16, T = 1 + h·w tokens (the class token first), E
channels of a token, C channels of the feature map.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.lab.nets.layers import (
    MLP,
    STRIDE,
    Attention,
    Normalize,
    SameConv,
    cells_inside,
    skip_photos,
)

WIDTH, DEPTH, HEADS = 384, 12, 6  # ViT-S
POSITION_GRID_SIDE = 37  # a side of the stored grid of positions
# Blocks whose tokens make the feature map: the middle ones localize better.
TAPPED_BLOCKS = (5, 8, 11)


class Block(nn.Module):
    """Attention, then two linear layers, each scaled and added. In training a photo skips each at
    the rate `skip`."""

    def __init__(self, skip: float) -> None:
        super().__init__()
        self.skip = skip
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = Attention(WIDTH, HEADS)
        self.mlp = MLP(WIDTH)
        self.scale1 = nn.Parameter(torch.ones(WIDTH))
        self.scale2 = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + skip_photos(self.scale1 * self.attn(self.norm1(x), mask), self.skip, self.training)
        return x + skip_photos(self.scale2 * self.mlp(self.norm2(x)), self.skip, self.training)


class ViTTokens(nn.Module):
    """ViT-S without layers of its own on top: what DINOv2's weights are of. H and W are multiples
    of 16."""

    pad_to = STRIDE
    deep_channels = WIDTH
    new_layers: tuple[str, ...] = ()
    """Layers that DINOv2 does not have; they start from scratch."""

    def __init__(self, skip: float = 0.0) -> None:
        """`skip` is the rate of the last block; it decreases linearly towards the first."""
        super().__init__()
        self.normalize = Normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
        self.patches = nn.Conv2d(3, WIDTH, STRIDE, STRIDE)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(POSITION_GRID_SIDE, POSITION_GRID_SIDE, WIDTH))
        self.blocks = nn.ModuleList(Block(skip * number / (DEPTH - 1)) for number in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)

    def first_layers(self) -> list[nn.Module]:
        return [self.patches]

    def depth(self, name: str) -> int:
        """How many layers follow the one that this weight is in, for rates that fall towards the
        first layers."""
        part, _, rest = name.partition(".")
        if part == "blocks":
            return DEPTH - int(rest.split(".", 1)[0])
        return 0 if part == "norm" or part in self.new_layers else DEPTH + 1

    def class_and_patches(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The class token (N, E) and the other tokens as a map (N, E, h, w), of the last block, of
        photos that fill their images."""
        taps, height, width = self._taps(images, None)
        tokens = self.norm(taps[-1])
        return tokens[:, 0], _as_map(tokens[:, 1:], height, width)

    def _taps(self, images: Tensor, sizes: Tensor | None) -> tuple[list[Tensor], int, int]:
        """The tokens (N, T, E) after each of `TAPPED_BLOCKS`, not normalised, and h and w.

        `sizes` (N, 2): width and height of the photos inside the images; None: they fill them.
        Padding in a batch does not change the result: positions are relative to the photo, and no
        token attends to padding.
        """
        patches = self.patches(self.normalize(images))  # (N, E, h, w)
        height, width = patches.shape[2:]
        mask = None
        class_token: Tensor = self.class_token  # (1, 1, E)
        if sizes is None:
            sizes = images.new_tensor([[width * STRIDE, height * STRIDE]])  # (1, 2)
            class_token = class_token.expand(len(images), -1, -1)
        # A single photo is padded by less than a patch: no mask is needed, and its graph has none.
        elif len(images) > 1:
            class_token = class_token.expand(len(images), -1, -1)
            inside = cells_inside(sizes, height, width).flatten(1)
            mask = F.pad(inside, (1, 0), value=True)[:, None, None]  # (N, 1, 1, T)
            if mask.all():  # attention without a mask is several times as fast on a GPU
                mask = None
        positions = self._positions(sizes, height, width).flatten(1, 2)
        x = patches.flatten(2).transpose(1, 2) + positions
        x = torch.cat([class_token.to(x.dtype), x], dim=1)  # (N, T, E)
        taps = []
        for number, block in enumerate(self.blocks):
            x = block(x, mask)
            if number in TAPPED_BLOCKS:
                taps.append(x)
        return taps, height, width

    def _positions(self, sizes: Tensor, height: int, width: int) -> Tensor:
        """The stored grid stretched over each photo: (N, h, w, E)."""
        sides = sizes.to(self.positions.dtype)
        rows = _interpolation(sides[:, 1], height) @ self.positions.flatten(1)  # (N, h, 37·E)
        columns = _interpolation(sides[:, 0], width)  # (N, w, 37)
        return columns[:, None] @ rows.unflatten(2, (POSITION_GRID_SIDE, WIDTH))


class ViT(ViTTokens):
    """ViT-S as a detector's backbone: (N, 3, H, W) -> (N, C, H/16, W/16)."""

    new_layers = ("norms", "mix", "fuse")

    def __init__(self, channels: int, skip: float = 0.0) -> None:
        super().__init__(skip)
        self.channels = channels
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, eps=1e-6) for _ in TAPPED_BLOCKS[:-1])
        self.mix = SameConv(len(TAPPED_BLOCKS) * WIDTH, channels, 1)
        self.fuse = SameConv(channels, channels, 3)

    def forward(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """The feature map (N, C, h, w), and the last block's tokens as a map (N, E, h, w), of
        photos of such `sizes` (N, 2) inside the images."""
        taps, height, width = self._taps(images, sizes)
        normed = [
            norm(tap[:, 1:]) for norm, tap in zip([*self.norms, self.norm], taps, strict=True)
        ]
        planes = [_as_map(tokens, height, width) for tokens in normed]
        return self.fuse(self.mix(torch.cat(planes, dim=1))), planes[-1]


def _as_map(tokens: Tensor, height: int, width: int) -> Tensor:
    """Tokens of patches (N, h·w, E) -> (N, E, h, w)."""
    return tokens.transpose(1, 2).unflatten(2, (height, width))


def _interpolation(sides: Tensor, cells: int) -> Tensor:
    """Weights of the stored positions at the centre of each cell along sides (N,) in pixels: (N,
    cells, 37)."""
    centres = (torch.arange(cells, device=sides.device, dtype=sides.dtype) + 0.5) * STRIDE
    points = centres / sides[:, None] * POSITION_GRID_SIDE - 0.5
    points = points.clamp(0, POSITION_GRID_SIDE - 1)  # (N, cells)
    distance = (
        points[..., None] - torch.arange(POSITION_GRID_SIDE, device=sides.device, dtype=sides.dtype)
    ).abs()
    return (1 - distance).clamp(min=0)
