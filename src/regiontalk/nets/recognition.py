"""The recognition network (DenseCap 3.1.3): a region's features -> its code, a refined score and box.

Shapes: R regions, C channels, X × Y cells, D the size of a code.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class RecognitionConfig:
    cells: int = 7
    """X = Y, the side of the sampled grid."""
    samples_per_cell: int = 1
    hidden: int = 4096
    code: int = 4096
    dropout: float = 0.5


class RecognitionNetwork(nn.Module):
    """Two fully connected layers with ReLU and dropout, then linear heads for the score and the box."""

    def __init__(self, channels: int, config: RecognitionConfig) -> None:
        super().__init__()
        self.first = nn.Linear(channels * config.cells**2, config.hidden)
        self.second = nn.Linear(config.hidden, config.code)
        self.dropout = config.dropout
        self.score = nn.Linear(config.code, 1)
        self.transform = nn.Linear(config.code, 4)

    def forward(self, regions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(R, C, X, Y) -> codes (R, D), logits (R,), transforms (R, 4)."""
        hidden = self._drop(F.relu(self.first(regions.flatten(1))))
        codes = self._drop(F.relu(self.second(hidden)))
        return codes, self.score(codes).squeeze(1).float(), self.transform(codes).float()

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)
