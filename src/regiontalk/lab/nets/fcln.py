"""The whole Fully Convolutional Localization Network (DenseCap section 3).

Shapes: N photos, K proposals per photo, B regions per photo, D the size of a code, A of an
appearance, T words, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regiontalk.errors import UsageError, check_range
from regiontalk.lab.nets.backbones import BackboneName, build_backbone
from regiontalk.lab.nets.language import LanguageConfig, LanguageModel
from regiontalk.lab.nets.localization import (
    LearnedProposals,
    LocalizationConfig,
    LocalizationLayer,
    box_geometry,
    crop_regions,
    decode_boxes,
    sample_regions,
    to_cxcywh,
)
from regiontalk.lab.nets.recognition import RecognitionConfig, RecognitionNetwork

APPEARANCE_POINTS = 8  # a side, of a region's mean over the deep map
CROPS_AT_ONCE = 100  # in a batch through the backbone at inference; limits the memory


@dataclass(frozen=True)
class FCLNConfig:
    backbone: BackboneName = "vgg16"
    """What computes the feature maps; the paper has VGG-16."""
    channels: int = 512
    """Channels of the feature map (VGG-16 has 512)."""
    skip: float = 0.0
    """Differs from the paper if it is not 0: stochastic depth. How often a photo skips the
    backbone's last blocks in training (earlier blocks less often), against overfitting.
    EfficientNet-lite and ViT only."""
    deep_channels: int = 0
    """Channels of an EfficientNet-lite's deep map if it is not 0, so that a student's map has the
    size of its teacher's."""
    input_size: int = 720
    """The photo's long side in pixels."""
    initialization: Literal["gaussian", "released", "he"] = "gaussian"
    """`gaussian`: N(0, 0.01) (the paper). `released`: box heads zero, LSTM N(0, 1/√(D+H)), forget
    bias 1. `he`: scaled to each layer's inputs, box heads zero."""
    localize: bool = True
    """False: no localization layer; regions come from elsewhere in training (`data.proposals`, else
    the true ones) and at inference (`predict --regions`). With fixed proposals in both this is the
    paper's "FCLN on EB"."""
    crops: int = 0
    """Pixels of a side if it is not 0: each region is cut out of the photo, resized to it and sent
    through the backbone alone: the paper's Region RNN, and its Full-image RNN. Needs `localize =
    false`."""
    localization: LocalizationConfig = field(default_factory=LocalizationConfig)
    recognition: RecognitionConfig = field(default_factory=RecognitionConfig)
    language: LanguageConfig = field(default_factory=LanguageConfig)

    def __post_init__(self) -> None:
        check_range(0, crops=self.crops)
        if self.crops and self.localize:
            raise UsageError("crops need localize = false: the backbone sees only crops")


@dataclass(frozen=True)
class Recognized:
    """The recognition network's outputs for the chosen regions."""

    boxes_xyxy: Tensor  # (N, B, 4) after the final transform
    logits: Tensor  # (N, B)
    transforms: Tensor  # (N, B, 4)
    codes: Tensor  # (N, B, D)
    photo_codes: Tensor  # (N, D)


class Captions(Protocol):
    """The captions that the language model reads."""

    @property
    def rows(self) -> Tensor:
        """(R,) the regions of the captions, photo after photo."""

    @property
    def fed(self) -> Tensor:
        """(R, T) START and words."""

    @property
    def counted(self) -> Tensor:
        """(R, T) which of the words are targets."""


class ChosenRegions(Protocol):
    """Regions that are recognised, and their captions."""

    @property
    def boxes_xyxy(self) -> Tensor:
        """(N, B, 4) the boxes in input pixels."""

    @property
    def captions(self) -> Captions: ...


Regions = TypeVar("Regions", bound=ChosenRegions)


@dataclass(frozen=True)
class Output(Generic[Regions]):
    """What the network makes of a batch, from the first step to the last."""

    features: Tensor  # (N, C, h, w)
    deep: Tensor  # (N, A, h, w)
    proposals: LearnedProposals | None
    regions: Regions
    recognized: Recognized
    word_logits: Tensor  # (W, V) of the counted words


