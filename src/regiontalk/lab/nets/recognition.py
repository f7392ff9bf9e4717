"""The recognition network (DenseCap 3.1.3): a region's features -> its code, a refined score and
box.

Shapes: R regions, C channels, X × Y cells, D the size of a code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.boxes import PLACE_NUMBERS


@dataclass(frozen=True)
class RecognitionConfig:
    cells: int = 7
    """X = Y, the side of the sampled grid."""
    samples_per_cell: int = 1
    """Points per side that are averaged in a cell."""
    hidden: int = 4096
    """Size of the first layer."""
    code: int = 4096
    """D, the size of a region's code."""
    dropout: float = 0.5
    """After both layers."""
    score_hidden: int = 0
    """Differs from the paper if it is not 0: a layer of this size, which also gets the box's
    geometry, computes the score. Whether people mention an object depends on its size and place."""
    affine: bool = False
    """Differs from the paper, which names it as future work: regions are sampled a second time, on
    a grid that an affine map turns, shears, scales and shifts inside the box (`AffineMap`)."""


AFFINE_HIDDEN = 64
LARGEST_CHANGE = (
    0.5  # of a number of the map: half the box's side for the size, a quarter for the place
)


class AffineMap(nn.Module):
    """A region's features -> the affine map (2 × 3) of its sampling grid: the identity before
    training.

    There is no true map to learn from. It is learned through the losses on the second sample, above
    all the caption loss (Jaderberg et al. 2015, spatial transformers).
    """

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, AFFINE_HIDDEN)
        self.change = nn.Linear(AFFINE_HIDDEN, 6)

    def forward(self, regions: Tensor) -> Tensor:
        """(R, C, X, Y) -> (R, 2, 3)."""
        change = self.change(F.relu(self.hidden(regions.flatten(1)))).float()
        identity = torch.eye(2, 3, device=change.device, dtype=change.dtype)
        return identity + LARGEST_CHANGE * torch.tanh(change).unflatten(1, (2, 3))


class RecognitionNetwork(nn.Module):
    """Two fully connected layers with ReLU and dropout, then linear heads for the score and the
    box."""

    def __init__(self, channels: int, config: RecognitionConfig) -> None:
        super().__init__()
        self.first = nn.Linear(channels * config.cells**2, config.hidden)
        self.second = nn.Linear(config.hidden, config.code)
        self.dropout = config.dropout
        self.before_score = (
            nn.Linear(config.code + PLACE_NUMBERS, config.score_hidden)
            if config.score_hidden
            else None
        )
        self.score = nn.Linear(config.score_hidden or config.code, 1)
        self.transform = nn.Linear(config.code, 4)
        self.affine = AffineMap(channels * config.cells**2) if config.affine else None

    def forward(self, regions: Tensor, geometry: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(R, C, X, Y), the boxes' places (R, 5) -> codes (R, D), logits (R,), transforms (R,
        4)."""
        hidden = self._drop(F.relu(self.first(regions.flatten(1))))
        codes = self._drop(F.relu(self.second(hidden)))
        return codes, self._logits(codes, geometry).float(), self.transform(codes).float()

    def _logits(self, codes: Tensor, geometry: Tensor) -> Tensor:
        if self.before_score is None:
            return self.score(codes).squeeze(1)
        hidden = F.relu(self.before_score(torch.cat([codes, geometry.to(codes.dtype)], dim=1)))
        return self.score(hidden).squeeze(1)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)
