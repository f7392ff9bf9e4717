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
from regiontalk.inference.alignment import split_sentence, word_vectors
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.codes.sentences import CodedSentences, CodedTarget
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.evaluation.alignment import AlignedPhotos
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.training.checkpoints import find_checkpoint, load_alignment
from regiontalk.lab.training.heads.caption_targets import Snippet, known_tokens
from regiontalk.lab.training.heads.evaluation import open_aligned_photos, open_coded_sentences
from regiontalk.language.articles import ARTICLES
from regiontalk.language.vocabulary import word_set

MAX_CANDIDATES = 3  # regions that a segment may go to
MIN_WEIGHT = 0.1  # of a region that gets the segment

# Words that are cut off at either end of a snippet, so that "with a dog in the" is "a dog".
LOOSE_ENDS = word_set(
    """is are was were and or but while as that which who by for from in on at of to with into onto
    over through near around along its his her their there be being has have having up down out off
    it"""
)


class Segment(NamedTuple):
    """A run of words and how well each region fits it."""

    words: tuple[str, ...]
    """The words without loose ends; there may be none."""
    row: int
    """The region that the MRF chose."""
    fits: NDArray[np.float64]
    """(R,) the mean over its words, loose ends included."""
    vectors: NDArray[np.float32]
    """(W, h) of its words, loose ends included."""


@dataclass(frozen=True)
class Snippets:
    """Snippets by an alignment net; a larger `beta` makes longer ones."""

    photos: AlignedPhotos
    beta: float

    def hard(self, records: Iterable[Record]) -> Iterator[tuple[str, list[Snippet]]]:
        """Every segment as a snippet of the region that the MRF chose."""
        for record, segments in self._segments_of(records):
            yield (
                record.image,
                [Snippet(segment.row, " ".join(segment.words)) for segment in segments],
            )

    def soft(
        self, records: Iterable[Record], sentences: CodedSentences, scale: float
    ) -> Iterator[tuple[str, list[Snippet]]]:
        """Every segment as a snippet of its most likely regions, weighted by both nets together.
        `scale`: what fits are multiplied by in a softmax over regions."""
        for record, segments in self._segments_of(records):
            (photo,) = sentences.coded.find([record], sentences.file).tolist()
            snippets = []
            for segment in segments:
                rows = np.argsort(-segment.fits)[:MAX_CANDIDATES].tolist()
                text = " ".join(segment.words)
                tokens = known_tokens(text, sentences.head.words)
                targets = [CodedTarget(photo, row) for row in rows]
                likelihoods = sentences.log_probabilities(targets, [tokens] * len(rows))
                totals = scale * segment.fits[rows] + likelihoods
                weights = np.exp(totals - totals.max())
                shares = (weights / weights.sum()).tolist()
                snippets += [
                    Snippet(row, text, share)
                    for row, share in zip(rows, shares, strict=True)
                    if share >= MIN_WEIGHT
                ]
            yield record.image, snippets

    def _segments_of(self, records: Iterable[Record]) -> Iterator[tuple[Record, list[Segment]]]:
        for record in records:
            if not record.sentences:
                continue
            regions = self.photos.regions(record)
            segments: list[Segment] = []
            for sentence in record.sentences:
                segments += self.segments(sentence, regions)
            yield record, [segment for segment in segments if segment.words]

    def segments(self, sentence: str, regions: RegionTable) -> Iterator[Segment]:
        """The segments of a sentence over a photo's regions."""
        head = self.photos.head
        read = split_sentence(sentence, head.words)
        if not read.tokens:
            return
        evidence = head.gather(read, regions)
        places = list(read.places)
        fits = evidence.unary(head.settings)[places]
        chosen = evidence.align(head.settings, self.beta)[places]
        vectors = word_vectors(head.runtime, read.tokens)
        for start, end in maxsim.segments(chosen):
            words = without_loose_ends(read.words[start:end])
            row = int(chosen[start])
            yield Segment(words, row, fits[start:end].mean(axis=0), vectors[start:end])


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
    finder = Snippets(open_aligned_photos(alignment, coded, place_weight), beta)
    if sentence_net is None:
        return finder.hard(records)
    scale = float(fit_scale(load_alignment(find_checkpoint(alignment)).net))
    sentences = open_coded_sentences(find_checkpoint(sentence_net), codes)
    return finder.soft(records, sentences, scale)


def without_loose_ends(words: Sequence[str]) -> tuple[str, ...]:
    """Differs from the paper: a snippet neither begins nor ends in the middle of a thought."""
    kept = list(words)
    while kept and kept[0] in LOOSE_ENDS:
        kept.pop(0)
    while kept and kept[-1] in LOOSE_ENDS.union(ARTICLES):
        kept.pop()
    return tuple(kept)