class FCLN(nn.Module):
    """Backbone, localization layer, recognition network and language model, in this order.

    Between them regions are chosen. In training `forward` asks for them. At inference NMS chooses
    them (`inference.look`), between the parts of `forward` that `models.torch_runtime` runs.
    """

    def __init__(self, config: FCLNConfig, tokens: int, starts: int) -> None:
        super().__init__()
        self.config = config
        self.backbone = build_backbone(
            config.backbone, config.channels, config.skip, config.deep_channels
        )
        if config.crops % self.pad_to:
            raise UsageError(
                f"crops is {config.crops}; for this backbone it must be a multiple of {self.pad_to}"
            )
        channels = self.backbone.channels
        self.localization = (
            LocalizationLayer(channels, config.localization) if config.localize else None
        )
        self.recognition = RecognitionNetwork(channels, config.recognition)
        self.language = LanguageModel(config.recognition.code, tokens, starts, config.language)
        initialize(self, config.initialization)

    def forward(
        self,
        images: Tensor,
        sizes: Tensor,
        choose: Callable[[LearnedProposals | None], Regions],
    ) -> Output[Regions]:
        """Photos (N, 3, H, W) of `sizes` (N, 2) -> the words of the regions that `choose` returns
        for the proposals."""
        features, deep, proposals = self.propose(images, sizes)
        regions = choose(proposals)
        recognized = self.recognize(features, sizes, regions.boxes_xyxy)
        visual_inputs = self.visual_inputs(recognized, sizes, regions.boxes_xyxy.detach())
        captions = regions.captions
        word_logits = self.language(visual_inputs[captions.rows], captions.fed, captions.counted)
        return Output(features, deep, proposals, regions, recognized, word_logits)

    def propose(
        self, images: Tensor, sizes: Tensor
    ) -> tuple[Tensor, Tensor, LearnedProposals | None]:
        """The maps of `look`, and the proposals of a net with a localization layer."""
        features, deep = self.look(images, sizes)
        proposals = None if self.localization is None else self.localization(features)
        return features, deep, proposals

    def look(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """The feature map (N, C, h, w) and the deep map (N, A, h, w) of the photos. For a net with
        `crops` both are the photos (N, 3, H, W) themselves."""
        return (images, images) if self.config.crops else self.backbone(images, sizes)

    def recognize(self, features: Tensor, sizes: Tensor, boxes_xyxy: Tensor) -> Recognized:
        """Codes, refined scores and refined boxes of regions (N, B, 4), and the code of the whole
        photo.

        `sizes` (N, 2) are width and height of the photos inside the images; the rest is padding.
        """
        count, regions = boxes_xyxy.shape[:2]
        whole = torch.cat([torch.zeros_like(sizes), sizes], dim=1)[:, None, :].to(
            boxes_xyxy.dtype
        )  # (N, 1, 4)
        with_whole = torch.cat([boxes_xyxy, whole], dim=1)
        sampled = (
            self._sample_crops(features, with_whole)
            if self.config.crops
            else self._sample(features, with_whole)
        )
        codes, logits, transforms = self.recognition(
            sampled, box_geometry(with_whole.detach(), sizes).flatten(0, 1)
        )
        codes = codes.view(count, regions + 1, -1)
        transforms = transforms.view(count, regions + 1, 4)[:, :-1]
        boxes = decode_boxes(to_cxcywh(boxes_xyxy), transforms)
        logits = logits.view(count, regions + 1)[:, :-1]
        return Recognized(boxes, logits, transforms, codes[:, :-1], codes[:, -1])

    def _sample(self, features: Tensor, boxes_xyxy: Tensor) -> Tensor:
        """Features of regions (N, B, 4), (N·B, C, X, Y)."""
        cells = (self.config.recognition.cells, self.config.recognition.samples_per_cell)
        sampled = sample_regions(features, boxes_xyxy, *cells)
        if self.recognition.affine is None:
            return sampled
        affine = self.recognition.affine(sampled).unflatten(0, boxes_xyxy.shape[:2])
        return sample_regions(features, boxes_xyxy, *cells, affine)

    def _sample_crops(self, images: Tensor, boxes_xyxy: Tensor) -> Tensor:
        """The features of regions that go through the backbone as crops."""
        side = self.config.crops
        crops = crop_regions(images, boxes_xyxy, side)  # (N·B, 3, side, side)
        parts = []
        for some in crops.split(len(crops) if self.training else CROPS_AT_ONCE):
            sizes = some.new_full((len(some), 2), side)
            whole = torch.cat([torch.zeros_like(sizes), sizes], dim=1)[:, None, :]
            parts.append(self._sample(self.backbone(some, sizes)[0], whole))
        return torch.cat(parts)

    def pooled_features(self, deep: Tensor, boxes_xyxy: Tensor) -> Tensor:
        """The appearance of regions (N, B, 4): means of the deep map (N, A, h, w) over them, (N·B,
        A)."""
        return sample_regions(deep, boxes_xyxy, 1, APPEARANCE_POINTS).flatten(1)

    def visual_inputs(self, recognized: Recognized, sizes: Tensor, boxes_xyxy: Tensor) -> Tensor:
        """The language model's input for every region (N·B, E)."""
        codes = recognized.codes
        photo_codes = recognized.photo_codes[:, None, :].expand_as(codes)
        geometry = box_geometry(boxes_xyxy, sizes).flatten(0, 1)
        return self.language.visual_inputs(codes.flatten(0, 1), photo_codes.flatten(0, 1), geometry)

    @property
    def pad_to(self) -> int:
        """Both sides of the input must be a multiple of this."""
        return self.backbone.pad_to


def initialize(net: FCLN, how: str) -> None:
    """Initial weights of everything but the backbone."""
    for name, weight in net.named_parameters():
        if not name.startswith("backbone."):
            _initialize_weight(name, weight, how)
    if net.recognition.affine is not None:
        nn.init.zeros_(net.recognition.affine.change.weight)
    if how in ("released", "he"):
        if net.localization is not None:
            nn.init.zeros_(net.localization.transforms.weight)
        nn.init.zeros_(net.recognition.transform.weight)
        with torch.no_grad():
            net.language.lstm.get_parameter("bias_ih_l0").chunk(4)[1].fill_(1.0)
    if how == "released":
        lstm = net.language.lstm
        for name in ("weight_ih_l0", "weight_hh_l0"):
            nn.init.normal_(
                lstm.get_parameter(name), std=(lstm.input_size + lstm.hidden_size) ** -0.5
            )
    if how == "he":
        if net.localization is not None:
            nn.init.normal_(net.localization.scores.weight, std=0.01)
        nn.init.normal_(net.recognition.score.weight, std=0.01)
        nn.init.normal_(net.language.output.weight, std=0.02)


def _initialize_weight(name: str, weight: Tensor, how: str) -> None:
    if weight.dim() == 1:
        nn.init.zeros_(weight)
    elif how in ("gaussian", "released") or "embedding" in name:
        nn.init.normal_(weight, std=0.01 if how != "he" else 0.1)
    elif "lstm" in name:
        nn.init.xavier_uniform_(weight)
    else:
        nn.init.kaiming_normal_(weight, nonlinearity="relu")
