"""Training the multimodal RNN on region codes (K&FF 3.2): its data, net and loss as a `Task`.

Shapes: S caption targets (photos or regions), R their texts, T words, N views, K rows of codes, D
the size of a code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regiontalk.errors import DataError, UsageError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset, epoch_order, evenly_spaced
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN, Seen, packed
from regiontalk.lab.training.checkpoints import Trained, load_sentence_net
from regiontalk.lab.training.heads.caption_targets import (
    CaptionTarget,
    known_tokens,
    pad_texts,
    photo_targets,
    read_snippets,
    region_targets,
    stack_codes,
)
from regiontalk.lab.training.heads.evaluation import coded_sentences, score_sentences
from regiontalk.lab.training.heads.fine_tuning import learning_parameters, load_head
from regiontalk.lab.training.loader import StepBatch
from regiontalk.lab.training.optimizers import build_optimizer
from regiontalk.lab.training.recipe.heads import SentencesDataConfig, SentencesRecipe
from regiontalk.lab.training.recipe.shared import SENTENCE_CLEANING
from regiontalk.lab.training.task import Skip, Task
from regiontalk.language.vocabulary import END, Vocabulary

TARGETS_TO_STANDARDISE = 2000


@dataclass(frozen=True)
class SentenceBatch(StepBatch):
    views: Tensor  # (S, N, D)
    regions: Tensor  # (S, K, D)
    places: Tensor  # (S, K, 5)
    owners: Tensor  # (R,) the target of each text
    fed: Tensor  # (R, T) START and words, longest texts first
    words: Tensor  # (R, T) words and END
    lengths: Tensor  # (R,) words and END
    weights: Tensor  # (R,)


@dataclass(frozen=True)
class SentenceBatches:
    """Step -> batch, from seed and step alone; a rank has its share of each."""

    targets: Sequence[CaptionTarget]
    coded: CodedPhotos
    words: Vocabulary
    recipe: SentencesRecipe
    rank: int = 0
    ranks: int = 1

    def __len__(self) -> int:
        return self.recipe.run.steps

    def __getitem__(self, step: int) -> SentenceBatch:
        """One pass over all targets follows the other without a gap."""
        run = self.recipe.run
        count = len(self.targets)
        places = range(step * run.batch + self.rank, (step + 1) * run.batch, self.ranks)
        numbers = [epoch_order(count, run.seed, place // count)[place % count] for place in places]
        return self.collate([self.targets[number] for number in numbers])

    def collate(self, targets: Sequence[CaptionTarget]) -> SentenceBatch:
        longest = self.recipe.prediction.longest
        rows: list[tuple[list[int], float, int]] = []
        for number, target in enumerate(targets):
            for text, weight in zip(target.texts, target.weights, strict=True):
                rows.append((known_tokens(text, self.words)[:longest], weight, number))
        rows.sort(key=lambda row: -len(row[0]))
        fed, words, lengths = pad_texts([tokens for tokens, _, _ in rows], self.words.start())
        return SentenceBatch(
            *stack_codes(self.coded, targets, self.recipe.net.views),
            owners=torch.tensor([number for _, _, number in rows]),
            fed=fed,
            words=words,
            lengths=lengths,
            weights=torch.tensor([weight for _, weight, _ in rows]),
            names=tuple(self.coded.names[target.photo] for target in targets),
        )


@dataclass
class SentencesTask(Task):
    lower_is_better: ClassVar[Collection[str]] = ("perplexity",)

    recipe: SentencesRecipe
    words: Vocabulary
    net: MultimodalRNN
    coded: CodedPhotos
    targets: Mapping[str, Sequence[CaptionTarget]]
    """Split (train and dev) -> what its sentences are about."""

    @classmethod
    def begin(cls, recipe: SentencesRecipe) -> SentencesTask:
        """A new run: the vocabulary and the output's bias from the training texts."""
        coded = CodedPhotos.load(Path(recipe.data.codes))
        targets = {split: _targets(recipe.data, split, coded) for split in ("train", "dev")}
        if not targets["train"]:
            raise DataError(f"{recipe.data.path}: no train photo with a text")
        torch.manual_seed(recipe.run.seed)
        if recipe.init_from is not None:
            trained = load_head(recipe, recipe.init_from, coded, load_sentence_net)
            net = trained.net
            words = trained.words
        else:
            net, words = _new_net(recipe, targets["train"], coded)
        return cls(recipe, words, net, coded, targets)

    def data_summary(self) -> str:
        train = self.targets["train"]
        texts = sum(len(target.texts) for target in train)
        what = "photos" if self.recipe.data.snippets is None else "regions"
        return f"{len(train)} {what} with {texts} texts"

    def batches(self, rank: int, ranks: int) -> SentenceBatches:
        return SentenceBatches(
            self.targets["train"], self.coded, self.words, self.recipe, rank, ranks
        )

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"net": build_optimizer(learning_parameters(self.net), self.recipe.optimizer)}

    def losses(self, batch: SentenceBatch) -> dict[str, Tensor]:
        return {"sentence": self._loss(self.net, batch, self.recipe.label_smoothing)}

    def _loss(self, net: MultimodalRNN, batch: SentenceBatch, smoothing: float) -> Tensor:
        """Mean of −log p(word), weighted by the words' texts."""
        seen = net.look(batch.views, batch.regions, batch.places)
        logits = net(Seen(*(part[batch.owners] for part in seen)), batch.fed, batch.lengths)
        losses = F.cross_entropy(
            logits.float(),
            packed(batch.words, batch.lengths),
            reduction="none",
            label_smoothing=smoothing,
        )
        weights = packed(batch.weights[:, None].expand_as(batch.words), batch.lengths)
        return (losses * weights).sum() / weights.sum()

    def description(self) -> dict[str, Any]:
        return super().description() | {
            "detector": self.coded.detector,
            "code": self.coded.codes.shape[2],
        }

    def evaluate(
        self,
        net: MultimodalRNN,
        device: torch.device,
        picture: Path,  # noqa: ARG002
        skip: Skip,  # noqa: ARG002
    ) -> dict[str, float]:
        """CIDEr and BLEU of greedy sentences on dev, and the perplexity of dev's own texts."""
        dev = self.targets["dev"]
        if not dev:
            return {}
        some = [dev[number] for number in evenly_spaced(len(dev), self.recipe.run.evaluate_photos)]
        trained = Trained(net, self.words, self.recipe, self.description() | {"step": None})
        sentences = coded_sentences(trained, self.coded, device)
        return score_sentences(sentences, some) | {
            "perplexity": self._perplexity(net, some, device)
        }

    @torch.inference_mode()
    def _perplexity(
        self, net: MultimodalRNN, targets: Sequence[CaptionTarget], device: torch.device
    ) -> float:
        batches = self.batches(0, 1)
        size = self.recipe.run.batch
        parts = [targets[start : start + size] for start in range(0, len(targets), size)]
        losses = [self._loss(net, batches.collate(part).to(device), 0.0).item() for part in parts]
        return math.exp(min(float(np.mean(losses)), 50.0))


