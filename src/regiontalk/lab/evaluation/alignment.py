"""Alignments of a data set's photos by a model folder, exactly as `regiontalk align` makes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regiontalk.boxes import Floats
from regiontalk.inference import maxsim
from regiontalk.inference.alignment import (
    HEAD,
    AlignmentHead,
    SentenceEvidence,
    split_sentence,
    word_vectors,
)
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.inference.regions import RegionTable
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.grounding import Mention, TrueMention, true_mentions
from regiontalk.lab.evaluation.ranking import ScoreMatrix
from regiontalk.model import Model


class AlignedSentence(NamedTuple):
    """A sentence of a photo, and the true boxes of phrases in it."""

    evidence: SentenceEvidence
    places: tuple[int, ...]
    """(W,) of the words among the pieces."""
    boxes_xyxy: Floats
    """(R, 4)"""
    truths: tuple[TrueMention, ...]


@dataclass(frozen=True)
class AlignedPhotos:
    asked: DatasetModel

    @property
    def model(self) -> Model:
        return self.asked.model

    def words(self, sentence: str) -> Floats:
        """(W, h): a vector for each word of the sentence, eqs. 2–6."""
        runtime = self.model.runtime
        words = runtime.head(HEAD).words
        tokens = words.encode(words.clean(sentence) or [])
        return word_vectors(runtime, tokens) if tokens else np.zeros((0, 1))

    def regions(self, record: Record) -> RegionTable:
        """The whole photo and its best regions, in the record's pixels."""
        return self.asked.candidates(record).first(1 + BEST_REGIONS)

    def score_matrix(self, records: Iterable[Record]) -> ScoreMatrix:
        """The score of every photo with every sentence (eq. 8). One without words scores 0
        everywhere."""
        photos = []
        sentences = []
        owners = []
        for number, record in enumerate(records):
            photos.append(np.asarray(self.regions(record).vectors))
            sentences += [self.words(sentence) for sentence in record.sentences]
            owners += [number] * len(record.sentences)
        is_mean = self.model.runtime.head(HEAD).info.settings["score"] == "cosine"
        scores = np.stack([sentence_scores(vectors, sentences, is_mean) for vectors in photos])
        return ScoreMatrix(scores, np.array(owners, dtype=np.intp))

    def mentions(self, records: Iterable[Record]) -> Iterator[Mention]:
        """Every phrase of the records' sentences, with the score of each word in each region."""
        settings = AlignmentHead(self.model.runtime).settings
        for record in records:
            for one in self.sentences(record):
                words = list(one.places)
                unary = one.evidence.unary(settings)[words]
                chain = one.evidence.align(settings)[words]
                for truth in one.truths:
                    yield Mention(truth, one.boxes_xyxy, unary, chain)

    def sentences(self, record: Record) -> list[AlignedSentence]:
        """Those that have phrases with boxes."""
        truths = defaultdict(list)
        head = AlignmentHead(self.model.runtime)
        for truth in true_mentions(record):
            truths[truth.sentence].append(truth)
        seen = self.regions(record)
        aligned = []
        for sentence, own in truths.items():
            read = split_sentence(sentence, self.model.runtime.head(HEAD).words)
            aligned.append(
                AlignedSentence(head.gather(read, seen), read.places, seen.boxes_xyxy, tuple(own))
            )
        return aligned


def sentence_scores(vectors: Floats, sentences: Sequence[Floats], is_mean: bool) -> Floats:
    """The sum, or mean, over a sentence's words (W, h) of how well each fits its best region of a
    photo (R, h)."""
    lengths = np.array([len(words) for words in sentences])
    scores = np.zeros(len(sentences))
    said = np.flatnonzero(lengths)
    if len(said):
        best = maxsim.word_scores(
            vectors[None], np.concatenate([words for words in sentences if len(words)])
        )[0]
        starts = np.concatenate([[0], np.cumsum(lengths[said])[:-1]])
        scores[said] = np.add.reduceat(best, starts) / (lengths[said] if is_mean else 1)
    return scores
