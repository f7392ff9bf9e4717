"""Training the multimodal RNN on whole photos with sentences, or on regions with snippets (K&FF section 3.2).

Shapes: S subjects (photos or regions), R their sentences, T words, N views, K rows of codes, D the size of a code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.codes.store import CodedPhotos
from regiontalk.data.records import Dataset, epoch_order, evenly_spaced
from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.nets.multimodal_rnn import NESTED, MultimodalRNN, MultimodalRNNConfig, Seen, packed
from regiontalk.training.checkpoints import fill_net, find_checkpoint, read_state, read_tensors
from regiontalk.training.heads.caption_targets import (
    Subject,
    all_texts,
    known_tokens,
    read_snippets,
    regions,
    shown,
    whole_photos,
)
from regiontalk.training.heads.sentence_decoding import Describer, perplexity, score_descriptions
from regiontalk.training.optimizers import build_optimizer
from regiontalk.training.recipe import (
    OPTIMIZERS,
    CodedDataConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    VocabularyConfig,
    check_choice,
    check_shared,
    check_vocabulary,
    from_stored,
    to_dict,
)
from regiontalk.vocabulary import END, Vocabulary

METRICS = ("cider", "bleu1", "bleu4", "perplexity")
STANDARD = 2000  # subjects whose codes say what mean and spread are


@dataclass(frozen=True)
class SentencesDataConfig(CodedDataConfig):
    snippets: str | None = None
    """Snippets of regions to learn instead of whole photos' sentences; `regiontalk data snippets` infers them."""


@dataclass(frozen=True)
class SentencesPredictionConfig:
    """How sentences are looked for in use; to be chosen on dev."""

    longest: int = 20
    """Words, at most."""
    beam: int = 7


@dataclass(frozen=True)
class SentencesRecipe:
    """Everything about a training run of the multimodal RNN. The defaults are the paper's and the release's."""

    run: RunConfig
    """`batch` counts subjects: photos or regions, each with all of its texts."""
    data: SentencesDataConfig
    kind: str = "sentences"
    net: MultimodalRNNConfig = field(default_factory=MultimodalRNNConfig)
    vocabulary: VocabularyConfig = field(default_factory=lambda: VocabularyConfig(cleaning="karpathy"))
    label_smoothing: float = 0.0
    """Differs from the paper: this share of a word's target is spread over all words."""
    begin_from: str | None = None
    """A run (or checkpoint) of the same net whose weights and words this one begins with."""
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(kind="rmsprop", rate=1e-3, betas=(0.9, 0.999))
    )
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(clip_value=5.0))
    prediction: SentencesPredictionConfig = field(default_factory=SentencesPredictionConfig)

    def check(self, place: str) -> None:
        check_shared(self, METRICS, place)
        check_vocabulary(self.vocabulary, place)
        check_choice(place, "net.cell", self.net.cell, ("rnn", "lstm"))
        check_choice(place, "net.feed", self.net.feed, ("once", "always"))
        check_choice(place, "net.views", self.net.views, (1, NESTED))
        check_choice(place, "optimizer.kind", self.optimizer.kind, OPTIMIZERS)
        if self.net.heads < 1 or self.net.attention % self.net.heads:
            raise UsageError(f"{place}: net.attention {self.net.attention} cannot be shared by {self.net.heads} heads")
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(f"{place}: label_smoothing is {self.label_smoothing}; it must be from 0 to below 1")


@dataclass(frozen=True)
class SentenceBatch:
    views: Tensor  # (S, N, D)
    regions: Tensor  # (S, K, D)
    places: Tensor  # (S, K, 5)
    subjects: Tensor  # (R,) the subject of each sentence
    fed: Tensor  # (R, T) START and words, sentences by falling length
    words: Tensor  # (R, T) words and END
    lengths: Tensor  # (R,) words and END
    weights: Tensor  # (R,)
    names: tuple[str, ...]

    def to(self, device: torch.device) -> SentenceBatch:
        tensors = {item.name: getattr(self, item.name) for item in fields(self) if item.type == "Tensor"}
        return replace(self, **{name: tensor.to(device) for name, tensor in tensors.items()})


