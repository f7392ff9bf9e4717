"""Sentences about whole photos, which the backbone may learn from beside its phrases (differs from the paper).

Phrases name things; sentences also say what is going on. An alignment net, which only training needs, finds a photo's
sentences among those of the batch by the regions' appearances and codes. Codes are looked at, not moved: where they
learned from sentences too, they had less to say about regions.

Shapes: N photos of a batch, K of them with sentences, L sentences, T words, R regions of a photo, D the size of a code,
A of an appearance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regiontalk.data.records import Dataset, Record
from regiontalk.errors import DataError
from regiontalk.nets.alignment import LONGEST, AlignmentNet, Texts
from regiontalk.nets.fcln import FCLN, Output
from regiontalk.nets.localization import clip_boxes
from regiontalk.training.detector.targets import Sample
from regiontalk.training.heads.ranking_losses import contrastive_loss
from regiontalk.training.heads.sentence_encoding import WordReader, begin_words, read_word_vectors, vector_table
from regiontalk.training.recipe import PhotoSentencesConfig
from regiontalk.vocabulary import CLEANING, Vocabulary

CLEAN = "karpathy"
REGIONS = 19  # of a photo that its sentences are compared with, as in use; the whole photo is one more


@dataclass(frozen=True)
class Sentences:
    """Those of a batch."""

    photos: Tensor  # (K,) the photos that have some
    owners: Tensor  # (L,) which of those K a sentence belongs to
    texts: Texts

    def to(self, device: torch.device) -> Sentences:
        return Sentences(*(getattr(self, item.name).to(device) for item in fields(self)))


@dataclass(frozen=True)
class SentencePicker:
    """Which sentences of a photo stand in a batch, and as what numbers."""

    config: PhotoSentencesConfig
    reader: WordReader

    @classmethod
    def build(cls, config: PhotoSentencesConfig, datasets: Sequence[Dataset]) -> SentencePicker:
        """With the vocabulary of the data sets' sentences."""
        sentences = [sentence for dataset in datasets for record in dataset for sentence in record.sentences]
        if not sentences:
            raise DataError("no training photo has a sentence, but the recipe wants to learn from them")
        return cls(config, WordReader(Vocabulary.build(sentences, CLEAN, config.smallest_count)))

    def pick(self, record: Record, random: np.random.Generator) -> list[list[str]]:
        """Some of a photo's sentences as words."""
        count = min(self.config.per_photo, len(record.sentences))
        chosen = random.choice(len(record.sentences), count, replace=False) if count else ()
        words = [CLEANING[CLEAN](record.sentences[number]) for number in chosen]
        return [sentence[:LONGEST] for sentence in words if sentence]

    def collate(self, picked: Sequence[Sequence[list[str]]]) -> Sentences | None:
        """The sentences of all photos of a batch; None where there are none."""
        photos = [number for number, sentences in enumerate(picked) if sentences]
        if not photos:
            return None
        owners = [place for place, number in enumerate(photos) for _ in picked[number]]
        sentences = [sentence for number in photos for sentence in picked[number]]
        read = [self._read(sentence) for sentence in sentences]
        return Sentences(torch.tensor(photos), torch.tensor(owners), self.reader.stack(read))

    def _read(self, sentence: Sequence[str]) -> NDArray[np.int64]:
        return np.array(self.reader.words.encode(sentence), dtype=np.int64)

    def build_net(self, code: int) -> AlignmentNet:
        """The alignment net that learns along; its words begin with the vectors of the recipe's file."""
        if self.config.word_vectors is None:
            return AlignmentNet(self.config.net, code, len(self.reader.words))
        table = vector_table(self.reader.words, read_word_vectors(Path(self.config.word_vectors)))
        net = AlignmentNet(replace(self.config.net, embedding=table.shape[1]), code, len(self.reader.words))
        begin_words(net, table)
        return net


def finding_loss(net: AlignmentNet, codes: Tensor, in_use: Sample, sentences: Sentences) -> Tensor:
    """Each sentence among those of other photos, each photo among the others, by the best region of every word.

    Codes (N, 1 + R, D + A) are those of `codes_in_use`.
    """
    used = in_use.used[:, :REGIONS]
    used = torch.cat([torch.ones_like(used[:, :1]), used], dim=1)  # the whole photo always is
    words = net.read(sentences.texts)
    vectors = net.regions(codes[sentences.photos])
    scores = net.scores(vectors, used[sentences.photos], words, sentences.texts.lengths).float()
    return contrastive_loss(scores, sentences.owners, net.log_scale.exp())


def codes_in_use(net: FCLN, output: Output, in_use: Sample, sizes: Tensor) -> Tensor:
    """Codes and appearances (N, 1 + R, D + A) of whole photos and of their best proposals, as heads get them."""
    recognized, first = output.recognized, output.recognized.codes.shape[1] - in_use.index.shape[1]
    best = slice(first, first + REGIONS)
    codes = torch.cat([recognized.photo_codes[:, None], recognized.codes[:, best]], dim=1)
    whole = torch.cat([torch.zeros_like(sizes), sizes], dim=1)[:, None]
    boxes = torch.cat([whole, clip_boxes(recognized.boxes_xyxy[:, best].detach(), sizes)], dim=1)
    appearance = net.appear(output.deep, boxes).view(*boxes.shape[:2], -1)
    return torch.cat([codes.detach(), appearance.to(codes.dtype)], dim=2)
