"""A trained alignment net on a data set's region codes: scores for ranking, fits of phrases,
lengths of vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regiontalk.errors import UsageError
from regiontalk.inference import maxsim
from regiontalk.inference.alignment import place_prior
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.grounding import Mention, true_mentions
from regiontalk.lab.evaluation.ranking import ScoreMatrix
from regiontalk.lab.nets.alignment import AlignmentNet, Texts
from regiontalk.lab.nets.sentence_encoders import LONGEST
from regiontalk.lab.training.checkpoints import (
    CPU,
    best_checkpoints,
    find_checkpoint,
    load_alignment,
)
from regiontalk.lab.training.heads.sentence_encoding import (
    SentenceReader,
    WordReader,
    trained_reader,
)

PHOTOS_AT_ONCE = 16  # whose products with all words are in memory together
SENTENCES_AT_ONCE = 500
FEWEST = 10  # occurrences of a word for its mean length to say something


@torch.no_grad()
def score_matrix(
    net: AlignmentNet,
    reader: SentenceReader,
    coded: CodedPhotos,
    records: Sequence[Record],
    device: torch.device,
) -> ScoreMatrix:
    """The score of every photo with every sentence. A sentence without a known word scores 0
    everywhere."""
    places = coded.find(records, "codes")
    sentences = [reader.read(sentence) for record in records for sentence in record.sentences]
    owners = np.repeat(np.arange(len(records)), [len(record.sentences) for record in records])
    parts = [
        Texts(
            *(
                part.to(device)
                for part in reader.stack(sentences[start : start + SENTENCES_AT_ONCE])
            )
        )
        for start in range(0, len(sentences), SENTENCES_AT_ONCE)
    ]
    words = [net.read(texts) for texts in parts]
    rows = []
    for start in range(0, len(places), PHOTOS_AT_ONCE):
        chosen = places[start : start + PHOTOS_AT_ONCE]
        vectors = net.regions(torch.from_numpy(coded.codes[chosen]).float().to(device))
        used = torch.from_numpy(coded.mask[chosen]).to(device)
        scores = [
            net.scores(vectors, used, read, texts.lengths)
            for read, texts in zip(words, parts, strict=True)
        ]
        rows.append(torch.cat(scores, dim=1).float().cpu().numpy())
    return ScoreMatrix(np.concatenate(rows), owners)


def score_matrices(
    run: Path, coded: CodedPhotos, records: Sequence[Record], device: torch.device = CPU
) -> Iterator[ScoreMatrix]:
    """The scores of every photo with every sentence, by each of a run's best checkpoints."""
    sentences = [sentence for record in records for sentence in record.sentences]
    for checkpoint in best_checkpoints(run):
        trained = load_alignment(checkpoint)
        coded.check_detector(trained.state["detector"], checkpoint)
        yield score_matrix(
            trained.net.to(device), trained_reader(trained, sentences), coded, records, device
        )


@dataclass(frozen=True)
class AlignmentModel:
    """An alignment net that reads words, as opposed to edges of dependency trees."""

    net: AlignmentNet
    reader: WordReader

    @classmethod
    def load(cls, run: Path, coded: CodedPhotos) -> AlignmentModel:
        """The best checkpoint of a run, which must have been trained on codes of the same detector
        as `coded`."""
        checkpoint = find_checkpoint(run)
        trained = load_alignment(checkpoint)
        coded.check_detector(trained.state["detector"], checkpoint)
        if trained.recipe.parses is not None:
            raise UsageError(f"{checkpoint}: it reads edges of dependency trees, not words")
        return cls(trained.net, WordReader(trained.words))

    @torch.no_grad()
    def words(self, sentence: str) -> NDArray[np.float32]:
        """The vectors of a sentence's words (W, h)."""
        return self.net.read(self.reader.stack([self.reader.read(sentence)])).numpy()

    @torch.no_grad()
    def regions(self, coded: CodedPhotos, place: int) -> NDArray[np.float32]:
        """The vectors of a photo's regions (R, h), the whole photo first."""
        codes = coded.codes[place, : coded.counts[place]].astype(np.float32)
        return self.net.regions(torch.from_numpy(codes)).numpy()

    def mentions(
        self, coded: CodedPhotos, records: Sequence[Record], place_weight: float = 0.0
    ) -> Iterator[Mention]:
        """The phrases of the records' sentences; one beyond the words that are read is left out."""
        for place, record in zip(coded.find(records, "codes").tolist(), records, strict=True):
            vectors = self.regions(coded, place)[None]
            boxes = coded.boxes_xyxy[place, : coded.counts[place]].astype(np.float64)
            prior = place_prior(coded.scores[place, : coded.counts[place]], place_weight)
            fits: dict[str, NDArray[np.float64]] = {}
            for truth in true_mentions(record):
                if truth.words[1] > LONGEST:
                    continue
                if truth.sentence not in fits:
                    fits[truth.sentence] = (
                        maxsim.similarities(vectors, self.words(truth.sentence))[0].T + prior
                    )
                yield Mention(truth, boxes, fits[truth.sentence])

    def word_lengths(self, records: Sequence[Record]) -> dict[str, list[float]]:
        """Word -> the lengths of its vectors wherever it occurs; only words that occur often
        enough."""
        found: dict[str, list[float]] = defaultdict(list)
        for record in records:
            for sentence in record.sentences:
                if words := self.reader.split(sentence):
                    lengths = np.linalg.norm(self.words(sentence), axis=1)
                    for word, length in zip(words, lengths.tolist(), strict=True):
                        found[word].append(length)
        return {word: lengths for word, lengths in found.items() if len(lengths) >= FEWEST}

    def region_lengths(self, coded: CodedPhotos, records: Sequence[Record]) -> NDArray[np.float64]:
        """(N, 3): the length of each region's vector, its score, and its share of the photo's
        area."""
        rows = []
        for place in coded.find(records, "codes").tolist():
            used = slice(1, coded.counts[place])
            boxes = coded.boxes_xyxy[place]
            sides = (boxes[used, 2:] - boxes[used, :2]) / boxes[0, 2:]
            lengths = np.linalg.norm(self.regions(coded, place)[1:], axis=1)
            rows.append(np.stack([lengths, coded.scores[place, used], sides.prod(axis=1)], axis=1))
        return np.concatenate(rows).astype(np.float64)
