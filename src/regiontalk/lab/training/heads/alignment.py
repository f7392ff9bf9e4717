"""Training the alignment nets on region codes (K&FF 3.1): their data, net and losses as a
`Task`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regiontalk.errors import DataError, UsageError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset, Record, epoch_order, evenly_spaced
from regiontalk.lab.evaluation.ranking import ScoreMatrix, evaluate_ranking
from regiontalk.lab.nets.alignment import AlignmentNet, Texts, WordVectors, instance_loss
from regiontalk.lab.nets.sentence_encoders import SENTENCE_ENDS, Bert
from regiontalk.lab.nets.text_tower import load_text_tower
from regiontalk.lab.training.checkpoints import Trained, load_alignment
from regiontalk.lab.training.heads.evaluation import score_matrix
from regiontalk.lab.training.heads.fine_tuning import learning_parameters, load_head
from regiontalk.lab.training.heads.ranking_losses import contrastive_loss, margin_loss
from regiontalk.lab.training.heads.sentence_encoding import (
    EdgeReader,
    Sentence,
    SentenceReader,
    WordReader,
    bert_table,
    load_parses,
    new_net,
    read_word_list,
    read_word_vectors,
    vector_table,
)
from regiontalk.lab.training.loader import StepBatch
from regiontalk.lab.training.optimizers import build_optimizer
from regiontalk.lab.training.recipe.heads import AlignmentRecipe
from regiontalk.lab.training.recipe.shared import SENTENCE_CLEANING
from regiontalk.lab.training.task import Skip, Task
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.language.wordpiece import WordPieces

PHOTOS_TO_STANDARDISE = 500


class ToldPhoto(NamedTuple):
    """A photo's place among the codes, and its encoded sentences."""

    coded: CodedPhotos
    place: int
    sentences: list[Sentence]


def read_photos(
    records: Iterable[Record], coded: CodedPhotos, reader: SentenceReader, place: str
) -> list[ToldPhoto]:
    """The photos that have a sentence with a word (or an edge) in it."""
    read = [(record, [*filter(len, map(reader.read, record.sentences))]) for record in records]
    described = [(record, sentences) for record, sentences in read if sentences]
    places = coded.find([record for record, _ in described], place).tolist()
    return [
        ToldPhoto(coded, number, sentences)
        for number, (_, sentences) in zip(places, described, strict=True)
    ]


@dataclass(frozen=True)
class AlignmentBatch(StepBatch):
    codes: Tensor  # (K, R, D) float16
    used: Tensor  # (K, R)
    scores: Tensor  # (K, R) the detector's
    texts: Texts  # one sentence of each photo

    @classmethod
    def stack(
        cls, photos: Sequence[ToldPhoto], sentences: Sequence[Sentence], reader: SentenceReader
    ) -> AlignmentBatch:
        """Photos, and a sentence of each."""
        coded = [(photo.coded, photo.place) for photo in photos]
        return cls(
            codes=_stacked([of.codes[place] for of, place in coded]),
            used=_stacked([of.mask[place] for of, place in coded]),
            scores=_stacked([of.scores[place] for of, place in coded]),
            texts=reader.stack(sentences),
            names=tuple(of.names[place] for of, place in coded),
        )


