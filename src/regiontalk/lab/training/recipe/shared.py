"""What all kinds of recipes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from regiontalk.errors import check_range

SENTENCE_CLEANING = (
    "karpathy"  # of nets that read or write whole sentences: no other cleaning keeps long ones
)


@dataclass(frozen=True)
class OptimizerConfig:
    kind: Literal["sgd", "adam", "adamw", "rmsprop"] = "adam"
    """The update rule."""
    rate: float = 1e-6
    """The full learning rate."""
    momentum: float = 0.9
    """Momentum of `sgd`."""
    betas: tuple[float, float] = (0.9, 0.99)
    """β₁ and β₂ of `adam` and `adamw`; `rmsprop` uses the second."""
    weight_decay: float = 0.0
    """Decay of weights; not of biases and normalisation."""
    layer_decay: float = 1.0
    """The rate of each block of a transformer backbone, as a share of the next block's rate."""
    rates: dict[str, float] = field(default_factory=dict)
    """Rates of single layers, in place of `rate`: the beginning of a parameter's name -> rate."""


@dataclass(frozen=True)
class ScheduleConfig:
    warmup: int = 0
    """Steps over which the rates rise from zero."""
    decay: Literal["constant", "cosine"] = "constant"
    """A cosine ends at a hundredth."""
    clip_norm: float | None = None
    """Largest norm of the whole gradient."""
    clip_value: float | None = None
    """Largest size of a single number of the gradient."""
    ema: float | None = None
    """Decay of the exponential moving average of the weights, which is then what is evaluated and
    exported."""


@dataclass(frozen=True)
class RunConfig:
    steps: int
    """Number of weight updates."""
    batch: int = 1
    """Photos a step, over all processes."""
    accumulate: int = 1
    """Parts into which each process cuts its share of a batch, one after another: the memory of one
    part is enough."""
    seed: int = 0
    """Random seed of the initial weights, the order of photos, augmentation, sampling and
    dropout."""
    workers: int = 2
    """Processes that load photos; never more than there are cores."""
    cache_photos: bool = False
    """Decoded photos stay in memory (0.45 MB each at 448 pixels), shared by the workers."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """`bfloat16`: autocast."""
    log_every: int = 20
    """Steps between entries of the log."""
    checkpoint_every: int = 1000
    """Steps between checkpoints."""
    keep: int = 2
    """Newest checkpoints that are kept."""
    keep_best: int = 1
    """How many of the best checkpoints are kept beside the newest."""
    evaluate_every: int = 1000
    """Steps between evaluations on dev; a checkpoint follows each."""
    evaluate_photos: int = 200
    """Dev photos of an evaluation, of the first data set."""
    pictures: int = 4
    """Dev photos drawn with their regions at each evaluation."""
    metric: str = ""
    """What the best checkpoint is chosen by, on dev."""

    def __post_init__(self) -> None:
        check_range(
            1,
            steps=self.steps,
            batch=self.batch,
            accumulate=self.accumulate,
            log_every=self.log_every,
        )
        check_range(
            1, checkpoint_every=self.checkpoint_every, keep=self.keep, keep_best=self.keep_best
        )
        check_range(1, evaluate_every=self.evaluate_every, evaluate_photos=self.evaluate_photos)


class Recipe(Protocol):
    """What all kinds of recipes share."""

    @property
    def kind(self) -> str: ...
    @property
    def run(self) -> RunConfig: ...
    @property
    def optimizer(self) -> OptimizerConfig: ...
    @property
    def schedule(self) -> ScheduleConfig: ...
