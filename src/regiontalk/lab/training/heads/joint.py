"""One model, end to end, from photos with sentences to descriptions of regions (future work in K&FF
section 4.4).

Alignment net and multimodal RNN learn in the same steps. Eqs. 10–12 cut each sentence of the batch
into segments with the alignment net as it is. Which region a segment is about stays open: with r
the regions that fit it best,

    loss = eq. 9 − weight · log Σ_r p(r | segment) p(segment | code of r)

where p(r | segment) is a softmax of the alignment net's fits and p(segment | code) is the RNN's
(eqs. 13–15). So the RNN learns to describe regions, and the alignment net which regions make a text
likely.

Letters: K photos with a sentence each, T words, R regions, S segments of all sentences, C
candidates of each, h the size of the common space, D of a code.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from regiontalk.boxes import PLACE_NUMBERS
from regiontalk.inference import maxsim
from regiontalk.inference.alignment import place_prior
from regiontalk.lab.data.records import Dataset, evenly_spaced
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN
from regiontalk.lab.training.heads.alignment import (
    AlignmentBatch,
    AlignmentBatches,
    AlignmentTask,
    read_photos,
)
from regiontalk.lab.training.heads.caption_targets import known_tokens, pad_texts
from regiontalk.lab.training.heads.fine_tuning import learning_parameters
from regiontalk.lab.training.heads.sentences import count_tokens
from regiontalk.lab.training.heads.snippets import fit_scale, without_loose_ends
from regiontalk.lab.training.optimizers import build_optimizer
from regiontalk.lab.training.recipe.heads import JointRecipe
from regiontalk.lab.training.task import Skip, Task
from regiontalk.language.vocabulary import Vocabulary


class JointNet(nn.Module):
    def __init__(self, alignment: AlignmentNet, sentence: MultimodalRNN) -> None:
        super().__init__()
        self.alignment, self.sentence = alignment, sentence  # whose names `checkpoints` knows


class Segments(NamedTuple):
    """The segments of a batch's sentences, longest first."""

    photos: list[int]
    spans: list[tuple[int, int]]
    """First word and the one after the last, loose ends included."""
    tokens: list[list[int]]
    """What the RNN learns to say: without loose ends and unknown words."""


