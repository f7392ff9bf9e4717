"""Convolutional backbones: a photo in, a feature map of stride 16 and a deep map out.

Shapes: N photos, C channels, A channels of the deep map, H × W pixels, h = H/16, w = W/16. Regions
are detected and recognised in the feature map. The deep map has the outputs of the last layers
before they are reduced and fused for that; it is better for retrieval. Inputs are RGB values 0–255
as `images.photo.to_input` makes them; each net normalises them itself.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regiontalk.lab.nets.layers import Normalize, SameConv, skip_photos
from regiontalk.lab.nets.vit import ViT

VGG_LAYERS = (
    64,
    64,
    "pool",
    128,
    128,
    "pool",
    256,
    256,
    256,
    "pool",
    512,
    512,
    512,
    "pool",
    512,
    512,
    512,
)


class VGG16(nn.Module):
    """VGG-16's 13 convolutions without the last pool (DenseCap 3.1.1): (N, 3, H, W) -> (N, 512,
    ⌊H/16⌋, ⌊W/16⌋)."""

    channels = 512
    deep_channels = 512
    pad_to = 1

    def __init__(self) -> None:
        super().__init__()
        self.normalize = Normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
        layers: list[nn.Module] = []
        width = 3
        for layer in VGG_LAYERS:
            if layer == "pool":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(width, int(layer), 3, padding=1), nn.ReLU(inplace=True)]
                width = int(layer)
        self.layers = nn.Sequential(*layers)

    @property
    def convolutions(self) -> list[nn.Conv2d]:
        return [layer for layer in self.layers if isinstance(layer, nn.Conv2d)]

    def first_layers(self) -> list[nn.Module]:
        """The first four convolutions, which are never fine-tuned (DenseCap 3.3)."""
        return list(self.convolutions[:4])

    def forward(self, images: Tensor, _sizes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Both maps are the last layer's."""
        features = self.layers(self.normalize(images))
        return features, features


@dataclass(frozen=True)
class Stage:
    repeats: int
    kernel: int
    stride: int
    expand: int
    channels: int


# EfficientNet-B0's stages; the lite family scales all but the first and last one's repeats.
STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)
LITE_SCALES = {0: (1.0, 1.0), 1: (1.0, 1.1), 2: (1.1, 1.2)}
STEM_CHANNELS = 32
TAPPED_STAGES = (2, 4, 6)  # the stages that end stride 8, 16 and 32


class InvertedResidual(nn.Module):
    """Expand, depthwise, project; with a shortcut if the shapes are equal.

    In training a photo takes only the shortcut with probability `skip`.
    """

    def __init__(self, width: int, out: int, stage: Stage, stride: int, skip: float) -> None:
        super().__init__()
        self.skip = skip
        inner = width * stage.expand
        self.expand = SameConv(width, inner, 1) if stage.expand > 1 else nn.Identity()
        self.depthwise = SameConv(inner, inner, stage.kernel, stride, groups=inner)
        self.project = SameConv(inner, out, 1, active=False)
        self.shortcut = stride == 1 and width == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + skip_photos(y, self.skip, self.training) if self.shortcut else y


class EfficientNetLite(nn.Module):
    """EfficientNet-lite 0, 1 or 2 with strides 8, 16 and 32 fused to 16: (N, 3, H, W) -> (N, C,
    H/16, W/16).

    H and W are multiples of 32.
    """

    pad_to = 32

    def __init__(self, size: int, channels: int, skip: float = 0.0, deep_channels: int = 0) -> None:
        """`skip` is the rate of the last stage; it decreases linearly towards the first.
        `deep_channels`: channels of the deep map, by a linear layer; 0: unchanged."""
        super().__init__()
        self.channels = channels
        self.normalize = Normalize((127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
        self.stem = SameConv(3, STEM_CHANNELS, 3, stride=2)
        self.stages = nn.ModuleList()
        width_scale, depth_scale = LITE_SCALES[size]
        width = STEM_CHANNELS
        tapped = []
        for number, stage in enumerate(STAGES):
            out = _round_channels(stage.channels * width_scale)
            fixed = number in (0, len(STAGES) - 1)
            repeats = stage.repeats if fixed else -int(-stage.repeats * depth_scale // 1)
            own_skip = skip * number / (len(STAGES) - 1)
            blocks = [
                InvertedResidual(
                    width if i == 0 else out, out, stage, stage.stride if i == 0 else 1, own_skip
                )
                for i in range(repeats)
            ]
            self.stages.append(nn.Sequential(*blocks))
            width = out
            if number in TAPPED_STAGES:
                tapped.append(out)
        deep = tapped[1] + tapped[2]
        self.deep_channels = deep_channels or deep
        self.deep = (
            SameConv(deep, deep_channels, 1, active=False) if deep_channels else nn.Identity()
        )
        self.fine = SameConv(tapped[0], channels, 3, stride=2, active=False)
        self.middle = SameConv(tapped[1], channels, 1, active=False)
        self.coarse = SameConv(tapped[2], channels, 1, active=False)
        self.fuse = SameConv(channels, channels, 3)

    def first_layers(self) -> list[nn.Module]:
        """The stem and the first stage, for recipes that keep them as they are."""
        return [self.stem, self.stages[0]]

    def forward(self, images: Tensor, _sizes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The feature map (N, C, h, w), and strides 16 and 32 side by side (N, A, h, w)."""
        x = self.stem(self.normalize(images))  # (N, 32, H/2, W/2)
        taps = []
        for number, stage in enumerate(self.stages):
            x = stage(x)
            if number in TAPPED_STAGES:
                taps.append(x)
        eighth, sixteenth, thirtysecond = taps
        deep = self.deep(torch.cat([sixteenth, _twice_as_large(thirtysecond)], dim=1))
        coarse = _twice_as_large(self.coarse(thirtysecond))
        return self.fuse(self.fine(eighth) + self.middle(sixteenth) + coarse), deep


def _twice_as_large(features: Tensor) -> Tensor:
    return nn.functional.interpolate(features, scale_factor=2.0, mode="nearest")


class TinyNet(nn.Module):
    """Five small convolutions for drawn scenes, trained from scratch: (N, 3, H, W) -> (N, C,
    ⌈H/16⌉, ⌈W/16⌉)."""

    pad_to = 16

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = self.deep_channels = channels
        self.normalize = Normalize((127.0, 127.0, 127.0), (64.0, 64.0, 64.0))
        widths = (3, 16, 32, 64, channels)
        layers: list[nn.Module] = []
        for width, out in itertools.pairwise(widths):
            layers += [nn.Conv2d(width, out, 3, stride=2, padding=1), nn.ReLU()]
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def first_layers(self) -> list[nn.Module]:
        return [self.layers[0]]

    def forward(self, images: Tensor, _sizes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Both maps are the last layer's."""
        features = self.layers(self.normalize(images))
        return features, features


Backbone = VGG16 | EfficientNetLite | TinyNet | ViT


BackboneName = Literal[
    "tiny", "vgg16", "efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "vit-s"
]


def build_backbone(
    name: BackboneName, channels: int, skip: float = 0.0, deep_channels: int = 0
) -> Backbone:
    """VGG-16 has 512 channels, the others have `channels`. `skip` is for EfficientNet-lite and ViT,
    `deep_channels` for EfficientNet-lite."""
    if name == "vgg16":
        return VGG16()
    if name == "tiny":
        return TinyNet(channels)
    if name == "vit-s":
        return ViT(channels, skip)
    return EfficientNetLite(
        int(name.removeprefix("efficientnet-lite")), channels, skip, deep_channels
    )


def _round_channels(channels: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth too small."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
