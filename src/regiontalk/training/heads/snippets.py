"""Snippets of regions from sentences of whole photos, without any box that a person drew (K&FF section 3.1.4).

The alignment net says how well each word fits each region, the chain MRF cuts a sentence into segments, and a segment
is a snippet of its region. With a speaker (a multimodal RNN that was trained on such snippets) the regions of a
segment are weighed anew: the posterior of alignment and speaker together, so that each learns from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regiontalk import maxsim
from regiontalk.codes.store import CodedPhotos
from regiontalk.data.records import Dataset, Record
from regiontalk.nets.alignment import LONGEST
from regiontalk.nets.multimodal_rnn import Seen, packed
from regiontalk.training.checkpoints import find_checkpoint
from regiontalk.training.heads.alignment_model import WordNet
from regiontalk.training.heads.caption_targets import Snippet, Subject, Text, known_tokens, shown
from regiontalk.training.heads.sentence_decoding import DatasetDescriber, Describer

CANDIDATES = 3  # regions that a segment is weighed between
LEAST_WEIGHT = 0.1  # of a region that keeps its share in a segment

# What a snippet is cut free of at either end, so that "with a dog in the" is "a dog".
LOOSE_ENDS = frozenset(
    {
        *("is", "are", "was", "were", "and", "or", "but", "while", "as", "that", "which", "who", "by", "for", "from"),
        *("in", "on", "at", "of", "to", "with", "into", "onto", "over", "through", "near", "around", "along", "its"),
        *("his", "her", "their", "there", "be", "being", "has", "have", "having", "up", "down", "out", "off", "it"),
    }
)
ARTICLES = frozenset({"a", "an", "the"})


class Segment(NamedTuple):
    """A run of words and how well each region fits it."""

    words: tuple[str, ...]
    start: int
    end: int
    """Its first word in the sentence and the one behind its last, loose ends counted in."""
    row: int
    """The region that the MRF gave it."""
    fits: NDArray[np.float64]
    """(R,) the mean over its words."""


@dataclass(frozen=True)
class Snippets:
    """Finds them with an alignment net; larger `beta` makes longer ones."""

    aligner: WordNet
    beta: float

    def hard(self, coded: CodedPhotos, records: Iterable[Record]) -> Iterator[tuple[str, list[Snippet]]]:
        """Every segment as a snippet of the region that it was given."""
        for record, _, segments in self._photos(coded, records):
            yield record.image, [Snippet(one.row, Text(" ".join(one.words))) for one in segments]

    def soft(
        self, coded: CodedPhotos, records: Iterable[Record], speaker: Describer
    ) -> Iterator[tuple[str, list[Snippet]]]:
        """Every segment as a snippet of the likeliest regions, weighed by alignment and speaker together."""
        scale = self._scale()
        for record, place, segments in self._photos(coded, records):
            pairs = [(one, int(row)) for one in segments for row in np.argsort(-one.fits)[:CANDIDATES]]
            likelihoods = _likelihoods(speaker, place, [(" ".join(one.words), row) for one, row in pairs])
            found = []
            for start in range(0, len(pairs), count := min(CANDIDATES, int(coded.counts[place]))):
                some = pairs[start : start + count]
                totals = np.array([scale * one.fits[row] for one, row in some]) + likelihoods[start : start + count]
                weights = np.exp(totals - totals.max())
                for (one, row), weight in zip(some, (weights / weights.sum()).tolist(), strict=True):
                    if weight >= LEAST_WEIGHT:
                        found.append(Snippet(row, Text(" ".join(one.words), weight)))
            yield record.image, found

    def _photos(self, coded: CodedPhotos, records: Iterable[Record]) -> Iterator[tuple[Record, int, list[Segment]]]:
        told = [record for record in records if record.sentences]
        for record, place in zip(told, coded.find(told, "codes").tolist(), strict=True):
            vectors = self.aligner.regions(coded, place)
            found = [one for sentence in record.sentences for one in self.segments(sentence, vectors)]
            yield record, place, [one for one in found if one.words]

    def segments(self, sentence: str, vectors: NDArray[np.float32]) -> Iterator[Segment]:
        """Of one sentence, laid over regions (R, h); without their loose ends, so that some have no words."""
        words = (self.aligner.reader.words.clean(sentence) or [])[:LONGEST]
        if not words:
            return
        fits = maxsim.similarities(vectors[None], self.aligner.words(sentence))[0].T.astype(np.float64)
        chosen = maxsim.align_words(fits, self.beta)
        for start, end in maxsim.segments(chosen):
            kept, row = without_loose_ends(words[start:end]), int(chosen[start])
            yield Segment(kept, start, end, row, fits[start:end].mean(axis=0))

    def _scale(self) -> float:
        """Cosines count as much as in the alignment net's own loss."""
        net = self.aligner.net
        return float(net.log_scale.exp()) if net.config.score == "cosine" else 1.0


def find_snippets(
    records: Dataset, codes: Path, alignment: Path, beta: float, speaker: Path | None
) -> Iterator[tuple[str, list[Snippet]]]:
    """The snippets of every photo that has sentences, by the best checkpoints of the runs."""
    coded = CodedPhotos.load(codes)
    finder = Snippets(WordNet.load(alignment, coded), beta)
    if speaker is None:
        return finder.hard(coded, records)
    device = torch.device("cpu")
    return finder.soft(coded, records, DatasetDescriber.load(find_checkpoint(speaker), codes, device).describer)


def without_loose_ends(words: Sequence[str]) -> tuple[str, ...]:
    """Differs from the paper: a snippet neither begins nor ends in the middle of a thought."""
    kept = list(words)
    while kept and kept[0] in LOOSE_ENDS:
        kept.pop(0)
    while kept and kept[-1] in LOOSE_ENDS | ARTICLES:
        kept.pop()
    return tuple(kept)


@torch.inference_mode()
def _likelihoods(speaker: Describer, photo: int, said: Sequence[tuple[str, int]]) -> NDArray[np.float64]:
    """log p(text | region) of every text and row, (N,)."""
    tokens = [known_tokens(text, speaker.words) for text, _ in said]
    order = sorted(range(len(said)), key=lambda number: -len(tokens[number]))
    lengths = torch.tensor([len(tokens[number]) + 1 for number in order])
    words = torch.zeros(len(said), int(lengths.max()) if said else 1, dtype=torch.long)
    for row, number in enumerate(order):
        words[row, : len(tokens[number])] = torch.tensor(tokens[number], dtype=torch.long)
    fed = torch.cat([torch.full((len(said), 1), speaker.words.start()), words[:, :-1]], dim=1)
    subjects = [Subject(photo, said[number][1], ()) for number in order]
    seen: Seen = speaker.net.look(*shown(speaker.coded, subjects, speaker.net.config.views))
    logprobs = torch.log_softmax(speaker.net(seen, fed, lengths), dim=1)
    of_words = logprobs.gather(1, packed(words, lengths)[:, None])[:, 0]
    rows = packed(torch.arange(len(said))[:, None].expand_as(words), lengths)
    totals = torch.zeros(len(said)).index_add_(0, rows, of_words)
    back = np.empty(len(said))
    back[order] = totals.numpy()
    return back
