"""Sentences about whole photos, which the FCLN's codes may learn from beside its phrases (differs from the paper).

Phrases name things; sentences also say what is going on. Two losses: the language model writes the sentence from the
whole photo's code, and an alignment net, which only training needs, finds the sentence among those of the batch.

Shapes: N photos of a batch, K of them with sentences, L sentences, T words, R regions of a photo, D the size of a code.
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
from regiontalk.nets.fcln import FCLN, Recognized
from regiontalk.nets.localization import GEOMETRY
from regiontalk.training.losses import caption_loss, counted_words
from regiontalk.training.ranking_losses import contrastive_loss
from regiontalk.training.recipe import LossConfig, PhotoSentencesConfig
from regiontalk.training.targets import Sample
from regiontalk.training.texts import WordReader, read_word_vectors, vector_table
from regiontalk.vocabulary import CLEANING, END, Vocabulary

CLEAN = "karpathy"
REGIONS = 19  # of a photo that its sentences are compared with, as in use; the whole photo is one more


@dataclass(frozen=True)
class Sentences:
    """Those of a batch."""

    photos: Tensor  # (K,) the photos that have some
    owners: Tensor  # (L,) which of those K a sentence belongs to
    tokens: Tensor  # (L, T) as the language model writes them, END behind
    texts: Texts  # as the alignment net reads them

    def to(self, device: torch.device) -> Sentences:
        return Sentences(*(getattr(self, item.name).to(device) for item in fields(self)))


@dataclass(frozen=True)
class SentencePicker:
    """Which sentences of a photo stand in a batch, and as what numbers."""

    config: PhotoSentencesConfig
    written: Vocabulary
    reader: WordReader

    @classmethod
    def build(cls, config: PhotoSentencesConfig, written: Vocabulary, datasets: Sequence[Dataset]) -> SentencePicker:
        """`written` is the language model's vocabulary; words that are only read have one of their own."""
        sentences = [sentence for dataset in datasets for record in dataset for sentence in record.sentences]
        if not sentences:
            raise DataError("no training photo has a sentence, but the recipe wants to learn from them")
        return cls(config, written, WordReader(Vocabulary.build(sentences, CLEAN, config.smallest_count)))

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
        tokens = np.full((len(sentences), max(map(len, sentences)) + 1), END, dtype=np.int64)
        for row, sentence in zip(tokens, sentences, strict=True):
            row[: len(sentence)] = self.written.encode(sentence)
        read = [self._read(sentence) for sentence in sentences]
        return Sentences(torch.tensor(photos), torch.tensor(owners), torch.from_numpy(tokens), self.reader.stack(read))

    def _read(self, sentence: Sequence[str]) -> NDArray[np.int64]:
        return np.array(self.reader.words.encode(sentence), dtype=np.int64)

    def build_net(self, code: int) -> AlignmentNet:
        """The alignment net that learns along; its words begin with the vectors of the recipe's file."""
        if self.config.word_vectors is None:
            return AlignmentNet(self.config.net, code, len(self.reader.words))
        table = vector_table(self.reader.words, read_word_vectors(Path(self.config.word_vectors)))
        net = AlignmentNet(replace(self.config.net, embedding=table.shape[1]), code, len(self.reader.words))
        own = net.get_parameter("words.table.weight")
        own.data = torch.where(table.abs().sum(dim=1, keepdim=True) > 0, table, own.data)
        return net


def writing_loss(net: FCLN, recognized: Recognized, sentences: Sentences, start: int, config: LossConfig) -> Tensor:
    """The language model tells the whole photo in the style that begins with `start`."""
    codes = recognized.photo_codes[sentences.photos][sentences.owners]  # (L, D)
    whole_photo = codes.new_tensor([0, 0, 1, 1, 1]).expand(len(codes), GEOMETRY)
    words, counted = sentences.tokens, counted_words(sentences.tokens, config)
    fed = torch.cat([torch.full_like(words[:, :1], start), words[:, :-1]], dim=1)
    logits = net.language(net.language.see(codes, codes, whole_photo), fed, counted)
    return caption_loss(logits, words, counted, sentences.owners, len(sentences.photos), config)


def finding_loss(net: AlignmentNet, recognized: Recognized, in_use: Sample, sentences: Sentences) -> Tensor:
    """Each sentence among those of other photos, each photo among the others, by the best region of every word."""
    best = slice(recognized.codes.shape[1] - in_use.index.shape[1], None)
    codes = recognized.codes[:, best][sentences.photos, :REGIONS]
    codes = torch.cat([recognized.photo_codes[sentences.photos][:, None], codes], dim=1)  # (K, 1 + R, D)
    used = in_use.used[sentences.photos, :REGIONS]
    used = torch.cat([torch.ones_like(used[:, :1]), used], dim=1)
    words = net.read(sentences.texts)
    scores = net.scores(net.regions(codes), used, words, sentences.texts.lengths).float()
    return contrastive_loss(scores, sentences.owners, net.log_scale.exp())
