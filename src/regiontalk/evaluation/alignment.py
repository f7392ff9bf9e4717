"""What a model folder's alignment head says of a data set's photos, by the very path of `regiontalk align`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regiontalk import boxes as geometry
from regiontalk import maxsim
from regiontalk.aligner import HEAD, AlignmentHead, region_vectors, word_vectors
from regiontalk.boxes import Floats
from regiontalk.data.dataset_model import DatasetModel
from regiontalk.data.records import Dataset, Record
from regiontalk.evaluation.grounding import Mention, true_mentions
from regiontalk.evaluation.ranking import ScoreMatrix
from regiontalk.model import Model


@dataclass(frozen=True)
class AlignedPhotos:
    """A model and the data set that it looks at."""

    model: Model
    dataset: Dataset

    def words(self, sentence: str) -> Floats:
        """(W, h): a vector for each word of the sentence, eqs. 2–6."""
        runtime = self.model.runtime
        words = runtime.head(HEAD).words
        tokens = words.encode(words.clean(sentence) or [])
        return word_vectors(runtime, tokens) if tokens else np.zeros((0, 1))

    def regions(self, record: Record) -> tuple[Floats, Floats, Floats]:
        """Boxes (R, 4), in the record's pixels, vectors (R, h) and scores (R,) of the whole photo and its best regions,
        eq. 1."""
        look = DatasetModel(self.model, self.dataset).look(record)
        codes, (width, height) = self.model.codes(look), look.frame.photo_size
        boxes = geometry.scale(codes.boxes_xyxy, record.width / width, record.height / height)
        return boxes, region_vectors(self.model.runtime, codes.codes), codes.scores

    def score_matrix(self, records: Iterable[Record]) -> ScoreMatrix:
        """The score of every photo with every sentence (eq. 8). One without words scores 0 everywhere."""
        photos, sentences, owners = [], [], []
        for number, record in enumerate(records):
            photos.append(self.regions(record)[1])
            sentences += [self.words(sentence) for sentence in record.sentences]
            owners += [number] * len(record.sentences)
        is_mean = self.model.runtime.head(HEAD).info.settings["score"] == "cosine"
        scores = np.stack([sentence_scores(vectors, sentences, is_mean) for vectors in photos])
        return ScoreMatrix(scores, np.array(owners, dtype=np.intp))

    def mentions(self, records: Iterable[Record]) -> Iterator[Mention]:
        """Every phrase of the records' sentences, with how well each word fits each region."""
        for record in records:
            boxes, vectors, scores = self.regions(record)
            prior = AlignmentHead(self.model.runtime).place_prior(scores)
            fits: dict[str, Floats] = {}
            for truth in true_mentions(record):
                if truth.sentence not in fits:
                    found = maxsim.similarities(vectors[None], self.words(truth.sentence))[0].T
                    fits[truth.sentence] = found + prior
                yield Mention(truth, boxes, fits[truth.sentence])


def sentence_scores(vectors: Floats, sentences: Sequence[Floats], is_mean: bool) -> Floats:
    """The sum, or mean, over a sentence's words (W, h) of how well each fits its best region of a photo (R, h)."""
    lengths = np.array([len(words) for words in sentences])
    scores = np.zeros(len(sentences))
    said = np.flatnonzero(lengths)
    if len(said):
        best = maxsim.word_scores(vectors[None], np.concatenate([words for words in sentences if len(words)]))[0]
        starts = np.concatenate([[0], np.cumsum(lengths[said])[:-1]])
        scores[said] = np.add.reduceat(best, starts) / (lengths[said] if is_mean else 1)
    return scores
