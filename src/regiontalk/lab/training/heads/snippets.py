"""Snippets of regions from sentences of whole photos, without any box that a person drew (K&FF
section 3.1.4).

The alignment net says how well each word fits each region, the chain MRF cuts a sentence into
segments, and a segment is a snippet of its region. With a sentence net (a multimodal RNN that was
trained on such snippets), a segment goes to its most likely regions, weighted by the posterior of
alignment net and sentence net together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regiontalk.inference import maxsim
from regiontalk.inference.alignment import place_prior
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.training.checkpoints import CPU, find_checkpoint
from regiontalk.lab.training.heads.alignment_model import AlignmentModel
from regiontalk.lab.training.heads.caption_targets import (
    CaptionTarget,
    Snippet,
    known_tokens,
    pad_texts,
    stack_codes,
)
from regiontalk.lab.training.heads.sentence_decoding import Describer
from regiontalk.language.vocabulary import word_set

CANDIDATES = 3  # regions that a segment may go to
LEAST_WEIGHT = 0.1  # of a region that gets the segment

# Words that are cut off at either end of a snippet, so that "with a dog in the" is "a dog".
LOOSE_ENDS = word_set(
    """is are was were and or but while as that which who by for from in on at of to with into onto over through near
    around along its his her their there be being has have having up down out off it"""
)
ARTICLES = frozenset({"a", "an", "the"})


class Segment(NamedTuple):
    """A run of words and how well each region fits it."""

    words: tuple[str, ...]
    start: int
    end: int
    """Its first word in the sentence and the one after its last, loose ends included."""
    row: int
    """The region that the MRF chose."""
    fits: NDArray[np.float64]
    """(R,) the mean over its words."""


@dataclass(frozen=True)
class Snippets:
    """Snippets by an alignment net; a larger `beta` makes longer ones."""

    aligner: AlignmentModel
    beta: float
    place_weight: float = 0.0
    """Of the logarithm of a region's score, which is added to its fits: words prefer regions with a
    high score."""

    def hard(
        self, coded: CodedPhotos, records: Iterable[Record]
    ) -> Iterator[tuple[str, list[Snippet]]]:
        """Every segment as a snippet of the region that the MRF chose."""
        for record, _, segments in self._photos(coded, records):
            yield record.image, [Snippet(one.row, " ".join(one.words)) for one in segments]

    def soft(
        self, coded: CodedPhotos, records: Iterable[Record], describer: Describer
    ) -> Iterator[tuple[str, list[Snippet]]]:
        """Every segment as a snippet of its most likely regions, weighted by both nets together."""
        scale = float(fit_scale(self.aligner.net))
        for record, place, segments in self._photos(coded, records):
            said = [
                (" ".join(one.words), np.argsort(-one.fits)[:CANDIDATES].tolist(), one.fits)
                for one in segments
            ]
            likelihoods = iter(
                _likelihoods(
                    describer, place, [(text, row) for text, rows, _ in said for row in rows]
                )
            )
            found = []
            for text, rows, fits in said:
                totals = scale * fits[rows] + [next(likelihoods) for _ in rows]
                weights = np.exp(totals - totals.max())
                pairs = zip(rows, (weights / weights.sum()).tolist(), strict=True)
                found += [
                    Snippet(row, text, weight) for row, weight in pairs if weight >= LEAST_WEIGHT
                ]
            yield record.image, found

    def _photos(
        self, coded: CodedPhotos, records: Iterable[Record]
    ) -> Iterator[tuple[Record, int, list[Segment]]]:
        told = [record for record in records if record.sentences]
        for record, place in zip(told, coded.find(told, "codes").tolist(), strict=True):
            vectors = self.aligner.regions(coded, place)
            scores = coded.scores[place, : len(vectors)]
            found = [
                one
                for sentence in record.sentences
                for one in self.segments(sentence, vectors, scores)
            ]
            yield record, place, [one for one in found if one.words]

    def segments(
        self, sentence: str, vectors: NDArray[np.float32], scores: NDArray[np.float32]
    ) -> Iterator[Segment]:
        """The segments of a sentence over regions with vectors (R, h) and scores (R,), without
        loose ends, so that some have no words."""
        words = self.aligner.reader.split(sentence)
        if not words:
            return
        fits = maxsim.similarities(vectors[None], self.aligner.words(sentence))[0].T + place_prior(
            scores, self.place_weight
        )
        chosen = maxsim.align_words(fits, self.beta)
        for start, end in maxsim.segments(chosen):
            kept = without_loose_ends(words[start:end])
            row = int(chosen[start])
            yield Segment(kept, start, end, row, fits[start:end].mean(axis=0))


def fit_scale(net: AlignmentNet) -> Tensor:
    """What fits are multiplied by in a softmax over regions: cosines as in the alignment net's own
    loss."""
    return net.log_scale.exp() if net.config.score == "cosine" else torch.ones_like(net.log_scale)


def find_snippets(
    records: Dataset,
    codes: Path,
    alignment: Path,
    beta: float,
    place_weight: float,
    sentence_net: Path | None,
) -> Iterator[tuple[str, list[Snippet]]]:
    """The snippets of every photo that has sentences, by the best checkpoints of the runs."""
    coded = CodedPhotos.load(codes)
    finder = Snippets(AlignmentModel.load(alignment, coded), beta, place_weight)
    if sentence_net is None:
        return finder.hard(coded, records)
    return finder.soft(coded, records, Describer.load(find_checkpoint(sentence_net), codes, CPU))


def without_loose_ends(words: Sequence[str]) -> tuple[str, ...]:
    """Differs from the paper: a snippet neither begins nor ends in the middle of a thought."""
    kept = list(words)
    while kept and kept[0] in LOOSE_ENDS:
        kept.pop(0)
    while kept and kept[-1] in LOOSE_ENDS | ARTICLES:
        kept.pop()
    return tuple(kept)


@torch.inference_mode()
def _likelihoods(
    describer: Describer, photo: int, said: Sequence[tuple[str, int]]
) -> NDArray[np.float64]:
    """log p(text | region) of every text and row, (N,)."""
    if not said:
        return np.zeros(0)
    tokens = [known_tokens(text, describer.words) for text, _ in said]
    order = sorted(range(len(said)), key=lambda number: -len(tokens[number]))
    fed, words, lengths = pad_texts([tokens[number] for number in order], describer.words.start())
    targets = [CaptionTarget(photo, said[number][1]) for number in order]
    seen = describer.net.look(*stack_codes(describer.coded, targets, describer.net.config.views))
    in_order = np.empty(len(said))
    in_order[order] = describer.net.text_logprobs(seen, fed, words, lengths).numpy()
    return in_order
