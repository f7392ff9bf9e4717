"""The recipe of a language model that learns alone, from region codes of a model folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from regiontalk.errors import UsageError, check_range
from regiontalk.lab.training.recipe.detector import DataConfig
from regiontalk.lab.training.recipe.shared import OptimizerConfig, RunConfig, ScheduleConfig
from regiontalk.language.vocabulary import LENGTH_STYLE


@dataclass(frozen=True)
class LanguageDataConfig(DataConfig):
    """One data set of the mixture; `share` counts phrases, not photos."""

    codes: tuple[str, ...] = ()
    """Folders of `regiontalk data box-codes`, with codes of the training photos and, if the run is
    evaluated, of dev photos."""
    keep: float = 0.0
    """How much the words that the old language model predicts count beside those of the phrase: 0
    learns the phrase alone, 1 only imitates."""

    def __post_init__(self) -> None:
        check_range(0, 1, keep=self.keep)
        if not self.codes:
            raise UsageError(f"{self.path}: no codes", hint="regiontalk data box-codes makes them")
        if self.whole_photos or self.proposals:
            raise UsageError("whole_photos and proposals cannot be used with codes of true boxes")


@dataclass(frozen=True)
class LanguageRunConfig(RunConfig):
    metric: Literal["right"] = "right"
    """Share of dev phrases whose caption names the same thing."""


@dataclass(frozen=True)
class LanguageRecipe:
    """A training run of the language model of a model folder, all else frozen."""

    run: LanguageRunConfig
    data: tuple[LanguageDataConfig, ...]
    init_from: str
    """The model whose language model learns: `embedded`, `fast` or a model folder."""
    kind: Literal["language"] = "language"
    smallest_count: int = 4
    """New words that occur less often are not learned."""
    label_smoothing: float = 0.0
    """Share of the target probability that is spread evenly over all words."""
    start_share: float = 0.0
    """Share of the starting weights in the weights that are evaluated and exported."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(kind="adamw", rate=3e-4, weight_decay=0.02)
    )
    schedule: ScheduleConfig = field(
        default_factory=lambda: ScheduleConfig(warmup=100, decay="cosine", clip_norm=5.0, ema=0.995)
    )

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("the recipe has no [[data]]")
        styles = set(chain.from_iterable(data.styles.values() for data in self.data))
        if styles == {LENGTH_STYLE}:
            raise UsageError(f"no style but {LENGTH_STYLE!r}; captions at inference need another")
        check_range(1, smallest_count=self.smallest_count)
        check_range(0, 1, start_share=self.start_share)
