"""Training the language model of a model folder on the codes of true boxes, all else frozen: its
data, net and loss as a `Task`.

The region input of the language model is what the model folder's own graphs computed
(`lab.codes.true_boxes`), so nothing but the graph `step` and the vocabulary changes. That is quick
on a CPU, and names, heads and taught words stay valid.

Shapes: R regions, N phrases of a batch, E the language model's region input, T words, V tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.inference import decoding
from regiontalk.lab.codes.true_boxes import CodedBoxes, join, read_coded_boxes
from regiontalk.lab.data.records import Dataset, TrueRegion, evenly_spaced
from regiontalk.lab.evaluation.names import is_right
from regiontalk.lab.nets.fcln import FCLNConfig
from regiontalk.lab.nets.language import LanguageModel
from regiontalk.lab.training.detector.batches import (
    Phrase,
    name_weights,
    share_counts,
    start_token,
    usable_phrases,
)
from regiontalk.lab.training.heads.fine_tuning import learning_parameters
from regiontalk.lab.training.loader import StepBatch
from regiontalk.lab.training.optimizers import build_optimizer
from regiontalk.lab.training.recipe import to_dict
from regiontalk.lab.training.recipe.language import LanguageDataConfig, LanguageRecipe
from regiontalk.lab.training.task import Skip, Task
from regiontalk.language.vocabulary import END, LENGTH_STYLE, UNKNOWN, Vocabulary
from regiontalk.models.folder import read_model_folder
from regiontalk.models.packaged import place_of

LONGEST_CAPTION = 12  # words, of the captions that are judged on dev


@dataclass(frozen=True, eq=False)
class PhrasedRegions:
    """Regions with their phrases: what the language model learns from."""

    inputs: NDArray[np.float16]
    """(R, E) what the language model reads of the regions."""
    rows: Sequence[int]
    """The region of each phrase."""
    phrases: Sequence[Phrase]
    weights: Sequence[float]
    """How much each phrase counts."""
    config: LanguageDataConfig

    def by_region(self) -> dict[int, list[Phrase]]:
        """The phrases of each region."""
        together: dict[int, list[Phrase]] = {}
        for row, phrase in zip(self.rows, self.phrases, strict=True):
            together.setdefault(row, []).append(phrase)
        return together


@dataclass(frozen=True)
class LanguageBatch(StepBatch):
    inputs: Tensor  # (N, E)
    fed: Tensor  # (N, T) START and words
    words: Tensor  # (N, T) words and END, padded with END
    counted: Tensor  # (N, T) which of them are targets
    weights: Tensor  # (N,)
    keep: Tensor  # (N,) `LanguageDataConfig.keep`


@dataclass(frozen=True)
class LanguageBatches:
    """Step -> batch, from seed and step alone; a rank has its share of each."""

    sources: Sequence[PhrasedRegions]
    words: Vocabulary
    recipe: LanguageRecipe
    rank: int = 0
    ranks: int = 1

    def __len__(self) -> int:
        return self.recipe.run.steps

    def __getitem__(self, step: int) -> LanguageBatch:
        run = self.recipe.run
        configs = [source.config for source in self.sources]
        counts = share_counts(configs, run.steps, run.batch)[step]
        random = np.random.default_rng([run.seed, step])
        drawn: list[tuple[PhrasedRegions, int]] = []
        for source, count in zip(self.sources, counts.tolist(), strict=True):
            numbers = random.integers(len(source.phrases), size=count).tolist()
            drawn += [(source, number) for number in numbers]
        return self._collate(drawn[self.rank :: self.ranks], random)

    def _collate(
        self, drawn: Sequence[tuple[PhrasedRegions, int]], random: np.random.Generator
    ) -> LanguageBatch:
        phrases = [source.phrases[number] for source, number in drawn]
        longest = max(len(phrase.words) for phrase in phrases) + 1
        words = np.full((len(drawn), longest), END, dtype=np.int64)
        starts = np.zeros((len(drawn), 1), dtype=np.int64)
        for row, phrase in enumerate(phrases):
            words[row, : len(phrase.words)] = self.words.encode(phrase.words)
            starts[row] = start_token(phrase, self.words, random)
        lengths = np.array([len(phrase.words) for phrase in phrases])
        counted = (np.arange(longest) <= lengths[:, None]) & (words != UNKNOWN)
        inputs = np.stack([source.inputs[source.rows[number]] for source, number in drawn])
        weights = [source.weights[number] for source, number in drawn]
        return LanguageBatch(
            inputs=torch.from_numpy(inputs.astype(np.float32)),
            fed=torch.from_numpy(np.concatenate([starts, words[:, :-1]], axis=1)),
            words=torch.from_numpy(words),
            counted=torch.from_numpy(counted),
            weights=torch.tensor(weights, dtype=torch.float32),
            keep=torch.tensor([source.config.keep for source, _ in drawn]),
            names=tuple(" ".join(phrase.words) for phrase in phrases),
        )


@dataclass
class LanguageTask(Task):
    recipe: LanguageRecipe
    words: Vocabulary
    net: LanguageModel
    old: LanguageModel
    """The language model as it was, with the same vocabulary."""
    sources: Sequence[PhrasedRegions]
    dev: Mapping[str, PhrasedRegions]
    """Name of a folder of codes -> the regions of its dev photos."""
    detector: str
    """`folder.detector_fingerprint` of the graphs that computed the codes."""
    config: FCLNConfig
    """The configuration of the whole network that the language model belongs to."""

    @classmethod
    def begin(cls, recipe: LanguageRecipe) -> LanguageTask:
        """Reads the recipe's phrases and codes."""
        folder = read_model_folder(place_of(recipe.init_from))
        cleaning = folder.words.cleaning
        sources = []
        dev = {}
        for data in recipe.data:
            coded = {place: _read_codes(Path(place), folder.detector) for place in data.codes}
            sources.append(phrased_regions(data, "train", cleaning, list(coded.values())))
            for place, boxes in coded.items():
                regions = phrased_regions(data, "dev", cleaning, [boxes])
                if len(regions.phrases):
                    dev[Path(place).name] = regions
        return cls.of(recipe, sources, dev)

    @classmethod
    def of(
        cls,
        recipe: LanguageRecipe,
        sources: Sequence[PhrasedRegions],
        dev: Mapping[str, PhrasedRegions],
    ) -> LanguageTask:
        """The language model of the recipe's model folder, which learns `sources`: with their words
        added."""
        for source in sources:
            if not source.phrases:
                raise DataError(f"{source.config.path}: no train photo with a phrase and codes")
        from regiontalk.lab.export.pretrained import load_pretrained  # needs onnx, as few parts do

        folder = read_model_folder(place_of(recipe.init_from))
        pretrained = load_pretrained(recipe.init_from)
        words = _with_new_words(pretrained.words, recipe, sources)
        torch.manual_seed(recipe.run.seed)
        net = pretrained.language(words)
        old = copy.deepcopy(net).requires_grad_(False)
        net.visual.requires_grad_(False)
        return cls(recipe, words, net, old, sources, dev, folder.detector, pretrained.net.config)

    def data_summary(self) -> str:
        phrases = sum(len(source.phrases) for source in self.sources)
        return f"{phrases} phrases of {sum(len(source.inputs) for source in self.sources)} regions"

    def batches(self, rank: int, ranks: int) -> LanguageBatches:
        return LanguageBatches(self.sources, self.words, self.recipe, rank, ranks)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"net": build_optimizer(learning_parameters(self.net), self.recipe.optimizer)}

    def losses(self, batch: LanguageBatch) -> dict[str, Tensor]:
        """Cross entropy against a mixture of the phrase's word and the old model's words."""
        logits = self.net(batch.inputs, batch.fed, batch.counted).float()
        learned = F.cross_entropy(
            logits,
            batch.words[batch.counted],
            reduction="none",
            label_smoothing=self.recipe.label_smoothing,
        )
        rows = batch.counted.nonzero()[:, 0]
        share = batch.keep[rows]
        lengths = batch.counted.sum(dim=1).clamp(min=1)
        weights = (batch.weights / lengths)[rows] / len(batch.weights)
        losses = {"caption": ((1 - share) * weights * learned).sum()}
        if any(source.config.keep for source in self.sources):
            kept = self._difference_from_old(F.log_softmax(logits[share > 0], dim=1), batch)
            losses["keep"] = (share * weights)[share > 0].dot(kept)
        return losses

    def _difference_from_old(self, logprobs: Tensor, batch: LanguageBatch) -> Tensor:
        """KL divergence (K,) of the words (K, V) from the old model's, for the K counted words of
        phrases with `keep`."""
        is_kept = batch.keep > 0
        self.old.to(batch.inputs.device)
        with torch.no_grad():
            logits = self.old(batch.inputs[is_kept], batch.fed[is_kept], batch.counted[is_kept])
        return F.kl_div(logprobs, logits.float().softmax(dim=1), reduction="none").sum(dim=1)

    def description(self) -> dict[str, Any]:
        return super().description() | {"detector": self.detector, "net": to_dict(self.config)}

    def evaluate(
        self,
        net: LanguageModel,
        device: torch.device,
        picture: Path,  # noqa: ARG002
        skip: Skip,  # noqa: ARG002
    ) -> dict[str, float]:
        """How many of the greedy captions of dev regions name what a phrase names, in percent: for
        each folder of codes, and the mean of these."""
        mixed = mix(net, self.old.to(device), self.recipe.start_share)
        shares = {
            f"right_{name}": share_right(mixed, self.words, regions, device, self.recipe)
            for name, regions in self.dev.items()
        }
        return {"right": float(np.mean(list(shares.values()))), **shares} if shares else {}


