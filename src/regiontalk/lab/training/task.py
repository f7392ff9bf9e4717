"""What is trained: a net with its data, losses and optimisers. `run` has a task for each kind of
recipe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regiontalk.lab.training.loader import Batches
from regiontalk.lab.training.recipe import to_dict
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.language.wordpiece import WordPieces

Skip = Callable[[str], None]
"""Is told, in a line, of a photo that cannot be read and is left out; raises if none may be left
out."""


@dataclass
class Task(ABC):
    lower_is_better: ClassVar[Collection[str]] = ()
    """The metrics of `evaluate` of which the smallest value is the best."""

    recipe: Any
    """A `Recipe`."""
    words: Vocabulary | WordPieces
    net: Any
    """An `nn.Module`."""

    def summary(self) -> str:
        """One line on the net and its data."""
        weights = sum(
            parameter.numel() for parameter in self.net.parameters() if parameter.requires_grad
        )
        return f"{weights / 1e6:.1f} M weights, {len(self.words)} words, {self.data_summary()}"

    @abstractmethod
    def data_summary(self) -> str: ...

    @abstractmethod
    def batches(self, rank: int, ranks: int) -> Batches:
        """A process's share of every step's batch."""

    @abstractmethod
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Name -> optimizer, each with its full rates; the rate of the last one is logged."""

    def prepare_step(self, step: int) -> None:  # noqa: ARG002
        """Sets training mode, and freezes what does not learn at this step."""
        self.net.train()

    @abstractmethod
    def losses(self, batch: Any) -> dict[str, Tensor]: ...

    def weight(self, name: str) -> float:  # noqa: ARG002
        """The weight of a loss in their sum."""
        return 1.0

    def description(self) -> dict[str, Any]:
        """The task's part of `state.json`; a head adds `detector` and `code`."""
        return {
            "kind": self.recipe.kind,
            "recipe": to_dict(self.recipe),
            "vocabulary": self.words.to_dict(),
        }

    @abstractmethod
    def evaluate(
        self, net: Any, device: torch.device, picture: Path, skip: Skip
    ) -> dict[str, float]:
        """Figures on dev by a copy of the net, and where there is something to show a `picture`;
        none where there is nothing to evaluate on."""
