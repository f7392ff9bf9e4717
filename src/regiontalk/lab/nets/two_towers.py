"""Photos, their regions and texts in one space, by two towers (as in CLIP, Radford et al. 2021;
words and patches by K&FF eq. 8).

Letters: N photos, H × W pixels, B boxes of each, P = h · w patches, E numbers of a token, L texts,
T tokens of each, W words of all texts, D the size of the space. All vectors of the space have
length 1, so products of them are cosines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.errors import check_range
from regiontalk.inference.maxsim import word_scores
from regiontalk.lab.nets.alignment import FIRST_SCALE, Texts, sum_sentences
from regiontalk.lab.nets.backbones import TinyNet
from regiontalk.lab.nets.fcln import APPEARANCE_POINTS
from regiontalk.lab.nets.localization import sample_regions
from regiontalk.lab.nets.text_tower import TextTower, TextTowerConfig, mean_of_tokens
from regiontalk.lab.nets.vit import ViTTokens

LARGEST_SCALE = 100.0  # inverse temperature; CLIP has the same limit
TERMS = ("sentences", "words", "phrases", "names")
"""What photos or regions are compared with; each has a temperature of its own."""


@dataclass(frozen=True)
class TwoTowersConfig:
    backbone: Literal["vit-s", "tiny"] = "vit-s"
    """The photo tower: DINOv2's ViT-S, or five small convolutions for drawn scenes."""
    skip: float = 0.0
    """Stochastic depth of the photo tower: how often a photo skips the last block in training."""
    input_size: int = 256
    """Pixels of a side: photos are stretched to a square. Our patches are 16 pixels wide, so 256
    gives as many as DINOv2's own 14 pixels do at 224."""
    size: int = 384
    """D, the size of a vector."""
    text: TextTowerConfig = field(default_factory=TextTowerConfig)

    def __post_init__(self) -> None:
        check_range(1, input_size=self.input_size, size=self.size)
        check_range(0, 1, skip=self.skip)


class PhotoVectors(NamedTuple):
    """What the photo tower says."""

    boxes: Tensor  # (N, B, D); that of the first box, the whole photo, is the photo's vector
    patches: Tensor  # (N, P, D)


class TextVectors(NamedTuple):
    """What the text tower says."""

    texts: Tensor  # (L, D)
    words: Tensor  # (W, D), one text after the other, without START and END
    weights: Tensor  # (W,) how much each word counts; the sum of a text's is 1
    lengths: Tensor  # (L,) the number of words


class TwoTowers(nn.Module):
    """The two towers, the layers that bring both into one space, and learned temperatures."""

    def __init__(self, config: TwoTowersConfig, tokens: int) -> None:
        super().__init__()
        self.config = config
        self.photo: ViTTokens | TinyNet
        if config.backbone == "tiny":
            self.photo = TinyNet(config.size)
        else:
            self.photo = ViTTokens(config.skip)
        self.text = TextTower(tokens, config.text)
        seen = self.photo.deep_channels
        self.photo_vector = nn.Linear(2 * seen, config.size)
        self.region_vector = nn.Linear(seen, config.size)
        self.text_vector = nn.Linear(config.text.width, config.size)
        self.word_vector = nn.Linear(config.text.width, config.size)
        self.word_weight = nn.Linear(config.text.width, 1)
        # Texts start in the text tower's own space, so that its knowledge is there from the start.
        for layer in (self.text_vector, self.word_vector):
            nn.init.eye_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.word_weight.weight)
        self.log_scales = nn.ParameterDict(
            {term: nn.Parameter(torch.tensor(math.log(FIRST_SCALE))) for term in TERMS}
        )

    def scale(self, term: str) -> Tensor:
        """What the cosines of a term are multiplied by in its loss."""
        return self.log_scales[term].exp().clamp(max=LARGEST_SCALE)

    def read_photos(self, images: Tensor, boxes_xyxy: Tensor) -> PhotoVectors:
        """Photos (N, 3, H, W) that fill their images, boxes (N, B, 4) of which the first is the
        whole photo."""
        class_token, patches = self._photo_tokens(images)  # (N, E), (N, E, h, w)
        mean = patches.flatten(2).mean(dim=2)  # (N, E)
        whole = self.photo_vector(torch.cat([class_token, mean], dim=1))  # (N, D)
        means = sample_regions(patches.float(), boxes_xyxy[:, 1:].float(), 1, APPEARANCE_POINTS)
        regions = self.region_vector(means.flatten(1))  # (N · (B − 1), D)
        regions = regions.view(len(images), boxes_xyxy.shape[1] - 1, self.config.size)
        boxes = torch.cat([whole[:, None], regions], dim=1).float()  # (N, B, D)
        of_patches = self.region_vector(patches.flatten(2).transpose(1, 2))  # (N, P, D)
        return PhotoVectors(F.normalize(boxes, dim=-1), F.normalize(of_patches, dim=-1))

    def _photo_tokens(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """A token of the whole photo (N, E), and the map of patches (N, E, h, w)."""
        if isinstance(self.photo, ViTTokens):
            return self.photo.class_and_patches(images)
        patches = self.photo(images)[1]
        return patches.mean(dim=(2, 3)), patches

    def read_texts(self, texts: Texts) -> TextVectors:
        """Tokens (L, T) between START and END, padded, and how many they are with these (L,)."""
        vectors, words, weights = self.read_padded(texts.tokens, texts.lengths)
        places = torch.arange(texts.tokens.shape[1], device=texts.tokens.device)  # (T,)
        is_word = (places > 0) & (places < texts.lengths[:, None] - 1)  # (L, T)
        lengths = (texts.lengths - 2).clamp(min=0)
        return TextVectors(vectors, words[is_word], weights[is_word], lengths)

    def read_padded(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (L, T) and their numbers (L,) -> the vectors of the texts (L, D), and the vectors
        (L, T, D) and weights (L, T) of the tokens; START, END and padding weigh nothing."""
        places = torch.arange(tokens.shape[1], device=tokens.device)  # (T,)
        mask = places < lengths[:, None]  # (L, T)
        x = self.text(tokens, mask)  # (L, T, E)
        vectors = self.text_vector(mean_of_tokens(x, mask))  # (L, D)
        is_word = (places > 0) & (places < lengths[:, None] - 1)  # (L, T)
        logits = self.word_weight(x).squeeze(2).float().masked_fill(~is_word, -1e4)  # (L, T)
        return (
            F.normalize(vectors.float(), dim=-1),
            F.normalize(self.word_vector(x), dim=-1),
            logits.softmax(dim=1) * is_word,
        )

    @staticmethod
    def word_scores(patches: Tensor, texts: TextVectors) -> Tensor:
        """The weighted mean over a text's words of the cosine with the best patch (eq. 8): patches
        (N, P, D) -> (N, L)."""
        best = word_scores(patches, texts.words.to(patches.dtype)).float()  # (N, W)
        return sum_sentences(best * texts.weights, texts.lengths)
