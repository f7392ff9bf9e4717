"""The recipes of heads on region codes (K&FF): alignment nets, multimodal RNNs, and both
together."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Literal

from regiontalk.errors import UsageError, check_range
from regiontalk.lab.nets.alignment import AlignmentConfig
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNNConfig
from regiontalk.lab.training.recipe.shared import OptimizerConfig, RunConfig, ScheduleConfig
from regiontalk.models.settings import SentencePredictionConfig


@dataclass(frozen=True)
class CodedDataConfig:
    """A data set whose sentences a head learns from region codes."""

    path: str
    """A data set folder whose records have sentences."""
    codes: str
    """What `regiontalk data codes` wrote of its photos."""


@dataclass(frozen=True)
class SentenceVocabularyConfig:
    """The vocabulary of nets that read or write whole sentences; their cleaning is
    `SENTENCE_CLEANING`."""

    smallest_count: int | None = None
    """Rarer words are `<UNK>`; None: the paper's 5."""


@dataclass(frozen=True)
class WordVectorsConfig:
    path: str | None = None
    """An .npz with `words` and `vectors` that the word embedding starts from; None: a random
    start."""
    more_words: int = 0
    """How many of the file's first words join the vocabulary, however rare they are in the training
    sentences."""


@dataclass(frozen=True, kw_only=True)
class HeadRecipe:
    """What recipes of single heads share."""

    init_from: str | None = None
    """A run (or checkpoint) of the same net whose weights and vocabulary this one starts from."""
    keep_words: bool = False
    """Only the layers that read codes learn (with `init_from`). The codes may then be those of
    another detector, and the graphs that read or write words stay the same for both."""

    def __post_init__(self) -> None:
        if self.keep_words and self.init_from is None:
            raise UsageError("keep_words needs init_from, the run whose word layers are kept")


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
    """What the best checkpoint is chosen by, on dev: the sum of the six recalls, or one of them."""


@dataclass(frozen=True)
class AlignmentLossConfig:
    """K&FF 3.1.3."""

    kind: Literal["margin", "contrastive"] = "margin"
    """`margin`: eq. 9. Differs from the paper: `contrastive`, cross entropy with a learned
    temperature."""
    margin: float = 1.0
    """The margin of eq. 9."""
    hardest_from: int | None = None
    """Differs from the paper: from this step on only the hardest negative of each sum in eq. 9
    counts. From the first step on the net would collapse."""
    instance: float = 0.0
    """Weight of the multiple-instance term that eq. 7 needs."""