@dataclass(frozen=True)
class SentenceBatches:
    """Step -> batch, from seed and step alone; a rank has its share of each."""

    subjects: Sequence[Subject]
    coded: CodedPhotos
    words: Vocabulary
    recipe: SentencesRecipe
    rank: int = 0
    ranks: int = 1

    def __len__(self) -> int:
        return self.recipe.run.steps

    def __getitem__(self, step: int) -> SentenceBatch:
        return self.collate([self.subjects[number] for number in self._numbers(step)[self.rank :: self.ranks]])

    def _numbers(self, step: int) -> NDArray[np.int64]:
        """The subjects of a step: passes over all of them follow each other without a gap."""
        batch, count = self.recipe.run.batch, len(self.subjects)
        places = np.arange(step * batch, (step + 1) * batch)
        orders = {epoch: epoch_order(count, self.recipe.run.seed, epoch) for epoch in set((places // count).tolist())}
        return np.array([orders[place // count][place % count] for place in places.tolist()])

    def collate(self, subjects: Sequence[Subject]) -> SentenceBatch:
        longest = self.recipe.prediction.longest
        said = [
            (known_tokens(text.words, self.words)[:longest], text.weight, number)
            for number, subject in enumerate(subjects)
            for text in subject.texts
        ]
        said.sort(key=lambda one: -len(one[0]))
        words = torch.full((len(said), len(said[0][0]) + 1), END)
        for row, (tokens, _, _) in enumerate(said):
            words[row, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
        starts = torch.full((len(said), 1), self.words.start())
        return SentenceBatch(
            *shown(self.coded, subjects, self.recipe.net.views),
            subjects=torch.tensor([number for _, _, number in said]),
            fed=torch.cat([starts, words[:, :-1]], dim=1),
            words=words,
            lengths=torch.tensor([len(tokens) + 1 for tokens, _, _ in said]),
            weights=torch.tensor([weight for _, weight, _ in said]),
            names=tuple(self.coded.names[subject.photo] for subject in subjects),
        )


@dataclass
class SentencesTask:
    """What the engine needs to know of the multimodal RNN."""

    recipe_class: ClassVar[type[SentencesRecipe]] = SentencesRecipe
    lower_is_better: ClassVar[Collection[str]] = ("perplexity",)

    recipe: SentencesRecipe
    words: Vocabulary
    net: MultimodalRNN
    coded: CodedPhotos
    subjects: Mapping[str, Sequence[Subject]]
    """By split: train and dev."""

    @classmethod
    def begin(cls, recipe: SentencesRecipe) -> SentencesTask:
        """A new run: the vocabulary and the output's bias from the training texts."""
        coded = CodedPhotos.load(Path(recipe.data.codes))
        subjects = {split: _subjects(recipe.data, split, coded) for split in ("train", "dev")}
        if not subjects["train"]:
            raise DataError(f"{recipe.data.path}: no train photo with a text")
        torch.manual_seed(recipe.run.seed)
        if recipe.begin_from is not None:
            net, words = _taken_over(recipe, coded)
        else:
            net, words = _new_net(recipe, subjects["train"], coded)
        return cls(recipe, words, net, coded, subjects)

    def summary(self) -> str:
        weights = sum(parameter.numel() for parameter in self.net.parameters())
        train = self.subjects["train"]
        texts = sum(len(subject.texts) for subject in train)
        return f"{weights / 1e6:.1f} M weights, {len(self.words)} words, {len(train)} subjects with {texts} texts"

    def batches(self, rank: int, ranks: int) -> SentenceBatches:
        return SentenceBatches(self.subjects["train"], self.coded, self.words, self.recipe, rank, ranks)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"net": build_optimizer(self.net.named_parameters(), self.recipe.optimizer)}

    def prepare_step(self, step: int) -> None:  # noqa: ARG002
        self.net.train()

    def losses(self, batch: SentenceBatch) -> dict[str, Tensor]:
        return {"sentence": self._loss(self.net, batch, self.recipe.label_smoothing)}

    def _loss(self, net: MultimodalRNN, batch: SentenceBatch, smoothing: float) -> Tensor:
        """Mean over words of −log p(word), each weighted as its text."""
        seen = net.look(batch.views, batch.regions, batch.places)
        logits = net(Seen(*(part[batch.subjects] for part in seen)), batch.fed, batch.lengths)
        losses = F.cross_entropy(
            logits.float(), packed(batch.words, batch.lengths), reduction="none", label_smoothing=smoothing
        )
        weights = packed(batch.weights[:, None].expand_as(batch.words), batch.lengths)
        return (losses * weights).sum() / weights.sum()

    def weight(self, name: str) -> float:  # noqa: ARG002
        return 1.0

    def description(self) -> dict[str, Any]:
        """What a checkpoint must say to be read again."""
        return {
            "kind": "sentences",
            "recipe": to_dict(self.recipe),
            "vocabulary": self.words.to_dict(),
            "detector": self.coded.detector,
            "code": self.coded.codes.shape[2],
        }

    def evaluate(self, net: nn.Module, device: torch.device, folder: Path, step: int) -> dict[str, float]:  # noqa: ARG002
        """CIDEr and BLEU of greedy sentences on dev, and how likely dev's own texts are."""
        dev = self.subjects["dev"]
        if not dev:
            return {}
        assert isinstance(net, MultimodalRNN)
        some = [dev[number] for number in evenly_spaced(len(dev), self.recipe.run.evaluate_photos)]
        describer = Describer(net, self.words, self.coded, device, self.recipe.prediction.longest)
        return score_descriptions(describer, some) | {"perplexity": self._perplexity(net, some, device)}

    @torch.inference_mode()
    def _perplexity(self, net: MultimodalRNN, subjects: Sequence[Subject], device: torch.device) -> float:
        batches, size = self.batches(0, 1), self.recipe.run.batch
        parts = [subjects[start : start + size] for start in range(0, len(subjects), size)]
        return perplexity([self._loss(net, batches.collate(part).to(device), 0.0).item() for part in parts])


def _subjects(config: SentencesDataConfig, split: str, coded: CodedPhotos) -> list[Subject]:
    if not Path(config.path).is_dir():
        raise UsageError(f"{config.path}: no such data set", hint="regiontalk data prepare makes one")
    records = Dataset(config.path, split)
    if config.snippets is None:
        return whole_photos(records, coded, config.codes)
    return regions(records, read_snippets(Path(config.snippets)), coded, config.snippets)


def _new_net(
    recipe: SentencesRecipe, subjects: Sequence[Subject], coded: CodedPhotos
) -> tuple[MultimodalRNN, Vocabulary]:
    """Words, frequencies and the spread of codes are those of the training subjects."""
    texts = list(all_texts(subjects))
    config = recipe.vocabulary
    words = Vocabulary.build(texts, config.cleaning, config.smallest_count, ("sentence",))
    net = MultimodalRNN(coded.codes.shape[2], len(words), len(words.styles), recipe.net)
    net.begin_with_frequencies(_counts(texts, words))
    views, codes, places = shown(
        coded, [subjects[number] for number in evenly_spaced(len(subjects), STANDARD)], recipe.net.views
    )
    net.standardise(views, codes[places[:, :, 4] > 0])
    return net, words


def _taken_over(recipe: SentencesRecipe, coded: CodedPhotos) -> tuple[MultimodalRNN, Vocabulary]:
    """Weights and words of a run that is gone on from in another way."""
    checkpoint = find_checkpoint(Path(recipe.begin_from or ""))
    net, words, then, state = load_sentence_net(checkpoint, torch.device("cpu"))
    if then.net != recipe.net:
        raise UsageError(f"{checkpoint}: its [net] is not that of this recipe")
    if state["detector"] != coded.detector:
        raise UsageError(f"{checkpoint}: it was trained on the codes of another detector")
    return net, words


def _counts(texts: Sequence[str], words: Vocabulary) -> Tensor:
    """How often each token is to be predicted (V,); every text ends in END."""
    tokens = [token for text in texts for token in known_tokens(text, words)]
    counts = torch.bincount(torch.tensor(tokens, dtype=torch.long), minlength=len(words))
    counts[END] += len(texts)
    return counts


def load_sentence_net(
    checkpoint: Path, device: torch.device
) -> tuple[MultimodalRNN, Vocabulary, SentencesRecipe, dict[str, Any]]:
    """The network of a checkpoint, its running mean where there is one, with its words, recipe and state."""
    state = read_state(checkpoint)
    if state["kind"] != "sentences" or not {"recipe", "vocabulary", "detector", "code"} <= set(state):
        raise ModelError(f"{checkpoint}: a checkpoint of kind {state['kind']!r}, not sentences")
    recipe = from_stored(SentencesRecipe, state["recipe"], str(checkpoint))
    words = Vocabulary.from_dict(state["vocabulary"])
    net = MultimodalRNN(state["code"], len(words), len(words.styles), recipe.net)
    name = "mean" if (checkpoint / "mean.safetensors").exists() else "model"
    fill_net(net, read_tensors(checkpoint, name), checkpoint)
    return net.to(device).eval(), words, recipe, state
