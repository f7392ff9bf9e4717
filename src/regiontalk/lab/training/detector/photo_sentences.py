"""Differs from the paper: the backbone also learns from sentences about whole photos.

Phrases name things; sentences also say what is going on. An alignment net, which only training
needs, learns to match photos and sentences of a batch from the regions' codes and appearances. Its
gradients stop at the codes: where codes learned from sentences too, they became worse at captions.

Shapes: N photos of a batch, K of them with sentences, L sentences, T words, R regions of a photo, D
the size of a code, A of an appearance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regiontalk.errors import DataError
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.nets.alignment import AlignmentNet, Texts
from regiontalk.lab.nets.fcln import FCLN, Recognized
from regiontalk.lab.nets.localization import clip_boxes
from regiontalk.lab.training.detector.targets import Sample
from regiontalk.lab.training.heads.ranking_losses import contrastive_loss
from regiontalk.lab.training.heads.sentence_encoding import (
    WordReader,
    new_net,
    read_word_vectors,
    vector_table,
)
from regiontalk.lab.training.recipe.detector import PhotoSentencesConfig
from regiontalk.lab.training.recipe.shared import SENTENCE_CLEANING
from regiontalk.language.vocabulary import Vocabulary


@dataclass(frozen=True)
class Sentences:
    """The sentences of a batch."""

    photos: Tensor  # (K,) the photos that have some
    owners: Tensor  # (L,) which of those K a sentence belongs to
    texts: Texts


@dataclass(frozen=True)
class SentencePicker:
    """Picks sentences of a photo for a batch, and encodes them."""

    config: PhotoSentencesConfig
    reader: WordReader

    @classmethod
    def build(cls, config: PhotoSentencesConfig, datasets: Sequence[Dataset]) -> SentencePicker:
        """Makes the vocabulary of the data sets' sentences."""
        records = chain.from_iterable(datasets)
        sentences = list(chain.from_iterable(record.sentences for record in records))
        if not sentences:
            raise DataError("no training photo has a sentence, which the recipe's [sentences] need")
        return cls(
            config,
            WordReader(Vocabulary.build(sentences, SENTENCE_CLEANING, config.smallest_count)),
        )

    def pick(self, record: Record, random: np.random.Generator) -> list[list[str]]:
        """Some of a photo's sentences as words."""
        count = min(self.config.per_photo, len(record.sentences))
        chosen = random.choice(len(record.sentences), count, replace=False) if count else ()
        return list(
            filter(None, (self.reader.split(record.sentences[number]) for number in chosen))
        )

    def collate(self, picked: Sequence[Sequence[list[str]]]) -> Sentences | None:
        """The sentences of all photos of a batch; None where there are none."""
        photos = [number for number, sentences in enumerate(picked) if sentences]
        if not photos:
            return None
        owners: list[int] = []
        for row, number in enumerate(photos):
            owners += [row] * len(picked[number])
        sentences = list(chain.from_iterable(picked[number] for number in photos))
        texts = self.reader.stack([self.reader.encode(sentence) for sentence in sentences])
        return Sentences(torch.tensor(photos), torch.tensor(owners), texts)

    def build_net(self, code: int) -> AlignmentNet:
        """The alignment net; its word embedding starts from the recipe's file."""
        words = self.reader.words
        path = self.config.word_vectors
        table = None if path is None else vector_table(words, read_word_vectors(Path(path)))
        return new_net(self.config.net, code, words, table)


def sentence_loss(
    net: AlignmentNet, codes: Tensor, proposals: Sample, sentences: Sentences
) -> Tensor:
    """Contrastive loss of photos and sentences, scored by the best region of every word.

    `codes` (N, 1 + R, D + A) are those of `inference_codes`.
    """
    used = proposals.used[:, :BEST_REGIONS]
    used = torch.cat([torch.ones_like(used[:, :1]), used], dim=1)  # the whole photo always is
    words = net.read(sentences.texts)
    vectors = net.regions(codes[sentences.photos])
    scores = net.scores(vectors, used[sentences.photos], words, sentences.texts.lengths).float()
    return contrastive_loss(scores, sentences.owners, net.log_scale.exp())


def inference_codes(
    net: FCLN, deep: Tensor, recognized: Recognized, proposals: Sample, sizes: Tensor
) -> Tensor:
    """Codes and appearances (N, 1 + R, D + A) of whole photos and of their best proposals, as heads
    get them."""
    first = recognized.codes.shape[1] - proposals.index.shape[1]
    best = slice(first, first + BEST_REGIONS)
    codes = torch.cat([recognized.photo_codes[:, None], recognized.codes[:, best]], dim=1)
    whole = torch.cat([torch.zeros_like(sizes), sizes], dim=1)[:, None]
    boxes = torch.cat([whole, clip_boxes(recognized.boxes_xyxy[:, best].detach(), sizes)], dim=1)
    appearance = net.pooled_features(deep, boxes).view(*boxes.shape[:2], -1)
    return torch.cat([codes.detach(), appearance.to(codes.dtype)], dim=2)