@dataclass(frozen=True)
class AlignmentRecipe(HeadRecipe):
    """A training run of an alignment net (K&FF 3.1) on region codes."""

    run: AlignmentRunConfig
    data: tuple[CodedDataConfig, ...]
    kind: Literal["alignment"] = "alignment"
    net: AlignmentConfig = field(default_factory=AlignmentConfig)
    vocabulary: SentenceVocabularyConfig = field(default_factory=SentenceVocabularyConfig)
    word_vectors: WordVectorsConfig = field(default_factory=WordVectorsConfig)
    text_weights: str | None = None
    """For `net.words = "bert"`: the `model.safetensors` of all-MiniLM-L6-v2 or another small BERT
    model, from which words and encoder start; None: a random start."""
    pieces: str | None = None
    """Its `vocab.txt`; needed with `text_weights`."""
    more_words: str | None = None
    """A text file of words, one a line, that join the vocabulary, however rare they are in the
    training sentences; with `text_weights`."""
    parses: str | None = None
    """A file that keeps dependency trees; made when it is not there. For `net.words = "edges"`."""
    losses: AlignmentLossConfig = field(default_factory=AlignmentLossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("the recipe has no [[data]]")
        if self.net.weigh_words and (self.net.score != "cosine" or self.net.words == "edges"):
            raise UsageError(
                'net.weigh_words needs net.score = "cosine", and words other than edges'
            )
        if (self.net.words == "edges") != (self.parses is not None):
            raise UsageError('net.words = "edges" needs parses, and no other words use them')
        if self.init_from is not None and (
            self.word_vectors.path or self.text_weights or self.parses
        ):
            raise UsageError("init_from cannot be used with word_vectors, text_weights or parses")
        if (self.text_weights is None) != (self.pieces is None):
            raise UsageError("text_weights and pieces belong together")
        if self.more_words is not None and self.text_weights is None:
            raise UsageError("more_words needs text_weights, in which such words have vectors")
        if self.text_weights is not None and (self.net.words != "bert" or self.word_vectors.path):
            raise UsageError('text_weights needs net.words = "bert", and no word_vectors')
        starts = self.word_vectors.path or self.text_weights or self.init_from
        if not (starts or self.net.train_embedding):
            raise UsageError(
                "without word_vectors.path or text_weights, net.train_embedding must be true"
            )
        super().__post_init__()


@dataclass(frozen=True)
class SentencesRunConfig(RunConfig):
    """`batch` counts caption targets: photos or regions, each with all of its texts."""

    metric: Literal["cider", "bleu1", "bleu4", "perplexity"] = "cider"
    """What the best checkpoint is chosen by, on dev photos with greedy decoding. Perplexity and
    CIDEr disagree about which checkpoint is best."""


@dataclass(frozen=True)
class SentencesDataConfig(CodedDataConfig):
    snippets: str | None = None
    """Snippets of regions to learn instead of whole photos' sentences; `regiontalk data snippets`
    infers them."""


@dataclass(frozen=True)
class SentencesRecipe(HeadRecipe):
    """A training run of the multimodal RNN (K&FF 3.2) on region codes."""

    run: SentencesRunConfig
    data: SentencesDataConfig
    kind: Literal["sentences"] = "sentences"
    net: MultimodalRNNConfig = field(default_factory=MultimodalRNNConfig)
    vocabulary: SentenceVocabularyConfig = field(default_factory=SentenceVocabularyConfig)
    label_smoothing: float = 0.0
    """Differs from the paper where it is not 0: share of the target probability that is spread
    evenly over all words."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(kind="rmsprop", rate=1e-3, betas=(0.9, 0.999))
    )
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(clip_value=5.0))
    prediction: SentencePredictionConfig = field(default_factory=SentencePredictionConfig)

    def __post_init__(self) -> None:
        if self.net.heads < 1 or self.net.attention % self.net.heads:
            raise UsageError(
                f"net.attention {self.net.attention} cannot be shared by {self.net.heads} heads"
            )
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(
                f"label_smoothing is {self.label_smoothing}; it must be from 0 to below 1"
            )
        super().__post_init__()


@dataclass(frozen=True)
class JointRunConfig(RunConfig):
    metric: Literal["recall_sum", "perplexity"] = "perplexity"
    """What the best checkpoint is chosen by, on dev: `perplexity` of the segments, or `recall_sum`
    of the alignment net."""


@dataclass(frozen=True)
class JointSnippetsConfig:
    """How the segments of a batch's sentences are found and learned."""

    beta: float
    """Eq. 12's: the larger, the longer are the segments."""
    candidates: int = 3
    """Regions that a segment may be about: those that fit best."""
    place_weight: float = 0.0
    """Weight of the logarithm of a region's score, which is added to its fits: words prefer regions
    with a high score."""
    weight: float = 1.0
    """Weight of their loss, beside eq. 9."""
    from_step: int = 0
    """Before it the alignment net learns alone."""

    def __post_init__(self) -> None:
        check_range(1, candidates=self.candidates)


@dataclass(frozen=True)
class JointRecipe:
    """A training run of an alignment net and a multimodal RNN together: from photos with sentences
    to descriptions of regions."""

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
            raise UsageError(
                "the RNN of a joint run sees one region: net.attention = 0, net.views = 1"
            )
        if self.alignment.words == "edges":
            raise UsageError('alignment.words cannot be "edges": segments are made of words')
        self.alignment_recipe()

    def alignment_recipe(self) -> AlignmentRecipe:
        """The alignment net's part."""
        run = AlignmentRunConfig(**(dataclasses.asdict(self.run) | {"metric": "recall_sum"}))
        shared = {
            name: getattr(self, name)
            for name in ("vocabulary", "word_vectors", "losses", "optimizer", "schedule")
        }
        return AlignmentRecipe(run, (self.data,), net=self.alignment, **shared)

    def sentences_recipe(self) -> SentencesRecipe:
        """The RNN's part."""
        run = SentencesRunConfig(**(dataclasses.asdict(self.run) | {"metric": "perplexity"}))
        data = SentencesDataConfig(self.data.path, self.data.codes)
        shared = {
            name: getattr(self, name)
            for name in ("net", "vocabulary", "optimizer", "schedule", "prediction")
        }
        return SentencesRecipe(run, data, **shared)
