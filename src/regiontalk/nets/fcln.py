"""The Fully Convolutional Localization Network (DenseCap section 3), whole.

Shapes: N photos, K proposals a photo, B regions a photo, D the size of a code, A of an appearance, T words, V tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from regiontalk.nets.backbones import BackboneName, build_backbone
from regiontalk.nets.language import LanguageConfig, LanguageModel
from regiontalk.nets.localization import (
    LocalizationConfig,
    LocalizationLayer,
    box_geometry,
    decode_boxes,
    sample_regions,
    to_cxcywh,
)
from regiontalk.nets.recognition import RecognitionConfig, RecognitionNetwork

APPEARANCE_POINTS = 8  # a side, of a region's mean over the deep map


@dataclass(frozen=True)
class FCLNConfig:
    backbone: BackboneName = "vgg16"
    channels: int = 512
    """Channels of the feature map (VGG-16 has 512)."""
    skip: float = 0.0
    """Differs from the paper where it is not 0: stochastic depth. How often a photo skips the backbone's last blocks in
    training (those before them less often), against overfitting. EfficientNet-lite and ViT only."""
    input_size: int = 720
    """The photo's long side in pixels."""
    initialization: Literal["gaussian", "released", "he"] = "gaussian"
    """`gaussian`: N(0, 0.01) (the paper). `released`: box heads zero, LSTM N(0, 1/√(D+H)), forget bias 1.
    `he`: scaled to each layer's inputs, box heads zero."""
    localization: LocalizationConfig = field(default_factory=LocalizationConfig)
    recognition: RecognitionConfig = field(default_factory=RecognitionConfig)
    language: LanguageConfig = field(default_factory=LanguageConfig)


@dataclass(frozen=True)
class Recognized:
    """What the recognition network says of the chosen regions."""

    boxes_xyxy: Tensor  # (N, B, 4) after the final transform
    logits: Tensor  # (N, B)
    transforms: Tensor  # (N, B, 4)
    codes: Tensor  # (N, B, D)
    photo_codes: Tensor  # (N, D)


class FCLN(nn.Module):
    """Backbone, localization layer, recognition network and language model, in this order.

    Between them regions are chosen: in training by a sampler (`training.detector.task`), at inference by NMS
    (`regions`), with what `runtime.torch` makes of the parts.
    """

    def __init__(self, config: FCLNConfig, tokens: int, starts: int) -> None:
        super().__init__()
        self.config = config
        self.backbone = build_backbone(config.backbone, config.channels, config.skip)
        channels = self.backbone.channels
        self.localization = LocalizationLayer(channels, config.localization)
        self.recognition = RecognitionNetwork(channels, config.recognition)
        self.language = LanguageModel(config.recognition.code, tokens, starts, config.language)
        initialize(self, config.initialization)

    def recognize(self, features: Tensor, sizes: Tensor, boxes_xyxy: Tensor) -> Recognized:
        """Codes, refined scores and refined boxes of regions (N, B, 4); the whole photo is read along with them.

        `sizes` (N, 2) are width and height of the photos inside the images; the rest is padding.
        """
        count, regions = boxes_xyxy.shape[:2]
        whole = torch.cat([torch.zeros_like(sizes), sizes], dim=1)[:, None, :].to(boxes_xyxy.dtype)  # (N, 1, 4)
        with_whole = torch.cat([boxes_xyxy, whole], dim=1)
        cells = (self.config.recognition.cells, self.config.recognition.samples_per_cell)
        sampled = sample_regions(features, with_whole, *cells)  # (N·(B+1), C, X, Y)
        if self.recognition.affine is not None:
            affine = self.recognition.affine(sampled).unflatten(0, (count, regions + 1))
            sampled = sample_regions(features, with_whole, *cells, affine)
        codes, logits, transforms = self.recognition(sampled, box_geometry(with_whole.detach(), sizes).flatten(0, 1))
        codes = codes.view(count, regions + 1, -1)
        transforms = transforms.view(count, regions + 1, 4)[:, :-1]
        boxes = decode_boxes(to_cxcywh(boxes_xyxy), transforms)
        logits = logits.view(count, regions + 1)[:, :-1]
        return Recognized(boxes, logits, transforms, codes[:, :-1], codes[:, -1])

    def appear(self, deep: Tensor, boxes_xyxy: Tensor) -> Tensor:
        """What regions (N, B, 4) look like: means of the deep map (N, A, h, w) over them, (N·B, A)."""
        return sample_regions(deep, boxes_xyxy, 1, APPEARANCE_POINTS).flatten(1)

    def see(self, recognized: Recognized, sizes: Tensor, boxes_xyxy: Tensor) -> Tensor:
        """What the language model is shown of every region (N·B, E)."""
        codes = recognized.codes
        photo_codes = recognized.photo_codes[:, None, :].expand_as(codes)
        geometry = box_geometry(boxes_xyxy, sizes).flatten(0, 1)
        return self.language.see(codes.flatten(0, 1), photo_codes.flatten(0, 1), geometry)

    @property
    def pad_to(self) -> int:
        """Both sides of the input must be a multiple of this."""
        return self.backbone.pad_to


def initialize(net: FCLN, how: str) -> None:
    """First weights of everything but the backbone."""
    for part in (net.localization, net.recognition, net.language):
        for name, weight in part.named_parameters():
            if weight.dim() == 1:
                nn.init.zeros_(weight)
            elif how in ("gaussian", "released") or "embedding" in name:
                nn.init.normal_(weight, std=0.01 if how != "he" else 0.1)
            elif "lstm" in name:
                nn.init.xavier_uniform_(weight)
            else:
                nn.init.kaiming_normal_(weight, nonlinearity="relu")
    if net.recognition.affine is not None:
        nn.init.zeros_(net.recognition.affine.change.weight)
    if how in ("released", "he"):
        nn.init.zeros_(net.localization.transforms.weight)
        nn.init.zeros_(net.recognition.transform.weight)
        with torch.no_grad():
            net.language.lstm.get_parameter("bias_ih_l0").chunk(4)[1].fill_(1.0)
    if how == "released":
        lstm = net.language.lstm
        for name in ("weight_ih_l0", "weight_hh_l0"):
            nn.init.normal_(lstm.get_parameter(name), std=(lstm.input_size + lstm.hidden_size) ** -0.5)
    if how == "he":
        nn.init.normal_(net.localization.scores.weight, std=0.01)
        nn.init.normal_(net.recognition.score.weight, std=0.01)
        nn.init.normal_(net.language.output.weight, std=0.02)