def mix(net: LanguageModel, start: LanguageModel, share: float) -> LanguageModel:
    """The language model whose weights are `share` those of `start`, the rest those of `net`
    (Wortsman et al. 2022): often better than both on what each of them knows."""
    mixed = copy.deepcopy(net)
    of_start = start.state_dict()
    weights = {
        name: torch.lerp(weight, of_start[name], share) for name, weight in net.state_dict().items()
    }
    mixed.load_state_dict(weights)
    return mixed.eval()


def phrased_regions(
    config: LanguageDataConfig, split: str, cleaning: str, coded: Sequence[CodedBoxes]
) -> PhrasedRegions:
    """The phrases of a data set's photos whose boxes have codes. A photo with codes of several
    sizes is there several times."""
    records = {record.image: record for record in Dataset(config.path, split)}
    every = join(coded)
    rows: list[int] = []
    phrases: list[Phrase] = []
    ends = np.searchsorted(every.photos, np.arange(len(every) + 1)).tolist()
    for image, first, end in zip(every.images.tolist(), ends, ends[1:], strict=False):
        record = records.get(image)
        if record is None:
            continue
        boxes = every.boxes_xyxy[first:end].tolist()
        row_of_box = {tuple(box): row for row, box in enumerate(boxes, start=first)}
        for phrase in usable_phrases(record, config, cleaning):
            if phrase.xyxy in row_of_box:
                rows.append(row_of_box[phrase.xyxy])
                phrases.append(phrase)
    weights = name_weights(phrases, config.balance_names)
    return PhrasedRegions(
        every.inputs,
        rows,
        phrases,
        [weights.get(phrase.words, 1.0) if phrase.is_name else 1.0 for phrase in phrases],
        config,
    )


