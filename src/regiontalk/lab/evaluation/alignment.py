"""Alignments of a data set's photos by the alignment head of a model or of a run, exactly as
`regiontalk align` makes them.

A model looks at the photos. A run reads their region codes from a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.boxes import Floats
from regiontalk.inference import maxsim
from regiontalk.inference.alignment import (
    AlignmentHead,
    SentenceEvidence,
    region_vectors,
    split_sentence,
)
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.grounding import Mention, TrueMention, true_mentions
from regiontalk.lab.evaluation.ranking import ScoreMatrix
from regiontalk.models.runtime import Runtime


class AlignedSentence(NamedTuple):
    """A sentence of a photo, and the true boxes of phrases in it."""

    evidence: SentenceEvidence
    places: tuple[int, ...]
    """(W,) of the words among the pieces."""
    boxes_xyxy: Floats
    """(R, 4) the boxes of the regions."""
    truths: tuple[TrueMention, ...]


@dataclass(frozen=True)
class AlignedPhotos:
    """An alignment head and the regions of photos."""

    head: AlignmentHead
    regions: Callable[[Record], RegionTable]
    """The whole photo and its best regions, with vectors, in the record's pixels."""

    @classmethod
    def of_model(cls, dataset_model: DatasetModel) -> AlignedPhotos:
        """Evidence of the photos that a model looks at."""
        head = AlignmentHead(dataset_model.model.runtime)
        return cls(head, lambda record: dataset_model.candidates(record).first(1 + BEST_REGIONS))

    @classmethod
    def of_codes(cls, runtime: Runtime, coded: CodedPhotos) -> AlignedPhotos:
        """Evidence of the photos whose region codes are in a file."""
        return cls(AlignmentHead(runtime), lambda record: coded_regions(runtime, coded, record))

    def score_matrix(
        self,
        records: Iterable[Record],
        encode: Callable[[Sequence[str]], Sequence[Floats]] | None = None,
    ) -> ScoreMatrix:
        """The score of every photo with every sentence (eqs. 7 and 8). One without words scores 0
        everywhere. `encode`: reads sentences as vectors (W, h), instead of the head."""
        photos = []
        sentences: list[str] = []
        owners = []
        for number, record in enumerate(records):
            photos.append(np.asarray(self.regions(record).vectors))
            sentences += record.sentences
            owners += [number] * len(record.sentences)
        words = (encode or self.head.vectors)(sentences)
        score = self.head.settings.score
        scores = np.stack([sentence_scores(vectors, words, score) for vectors in photos])
        return ScoreMatrix(scores, np.array(owners, dtype=np.intp))

    def mentions(self, records: Iterable[Record]) -> Iterator[Mention]:
        """Every phrase of the records' sentences, with the score of each word in each region."""
        settings = self.head.settings
        for record in records:
            for sentence in self.sentences(record):
                words = list(sentence.places)
                unary = sentence.evidence.unary(settings)[words]
                chain = sentence.evidence.align(settings)[words]
                for truth in sentence.truths:
                    yield Mention(truth, sentence.boxes_xyxy, unary, chain)

    def sentences(self, record: Record) -> list[AlignedSentence]:
        """The sentences that have phrases with boxes."""
        truths = defaultdict(list)
        for truth in true_mentions(record):
            truths[truth.sentence].append(truth)
        regions = self.regions(record)
        aligned = []
        for sentence, mentions in truths.items():
            read = split_sentence(sentence, self.head.words)
            evidence = self.head.gather(read, regions)
            aligned.append(
                AlignedSentence(evidence, read.places, regions.boxes_xyxy, tuple(mentions))
            )
        return aligned


def coded_regions(runtime: Runtime, coded: CodedPhotos, record: Record) -> RegionTable:
    """The rows of a photo's codes, with vectors, in the record's pixels."""
    (photo,) = coded.find([record], "codes").tolist()
    count = int(coded.counts[photo])
    codes = coded.codes[photo, :count].astype(np.float32)
    boxes = coded.boxes_xyxy[photo, :count]
    width, height = boxes[0, 2:].tolist()
    boxes = geometry.scale(boxes, record.width / width, record.height / height)
    size = (record.width, record.height)
    return RegionTable(
        Frame(size, size, (1.0, 1.0)),
        boxes_xyxy=boxes.astype(np.float64),
        scores=coded.scores[photo, :count].astype(np.float64),
        codes=codes,
        vectors=region_vectors(runtime, codes),
    )


def sentence_scores(vectors: Floats, sentences: Sequence[Floats], score: str) -> Floats:
    """How well sentences, each its words (W, h), fit a photo with regions (R, h): `sum` and
    `cosine`, over the words the sum (eq. 8) or mean of how well each fits its best region;
    `fragments`, the sum over words and regions of max(0, vᵢ·sₜ), divided by both lengths (eq. 7).
    """
    lengths = np.array([len(words) for words in sentences])
    scores = np.zeros(len(sentences))
    with_words = np.flatnonzero(lengths)
    if not len(with_words):
        return scores
    every_word = np.concatenate([sentences[number] for number in with_words.tolist()])
    if score == "fragments":
        of_words = np.maximum(maxsim.similarities(vectors[None], every_word)[0], 0).sum(axis=0)
    else:
        of_words = maxsim.word_scores(vectors[None], every_word)[0]
    starts = np.concatenate([[0], np.cumsum(lengths[with_words])[:-1]])
    divisors = {
        "cosine": lengths[with_words],
        "fragments": len(vectors) * (lengths[with_words] + maxsim.LENGTHENED_CHAIN),
    }
    scores[with_words] = np.add.reduceat(of_words, starts) / divisors.get(score, 1)
    return scores