def _stacked(arrays: Sequence[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.stack(arrays))


class AlignmentBatches:
    """Step -> batch: photos in a new order every epoch, each with one of its sentences. Rank r of
    several takes every `ranks`-th photo, and its negatives are those of its own share."""

    def __init__(
        self,
        photos: Sequence[ToldPhoto],
        reader: SentenceReader,
        recipe: AlignmentRecipe,
        rank: int,
        ranks: int,
    ) -> None:
        self.photos = photos
        self.reader = reader
        self.run = recipe.run
        self.rank = rank
        self.ranks = ranks
        if len(photos) < recipe.run.batch:
            raise DataError(
                f"{len(photos)} photos with sentences cannot fill a batch of {recipe.run.batch}"
            )

    def __len__(self) -> int:
        return self.run.steps

    def __getitem__(self, step: int) -> AlignmentBatch:
        steps = len(self.photos) // self.run.batch  # of an epoch: no photo is in a batch twice
        epoch, position = divmod(step, steps)
        order = epoch_order(len(self.photos), self.run.seed, epoch)[position * self.run.batch :][
            : self.run.batch
        ]
        chosen = [self.photos[number] for number in order[self.rank :: self.ranks].tolist()]
        random = np.random.default_rng([self.run.seed, step, self.rank])
        sentences = [
            photo.sentences[random.permutation(len(photo.sentences))[0]] for photo in chosen
        ]
        return AlignmentBatch.stack(chosen, sentences, self.reader)


@dataclass
class AlignmentTask(Task):
    recipe: AlignmentRecipe
    words: Vocabulary
    net: AlignmentNet
    reader: SentenceReader
    coded: list[CodedPhotos]
    photos: list[list[ToldPhoto]]
    """The photos of each data set."""
    step: int = 0

    @classmethod
    def begin(cls, recipe: AlignmentRecipe) -> AlignmentTask:
        """A new run."""
        coded = [CodedPhotos.load(Path(data.codes), surroundings=False) for data in recipe.data]
        if len({codes.detector for codes in coded}) > 1:
            raise UsageError("the data sets have codes of different detectors")
        records = [list(Dataset(data.path, "train")) for data in recipe.data]
        torch.manual_seed(recipe.run.seed)
        reader: SentenceReader
        if recipe.init_from is not None:
            trained = load_head(recipe, recipe.init_from, coded[0], load_alignment)
            net = trained.net
            reader = WordReader(trained.words)
        else:
            recipe, net, reader = _new_net(recipe, records, coded)
        photos = [
            read_photos(photo_records, codes, reader, data.codes)
            for photo_records, codes, data in zip(records, coded, recipe.data, strict=True)
        ]
        return cls(recipe, reader.words, net, reader, coded, photos)

    def data_summary(self) -> str:
        photos_of_data = zip(self.photos, self.recipe.data, strict=True)
        return ", ".join(f"{len(photos)} photos of {data.path}" for photos, data in photos_of_data)

    def batches(self, rank: int, ranks: int) -> AlignmentBatches:
        return AlignmentBatches(list(chain(*self.photos)), self.reader, self.recipe, rank, ranks)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {"all": build_optimizer(learning_parameters(self.net), self.recipe.optimizer)}

    def prepare_step(self, step: int) -> None:
        self.step = step
        self.net.train()

    def losses(self, batch: AlignmentBatch) -> dict[str, Tensor]:
        return self.ranking_losses(batch, *self.embed(self.net, batch))

    @staticmethod
    def embed(net: AlignmentNet, batch: AlignmentBatch) -> tuple[Tensor, Tensor]:
        """The vectors of the regions (K, R, h) and of all words (W, h)."""
        return net.regions(batch.codes.float()), net.read(batch.texts)

    def ranking_losses(
        self, batch: AlignmentBatch, vectors: Tensor, words: Tensor
    ) -> dict[str, Tensor]:
        config = self.recipe.losses
        scores = self.net.scores(vectors, batch.used, words, batch.texts.lengths).float()
        owners = torch.arange(len(scores), device=scores.device)  # a sentence of each photo
        if config.kind == "contrastive":
            losses = {"ranking": contrastive_loss(scores, owners, self.net.log_scale.exp())}
        else:
            hardest = config.hardest_from is not None and self.step >= config.hardest_from
            losses = {"ranking": margin_loss(scores, owners, config.margin, hardest)}
        if config.instance:
            of_words = torch.repeat_interleave(owners, batch.texts.lengths)
            losses["instance"] = instance_loss(vectors, words, batch.used, of_words)
        return losses

    def weight(self, name: str) -> float:
        return self.recipe.losses.instance if name == "instance" else 1.0

    def description(self) -> dict[str, Any]:
        codes = {"detector": self.coded[0].detector, "code": int(self.coded[0].codes.shape[2])}
        return super().description() | codes | {"relations": list(self.reader.relations)}

    def evaluate(
        self,
        net: AlignmentNet,
        device: torch.device,
        picture: Path,  # noqa: ARG002
        skip: Skip,  # noqa: ARG002
    ) -> dict[str, float]:
        """Ranking of the first data set's dev photos, evenly spaced."""
        dataset = Dataset(self.recipe.data[0].path, "dev")
        records = [
            dataset[number]
            for number in evenly_spaced(len(dataset), self.recipe.run.evaluate_photos)
        ]
        records = [record for record in records if record.image in self.coded[0].places]
        if not records:
            return {}
        trained = Trained(net, self.words, self.recipe, self.description() | {"step": self.step})
        return ranking_metrics(score_matrix(trained, self.reader, self.coded[0], records, device))


def _new_net(
    recipe: AlignmentRecipe, records: Sequence[Sequence[Record]], coded: Sequence[CodedPhotos]
) -> tuple[AlignmentRecipe, AlignmentNet, SentenceReader]:
    """The vocabulary from the training sentences, the word embedding from its file, and the recipe
    with its size."""
    every_record = chain.from_iterable(records)
    sentences = list(chain.from_iterable(record.sentences for record in every_record))
    words, table = _vocabulary(recipe, sentences)
    reader: SentenceReader = WordReader(words)
    if recipe.parses is not None:
        dev = list(
            chain.from_iterable(record.sentences for record in Dataset(recipe.data[0].path, "dev"))
        )
        parses = load_parses(Path(recipe.parses), [*sentences, *dev], words)
        reader = EdgeReader.build(words, sentences, parses)
    first = coded[0]
    net = new_net(recipe.net, first.codes.shape[2], words, table, len(reader.relations))
    if recipe.text_weights is not None and recipe.pieces is not None:
        _load_encoder(net, Path(recipe.text_weights), WordPieces.load(Path(recipe.pieces)))
    some = [records[0][number] for number in evenly_spaced(len(records[0]), PHOTOS_TO_STANDARDISE)]
    places = first.find(some, recipe.data[0].codes)
    net.regions.standardise(
        torch.from_numpy(first.codes[places][first.mask[places]].astype(np.float32))
    )  # (N, D)
    return replace(recipe, net=net.config), net, reader


def _vocabulary(
    recipe: AlignmentRecipe, sentences: Sequence[str]
) -> tuple[Vocabulary, Tensor | None]:
    """The vocabulary, and the vectors (tokens, e) that its words start from."""
    words = Vocabulary.build(sentences, SENTENCE_CLEANING, recipe.vocabulary.smallest_count)
    if recipe.text_weights is not None and recipe.pieces is not None:
        if recipe.more_words is not None:
            words = _with_more(words, read_word_list(Path(recipe.more_words)))
        pieces = WordPieces.load(Path(recipe.pieces))
        return words, bert_table(words, pieces, Path(recipe.text_weights))
    if recipe.word_vectors.path is None:
        return words, None
    vectors = read_word_vectors(Path(recipe.word_vectors.path))
    words = _with_more(words, list(vectors)[: recipe.word_vectors.more_words])
    return words, vector_table(words, vectors)


def _load_encoder(net: AlignmentNet, weights: Path, pieces: WordPieces) -> None:
    """Fills the sentence encoder from a BERT model's weights."""
    assert isinstance(net.words, WordVectors)
    assert isinstance(net.words.encoder, Bert)
    ends = [pieces.id(token) for token in SENTENCE_ENDS]
    load_text_tower(net.words.encoder.tower, weights, ends)


def _with_more(words: Vocabulary, more: Iterable[str]) -> Vocabulary:
    known = set(words.words)
    return replace(words, words=(*words.words, *(word for word in more if word not in known)))


def ranking_metrics(model: ScoreMatrix) -> dict[str, float]:
    result = evaluate_ranking([model])
    metrics = {}
    for direction in ("image_to_text", "text_to_image"):
        for name, value in result[direction].items():
            if name != "median_rank":
                metrics[f"{direction}_{name}"] = value
    return {"recall_sum": sum(metrics.values()), **metrics}