def _targets(config: SentencesDataConfig, split: str, coded: CodedPhotos) -> list[CaptionTarget]:
    if not Path(config.path).is_dir():
        raise UsageError(
            f"{config.path}: no such data set", hint="regiontalk data prepare makes one"
        )
    records = Dataset(config.path, split)
    if config.snippets is None:
        return photo_targets(records, coded, config.codes)
    return region_targets(records, read_snippets(Path(config.snippets)), coded, config.snippets)


def _new_net(
    recipe: SentencesRecipe, targets: Sequence[CaptionTarget], coded: CodedPhotos
) -> tuple[MultimodalRNN, Vocabulary]:
    """The vocabulary, word frequencies and the statistics of codes are those of the training
    targets."""
    texts = list(chain.from_iterable(target.texts for target in targets))
    words = Vocabulary.build(
        texts, SENTENCE_CLEANING, recipe.vocabulary.smallest_count, ("sentence",)
    )
    net = MultimodalRNN(coded.codes.shape[2], len(words), len(words.styles), recipe.net)
    net.begin_with_frequencies(count_tokens(texts, words))
    some = [targets[number] for number in evenly_spaced(len(targets), TARGETS_TO_STANDARDISE)]
    views, codes, places = stack_codes(coded, some, recipe.net.views)
    net.standardise(views, codes[places[:, :, 4] > 0])
    return net, words


def count_tokens(texts: Sequence[str], words: Vocabulary) -> Tensor:
    """How often each token is a target (V,); every text ends in END."""
    tokens = list(chain.from_iterable(known_tokens(text, words) for text in texts))
    counts = torch.bincount(torch.tensor(tokens, dtype=torch.long), minlength=len(words))
    counts[END] += len(texts)
    return counts