@dataclass
class JointTask(Task):
    lower_is_better: ClassVar[Collection[str]] = ("perplexity",)

    recipe: JointRecipe
    words: Vocabulary
    net: JointNet
    aligner: AlignmentTask
    """The alignment net's part: batches, eq. 9, ranking of dev photos."""

    @classmethod
    def begin(cls, recipe: JointRecipe) -> JointTask:
        aligner = AlignmentTask.begin(recipe.alignment_recipe())
        recipe = replace(
            recipe, alignment=aligner.recipe.net
        )  # whose embedding has the size of the word vectors
        codes = aligner.coded[0].codes
        words = aligner.words
        sentence = MultimodalRNN(codes.shape[2], len(words), len(words.styles), recipe.net)
        train = Dataset(recipe.data.path, "train")
        sentence.begin_with_frequencies(
            count_tokens(list(chain.from_iterable(record.sentences for record in train)), words)
        )
        for name, value in (("mean", aligner.net.regions.mean), ("std", aligner.net.regions.std)):
            sentence.get_buffer(f"views_{name}").copy_(value)
        return cls(recipe, words, JointNet(aligner.net, sentence), aligner)

    def data_summary(self) -> str:
        return self.aligner.data_summary()

    def batches(self, rank: int, ranks: int) -> AlignmentBatches:
        return self.aligner.batches(rank, ranks)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"all": build_optimizer(learning_parameters(self.net), self.recipe.optimizer)}

    def prepare_step(self, step: int) -> None:
        self.aligner.step = step
        self.net.train()

    def losses(self, batch: AlignmentBatch) -> dict[str, Tensor]:
        vectors, words = self.aligner.embed(self.aligner.net, batch)
        losses = self.aligner.ranking_losses(batch, vectors, words)
        if self.aligner.step >= self.recipe.snippets.from_step:
            losses["sentence"] = self._description_loss(self.net, batch, vectors, words)
        return losses

    def weight(self, name: str) -> float:
        return self.recipe.snippets.weight if name == "sentence" else self.aligner.weight(name)

    def _description_loss(
        self, net: JointNet, batch: AlignmentBatch, vectors: Tensor, words: Tensor
    ) -> Tensor:
        """−log Σ_r p(r | segment) p(segment | code of r), the sum over the segments, for each word
        of them."""
        sentences = pad_sequence(
            list(words.split(batch.texts.lengths.tolist())), batch_first=True
        )  # (K, T, h)
        prior = place_prior(batch.scores.cpu().numpy(), self.recipe.snippets.place_weight).astype(
            np.float32
        )
        fits = (sentences @ vectors.transpose(1, 2)).float() + torch.from_numpy(prior).to(
            words.device
        )[:, None]
        fits = fits.masked_fill(~batch.used[:, None], maxsim.PADDING_SCORE)  # (K, T, R)
        segments = self.segments(batch, fits)
        if not segments.tokens:
            return fits.sum() * 0
        of_segments = segment_fits(fits, segments)
        of_regions = torch.log_softmax(
            fit_scale(net.alignment) * of_segments, dim=1
        )  # log p(r | segment), (S, R)
        chosen = of_segments.topk(
            min(self.recipe.snippets.candidates, fits.shape[2]), dim=1
        ).indices  # (S, C)
        codes = batch.codes[
            torch.tensor(segments.photos, device=chosen.device)[:, None], chosen
        ].float()  # (S, C, D)
        likelihoods = text_likelihoods(net.sentence, codes, segments.tokens, self.words.start())
        total = torch.logsumexp(of_regions.gather(1, chosen) + likelihoods, dim=1)
        word_count = sum(len(tokens) + 1 for tokens in segments.tokens)  # END is a word, too
        return -total.sum() / word_count

    def segments(self, batch: AlignmentBatch, fits: Tensor) -> Segments:
        """Every sentence cut by eqs. 10–12 with the fits (K, T, R) as they are; no gradient goes
        through the cuts."""
        numbers = fits.detach().cpu().numpy()
        tokens = batch.texts.tokens.tolist()
        counts = batch.used.sum(dim=1).tolist()
        kept_segments = []
        for photo, length in enumerate(batch.texts.lengths.tolist()):
            words = self.words.decode(tokens[photo][:length]).split()
            chosen = maxsim.align_words(
                numbers[photo, :length, : counts[photo]], self.recipe.snippets.beta
            )
            for start, end in maxsim.segments(chosen):
                kept = known_tokens(" ".join(without_loose_ends(words[start:end])), self.words)
                if kept:
                    kept_segments.append((photo, (start, end), kept))
        kept_segments.sort(key=lambda segment: -len(segment[2]))
        return Segments(
            [segment[0] for segment in kept_segments],
            [segment[1] for segment in kept_segments],
            [segment[2] for segment in kept_segments],
        )

    def description(self) -> dict[str, Any]:
        return self.aligner.description() | super().description()

    def evaluate(
        self, net: JointNet, device: torch.device, picture: Path, skip: Skip
    ) -> dict[str, float]:
        """Ranking of dev photos, and the perplexity of their segments, given the regions that may
        be meant."""
        metrics = self.aligner.evaluate(net.alignment, device, picture, skip)
        return metrics and metrics | {"perplexity": self._perplexity(net, device)}

    @torch.inference_mode()
    def _perplexity(self, net: JointNet, device: torch.device) -> float:
        coded = self.aligner.coded[0]
        reader = self.aligner.reader
        dev = [
            record
            for record in Dataset(self.recipe.data.path, "dev")
            if record.image in coded.places
        ]
        some = [dev[number] for number in evenly_spaced(len(dev), self.recipe.run.evaluate_photos)]
        photos = read_photos(some, coded, reader, self.recipe.data.codes)
        losses = []
        for start in range(0, len(photos), self.recipe.run.batch):
            part = photos[start : start + self.recipe.run.batch]
            batch = AlignmentBatch.stack(part, [photo.sentences[0] for photo in part], reader).to(
                device
            )
            losses.append(
                self._description_loss(net, batch, *self.aligner.embed(net.alignment, batch)).item()
            )
        return math.exp(min(float(np.mean(losses)), 50.0))


def segment_fits(fits: Tensor, segments: Segments) -> Tensor:
    """How well each region fits each segment, (S, R): the mean over the segment's words; fits (K,
    T, R)."""
    share = torch.zeros(len(segments.photos), fits.shape[1])  # (S, T)
    for row, (start, end) in zip(share, segments.spans, strict=True):
        row[start:end] = 1 / (end - start)
    of_photos = fits[torch.tensor(segments.photos, device=fits.device)]  # (S, T, R)
    return (share.to(fits.device)[:, :, None] * of_photos).sum(dim=1)


def text_likelihoods(
    net: MultimodalRNN, codes: Tensor, tokens: list[list[int]], start: int
) -> Tensor:
    """log p(text | code), (S, C), of texts, longest first, and codes (S, C, D) of their candidate
    regions."""
    texts, candidates, _ = codes.shape
    views = codes.flatten(0, 1)[:, None]  # (S·C, 1, D)
    nothing = views.new_zeros(len(views), 0, PLACE_NUMBERS)  # no attention, so no other regions
    given = (
        part.to(codes.device).repeat_interleave(candidates, dim=0)
        for part in pad_texts(tokens, start)
    )
    return net.text_logprobs(net.look(views, views[:, :0], nothing), *given).view(texts, candidates)