def share_right(
    net: LanguageModel,
    words: Vocabulary,
    regions: PhrasedRegions,
    device: torch.device,
    recipe: LanguageRecipe,
) -> float:
    """How many captions of some of the regions name what one of their phrases names, in percent."""
    by_region = regions.by_region()
    rows = [
        list(by_region)[place]
        for place in evenly_spaced(len(by_region), recipe.run.evaluate_photos)
    ]
    captions = greedy_captions(net, words, regions.inputs[rows], device)
    right = 0
    for row, caption in zip(rows, captions, strict=True):
        texts = tuple(" ".join(phrase.words) for phrase in by_region[row])
        right += is_right(caption, [TrueRegion((0, 0, 1, 1), texts[0], phrases=texts)])
    return 100 * right / len(rows)


@torch.inference_mode()
def greedy_captions(
    net: LanguageModel, words: Vocabulary, inputs: NDArray[np.floating], device: torch.device
) -> list[str]:
    """Captions of the first style for region inputs (R, E)."""
    visual = torch.from_numpy(inputs.astype(np.float32)).to(device)

    def step(
        tokens: decoding.Integers, state: decoding.State
    ) -> tuple[decoding.Floats, decoding.State]:
        h, c, seen = (torch.from_numpy(part).to(device) for part in state)
        logprobs, h, c = net.step(torch.from_numpy(tokens).to(device), h, c, seen)
        return logprobs.cpu().numpy(), (h.cpu().numpy(), c.cpu().numpy(), state[2])

    h, c = net.begin(visual)
    state = (h.cpu().numpy(), c.cpu().numpy(), visual.cpu().numpy())
    captions = decoding.word_by_word(step, state, words.start(), decoding.Rules(LONGEST_CAPTION))
    return [words.decode(caption.tokens) for caption in captions]


def _read_codes(place: Path, detector: str) -> CodedBoxes:
    coded = read_coded_boxes(place)
    if coded.detector != detector:
        raise ModelError(
            f"{place}: codes of another detector than the model's",
            hint="regiontalk data box-codes computes them with this one",
        )
    return coded


def _with_new_words(
    known: Vocabulary, recipe: LanguageRecipe, sources: Sequence[PhrasedRegions]
) -> Vocabulary:
    """The model's words, then those of the phrases that occur often enough."""
    phrases = list(chain.from_iterable(source.phrases for source in sources))
    styles = {phrase.style for phrase in phrases} - {LENGTH_STYLE}
    unknown = sorted(styles - set(known.styles))
    if unknown:
        raise UsageError(
            f"data.styles: {unknown[0]!r}: the model {recipe.init_from} has no such style",
            hint=f"its styles are {', '.join(known.styles)}",
        )
    texts = (" ".join(phrase.words) for phrase in phrases)
    of_phrases = Vocabulary.build(texts, known.cleaning, recipe.smallest_count)
    new = tuple(word for word in of_phrases.words if word not in set(known.words))
    return replace(known, words=known.words + new)
