"""What a trained alignment net says of a data set's photos: scores for ranking, fits of phrases, sizes of vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regiontalk import maxsim
from regiontalk.codes.store import CodedPhotos
from regiontalk.data.records import Record
from regiontalk.errors import ModelError, UsageError
from regiontalk.evaluation.grounding import Mention, true_mentions
from regiontalk.evaluation.ranking import ScoreMatrix
from regiontalk.nets.alignment import LONGEST, AlignmentNet
from regiontalk.training.checkpoints import find_checkpoint, read_state
from regiontalk.training.heads.alignment import load_alignment, score_matrix
from regiontalk.training.heads.sentence_encoding import WordReader

CPU = torch.device("cpu")
FEWEST = 10  # times that a word must occur for its mean size to mean something


def best_checkpoints(run: Path) -> list[Path]:
    """The best checkpoints on dev that a run has kept, best first; a single checkpoint's folder is itself."""
    best = find_checkpoint(run)
    if best == run:
        return [run]
    newest = sorted(best.parent.glob("step-*"))[-1]
    few = [best.with_name(f"step-{one['step']:08d}") for one in read_state(newest).get("best_few", [])]
    return [place for place in few if place.is_dir()] or [best]


def score_matrices(run: Path, coded: CodedPhotos, records: Sequence[Record]) -> Iterator[ScoreMatrix]:
    """The scores of every photo with every sentence, by each of a run's best checkpoints."""
    sentences = [sentence for record in records for sentence in record.sentences]
    for checkpoint in best_checkpoints(run):
        net, _, reader, state = load_alignment(checkpoint, CPU, sentences)
        check_detector(checkpoint, state["detector"], coded)
        yield score_matrix(net, reader, coded, records, CPU)


def check_detector(checkpoint: Path, detector: str, coded: CodedPhotos) -> None:
    if detector != coded.detector:
        raise ModelError(f"{checkpoint}: trained on the region codes of another detector")


@dataclass(frozen=True)
class WordNet:
    """A checkpoint that reads words."""

    net: AlignmentNet
    reader: WordReader

    @classmethod
    def load(cls, run: Path, coded: CodedPhotos) -> WordNet:
        checkpoint = find_checkpoint(run)
        net, _, reader, state = load_alignment(checkpoint, CPU)
        check_detector(checkpoint, state["detector"], coded)
        if not isinstance(reader, WordReader):
            raise UsageError(f"{checkpoint}: it reads edges of dependency trees, not words")
        return cls(net, reader)

    @torch.no_grad()
    def words(self, sentence: str) -> NDArray[np.float32]:
        """(W, h)"""
        return self.net.read(self.reader.stack([self.reader.read(sentence)])).numpy()

    @torch.no_grad()
    def regions(self, coded: CodedPhotos, place: int) -> NDArray[np.float32]:
        """(R, h) of the rows in use."""
        codes = coded.codes[place, : coded.counts[place]].astype(np.float32)
        return self.net.regions(torch.from_numpy(codes)).numpy()

    def mentions(self, coded: CodedPhotos, records: Sequence[Record]) -> Iterator[Mention]:
        """Phrases of the records' sentences; one beyond the words that are read together is left out."""
        for place, record in zip(coded.find(records, "codes").tolist(), records, strict=True):
            vectors = self.regions(coded, place)[None]
            boxes = coded.boxes_xyxy[place, : coded.counts[place]].astype(np.float64)
            fits: dict[str, NDArray[np.float32]] = {}
            for truth in true_mentions(record):
                if truth.words[1] > LONGEST:
                    continue
                if truth.sentence not in fits:
                    fits[truth.sentence] = maxsim.similarities(vectors, self.words(truth.sentence))[0].T
                yield Mention(truth, boxes, fits[truth.sentence])

    def word_sizes(self, records: Sequence[Record]) -> dict[str, list[float]]:
        """The length of its vector at each place where a word occurs; only words that occur often enough."""
        sizes: dict[str, list[float]] = defaultdict(list)
        for record in records:
            for sentence in record.sentences:
                words = (self.reader.words.clean(sentence) or [])[:LONGEST]
                if words:
                    lengths = np.linalg.norm(self.words(sentence), axis=1)
                    for word, length in zip(words, lengths.tolist(), strict=True):
                        sizes[word].append(length)
        return {word: lengths for word, lengths in sizes.items() if len(lengths) >= FEWEST}

    def region_sizes(self, coded: CodedPhotos, records: Sequence[Record]) -> NDArray[np.float64]:
        """(N, 3): the length of each region's vector, its score, and its share of the photo."""
        rows = []
        for place in coded.find(records, "codes").tolist():
            used = slice(1, coded.counts[place])
            boxes = coded.boxes_xyxy[place]
            sides = (boxes[used, 2:] - boxes[used, :2]) / boxes[0, 2:]
            lengths = np.linalg.norm(self.regions(coded, place)[1:], axis=1)
            rows.append(np.stack([lengths, coded.scores[place, used], sides.prod(axis=1)], axis=1))
        return np.concatenate(rows).astype(np.float64)
