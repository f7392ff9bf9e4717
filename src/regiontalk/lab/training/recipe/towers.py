"""The recipe of two towers, photo and text, that learn one space by contrast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regiontalk.errors import UsageError, check_range
from regiontalk.lab.nets.two_towers import TwoTowersConfig
from regiontalk.lab.training.recipe.detector import AugmentationConfig
from regiontalk.lab.training.recipe.shared import OptimizerConfig, RunConfig, ScheduleConfig


@dataclass(frozen=True)
class TextDataConfig:
    """One data set of the mixture, and which of its texts are learned."""

    path: str
    """A data set folder; its `train` split is used."""
    share: float = 1.0
    """The data set's weight in a batch at the first step."""
    share_at_end: float | None = None
    """The data set's weight at the last step, with a linear change in between; None: no change."""
    sentences: bool = True
    """Learn the sentences of whole photos."""
    require_sentences: bool = False
    """Leave out photos without sentences."""
    phrases: tuple[str, ...] = ()
    """Region types whose phrases describe the region; `*` is every type that is not in `names`."""
    names: tuple[str, ...] = ()
    """Region types whose phrases are names of things, such as `object` and `whole`."""
    without_position_words: tuple[str, ...] = ()
    """Region types of which phrases that say where a thing is ("left man") are left out."""

    def __post_init__(self) -> None:
        if not (self.sentences or self.phrases or self.names):
            raise UsageError(f"{self.path}: nothing to learn: no sentences, phrases or names")
        if self.require_sentences and not self.sentences:
            raise UsageError(f"{self.path}: require_sentences needs sentences = true")
        if both := set(self.phrases) & set(self.names):
            raise UsageError(f"{self.path}: {sorted(both)[0]!r} is in both phrases and names")


@dataclass(frozen=True)
class ContrastiveRunConfig(RunConfig):
    metric: Literal["r1", "global_r1", "words_r1", "named"] = "r1"
    """What the best checkpoint is chosen by, on dev: the mean of R@1 in both directions by both
    scores, by one of them, or the mean share of right names."""
    cache_side: int = 384
    """The long side to which photos in memory are reduced (`cache_photos`; 0.33 MB each)."""
    per_photo: int = 2
    """Most phrases, and most names, of a photo in a batch."""
    longest: int = 48
    """Most tokens of a text in training; what comes after them is cut off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(1, cache_side=self.cache_side, per_photo=self.per_photo)
        check_range(3, longest=self.longest)


@dataclass(frozen=True)
class ContrastiveLossConfig:
    """Weights of the terms: cross entropy in both directions, with learned temperatures."""

    sentences: float = 1.0
    """Photos against sentences, by their vectors."""
    words: float = 1.0
    """Photos against sentences, by words and patches (eq. 8)."""
    phrases: float = 0.5
    """Regions against phrases."""
    names: float = 0.5
    """Regions and whole photos against names."""
    label_smoothing: float = 0.05
    """Share of the target that is spread evenly over all pairs of a batch."""

    def __post_init__(self) -> None:
        check_range(
            0, sentences=self.sentences, words=self.words, phrases=self.phrases, names=self.names
        )
        check_range(0, 1, label_smoothing=self.label_smoothing)


@dataclass(frozen=True)
class ContrastiveRecipe:
    """A training run of two towers."""

    run: ContrastiveRunConfig
    data: tuple[TextDataConfig, ...]
    pieces: str
    """The `vocab.txt` of the text tower's WordPiece tokens."""
    kind: Literal["contrastive"] = "contrastive"
    backbone_weights: str | None = None
    """The photo tower's pretrained weights, as for detectors; None: it learns from scratch."""
    text_weights: str | None = None
    """The text tower's, a BERT model's `model.safetensors`; None: it learns from scratch."""
    net: TwoTowersConfig = field(default_factory=TwoTowersConfig)
    augmentation: AugmentationConfig = field(
        default_factory=lambda: AugmentationConfig(resolution=(160, 640), zoom_by_batch=True)
    )
    losses: ContrastiveLossConfig = field(default_factory=ContrastiveLossConfig)
    backbone_optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(kind="adamw", rate=6e-5, layer_decay=0.8)
    )
    text_optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(kind="adamw", rate=6e-5)
    )
    """A rate of 0: the text tower stays as it is."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(kind="adamw", rate=6e-4)
    )
    schedule: ScheduleConfig = field(
        default_factory=lambda: ScheduleConfig(warmup=100, decay="cosine", clip_norm=1.0)
    )

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("the recipe has no [[data]]")
        if self.run.metric == "named" and not any(data.names for data in self.data):
            raise UsageError('run.metric = "named" needs data.names')
        if self.run.longest > self.net.text.positions:
            raise UsageError("run.longest cannot be more than net.text.positions")
        if self.augmentation.mosaic or not self.augmentation.zoom_by_batch:
            raise UsageError(
                "augmentation: two towers need zoom_by_batch = true, and have no mosaic"
            )
