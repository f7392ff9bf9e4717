"""Training the alignment nets on cached region codes: data, nets and losses put together for the engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regiontalk.codes.store import CodedPhotos
from regiontalk.data.records import Dataset, Record, epoch_order, evenly_spaced
from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.evaluation.ranking import ScoreMatrix, evaluate_ranking
from regiontalk.nets.alignment import ENCODERS, SCORES, AlignmentConfig, AlignmentNet, Texts
from regiontalk.nets.fragments import instance_loss
from regiontalk.training.checkpoints import fill_net, read_state, read_tensors
from regiontalk.training.heads.ranking_losses import contrastive_loss, margin_loss
from regiontalk.training.heads.sentence_encoding import (
    EdgeReader,
    Reader,
    Sentence,
    WordReader,
    begin_words,
    load_parses,
    read_word_vectors,
    vector_table,
)
from regiontalk.training.optimizers import build_optimizer
from regiontalk.training.recipe import (
    OPTIMIZERS,
    CodedDataConfig,
    OptimizerConfig,
    RunConfig,
    ScheduleConfig,
    SentenceVocabularyConfig,
    check_at_least_one,
    check_choice,
    check_shared,
    from_stored,
    to_dict,
)
from regiontalk.vocabulary import Vocabulary

METRICS = (
    "recall_sum",
    *("image_to_text_r1", "image_to_text_r5", "image_to_text_r10"),
    *("text_to_image_r1", "text_to_image_r5", "text_to_image_r10"),
)
PHOTOS_AT_ONCE = 16  # whose products with all words are in memory together when scores are computed
SENTENCES_AT_ONCE = 500
PHOTOS_TO_STANDARDISE = 500


@dataclass(frozen=True)
class WordVectorsConfig:
    path: str | None = None
    """An .npz with `words` and `vectors`, which words begin with; none: they are learned."""
    more_words: int = 0
    """So many of the file's first words are known too, not only those that the training sentences have often enough."""


@dataclass(frozen=True)
class AlignmentLossConfig:
    """K&FF 3.1.3; the defaults are the paper's."""

    kind: str = "margin"
    """`margin`: eq. 9. Differs from the paper: `contrastive`, cross entropy with a learned temperature."""
    margin: float = 1.0
    hardest_from: int | None = None
    """Differs from the paper: from this step on only the worst mistake of each sum in eq. 9 counts. From the first
    step on the net would collapse."""
    instance: float = 0.0
    """Weight of the multiple-instance term that eq. 7 needs."""


@dataclass(frozen=True)
class AlignmentRecipe:
    """Everything about a training run of an alignment net."""

    run: RunConfig
    data: tuple[CodedDataConfig, ...]
    kind: str = "alignment"
    net: AlignmentConfig = field(default_factory=AlignmentConfig)
    vocabulary: SentenceVocabularyConfig = field(default_factory=SentenceVocabularyConfig)
    word_vectors: WordVectorsConfig = field(default_factory=WordVectorsConfig)
    sentences_per_photo: int = 1
    """Sentences of each photo of a batch; the paper pairs each with one."""
    parses: str | None = None
    """A file that keeps dependency trees; made when it is not there. For `net.words = "edges"`."""
    losses: AlignmentLossConfig = field(default_factory=AlignmentLossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)

    def check(self, place: str) -> None:
        check_shared(self, METRICS, place)
        check_choice(place, "net.words", self.net.words, ENCODERS)
        check_choice(place, "net.score", self.net.score, SCORES)
        if self.net.weigh_words and (self.net.score != "cosine" or self.net.words == "edges"):
            raise UsageError(f'{place}: net.weigh_words belongs to net.score = "cosine", and not to edges')
        check_choice(place, "losses.kind", self.losses.kind, ("margin", "contrastive"))
        check_choice(place, "vocabulary.cleaning", self.vocabulary.cleaning, ("karpathy",))
        check_choice(place, "optimizer.kind", self.optimizer.kind, OPTIMIZERS)
        check_at_least_one(place, "sentences_per_photo", self.sentences_per_photo)
        if not self.data:
            raise UsageError(f"{place}: no [[data]] set")
        if (self.net.words == "edges") != (self.parses is not None):
            raise UsageError(f'{place}: parses belong to net.words = "edges", and to nothing else')
        if self.word_vectors.path is None and not self.net.train_embedding:
            raise UsageError(f"{place}: without word_vectors.path, net.train_embedding must be true")


@dataclass(frozen=True)
class Pairs:
    """Photos with their sentences: where each photo stands in the codes, and its sentences as numbers."""

    coded: CodedPhotos
    places: NDArray[np.int64]
    sentences: tuple[tuple[Sentence, ...], ...]

    def __len__(self) -> int:
        return len(self.places)

    @classmethod
    def read(cls, records: Sequence[Record], coded: CodedPhotos, reader: Reader, place: str) -> Pairs:
        """The photos that have a sentence with something to read in it."""
        sentences = [tuple(filter(len, map(reader.read, record.sentences))) for record in records]
        kept = [number for number, own in enumerate(sentences) if own]
        places = coded.find([records[number] for number in kept], place)
        return cls(coded, places, tuple(sentences[number] for number in kept))


@dataclass(frozen=True)
class AlignmentBatch:
    codes: Tensor  # (K, R, D) float16
    used: Tensor  # (K, R)
    texts: Texts
    owners: Tensor  # (L,) the photo of each sentence
    names: tuple[str, ...]

    def to(self, device: torch.device) -> AlignmentBatch:
        moved = {name: getattr(self, name).to(device) for name in ("codes", "used", "texts", "owners")}
        return replace(self, **moved)


class AlignmentBatches:
    """Step -> batch: photos in a new order every epoch, each with some of its sentences. Rank r of several takes
    every `ranks`-th photo, and its negatives are those of its own share."""

    def __init__(self, pairs: Sequence[Pairs], reader: Reader, recipe: AlignmentRecipe, rank: int, ranks: int) -> None:
        self.pairs, self.reader, self.run, self.rank, self.ranks = pairs, reader, recipe.run, rank, ranks
        self.per_photo = recipe.sentences_per_photo
        self.photos = [(source, number) for source, own in enumerate(pairs) for number in range(len(own))]
        if len(self.photos) < recipe.run.batch:
            raise DataError(f"{len(self.photos)} photos with sentences cannot fill a batch of {recipe.run.batch}")

    def __len__(self) -> int:
        return self.run.steps

    def __getitem__(self, step: int) -> AlignmentBatch:
        steps = len(self.photos) // self.run.batch  # of an epoch: no photo stands in a batch twice
        epoch, position = divmod(step, steps)
        order = epoch_order(len(self.photos), self.run.seed, epoch)[position * self.run.batch :][: self.run.batch]
        chosen = [self.photos[number] for number in order[self.rank :: self.ranks].tolist()]
        random = np.random.default_rng([self.run.seed, step, self.rank])
        sentences: list[Sentence] = []
        owners: list[int] = []
        for owner, (source, number) in enumerate(chosen):
            own = self.pairs[source].sentences[number]
            picked = random.permutation(len(own))[: self.per_photo]
            sentences += [own[place] for place in picked]
            owners += [owner] * len(picked)
        return self._batch(chosen, self.reader.stack(sentences), torch.tensor(owners))

    def _batch(self, chosen: Sequence[tuple[int, int]], texts: Texts, owners: Tensor) -> AlignmentBatch:
        places = [(self.pairs[source].coded, int(self.pairs[source].places[number])) for source, number in chosen]
        return AlignmentBatch(
            torch.from_numpy(np.stack([coded.codes[place] for coded, place in places])),
            torch.from_numpy(np.stack([coded.mask[place] for coded, place in places])),
            texts,
            owners,
            tuple(coded.names[place] for coded, place in places),
        )


@dataclass
class AlignmentTask:
    """What the engine needs to know of an alignment net."""

    recipe: AlignmentRecipe
    words: Vocabulary
    reader: Reader
    net: AlignmentNet
    coded: list[CodedPhotos]
    pairs: list[Pairs]
    step: int = 0

    recipe_class: ClassVar[type[AlignmentRecipe]] = AlignmentRecipe
    lower_is_better: ClassVar[Collection[str]] = ()

    @classmethod
    def begin(cls, recipe: AlignmentRecipe) -> AlignmentTask:
        """A new run: the vocabulary from the training sentences, word vectors from their file."""
        coded = [CodedPhotos.load(Path(data.codes), surroundings=False) for data in recipe.data]
        if len({one.detector for one in coded}) > 1:
            raise UsageError("the data sets' codes are of different detectors")
        records = [list(Dataset(data.path, "train")) for data in recipe.data]
        sentences = [sentence for own in records for record in own for sentence in record.sentences]
        words, table = _vocabulary(recipe, sentences)
        reader: Reader = WordReader(words)
        if recipe.parses is not None:
            dev = [sentence for record in Dataset(recipe.data[0].path, "dev") for sentence in record.sentences]
            parses = load_parses(Path(recipe.parses), [*sentences, *dev], words)
            reader = EdgeReader.build(words, sentences, parses)
        torch.manual_seed(recipe.run.seed)
        net = build_net(recipe, coded[0].codes.shape[2], words, reader, table)
        net.regions.standardise(torch.from_numpy(_some_codes(coded[0], records[0], recipe.data[0].codes)))
        pairs = [
            Pairs.read(own, codes, reader, data.codes)
            for own, codes, data in zip(records, coded, recipe.data, strict=True)
        ]
        return cls(recipe, words, reader, net, coded, pairs)

    def summary(self) -> str:
        weights = sum(parameter.numel() for parameter in self.net.parameters() if parameter.requires_grad)
        photos = ", ".join(
            f"{len(own)} photos of {data.path}" for own, data in zip(self.pairs, self.recipe.data, strict=True)
        )
        return f"{weights / 1e6:.1f} M weights, {len(self.words)} words, {photos}"

    def batches(self, rank: int, ranks: int) -> AlignmentBatches:
        return AlignmentBatches(self.pairs, self.reader, self.recipe, rank, ranks)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        learning = [(name, weight) for name, weight in self.net.named_parameters() if weight.requires_grad]
        return {"all": build_optimizer(learning, self.recipe.optimizer)}

    def prepare_step(self, step: int) -> None:
        self.step = step
        self.net.train()

    def losses(self, batch: AlignmentBatch) -> dict[str, Tensor]:
        config = self.recipe.losses
        vectors, words = self.net.regions(batch.codes.float()), self.net.read(batch.texts)
        scores = self.net.scores(vectors, batch.used, words, batch.texts.lengths).float()
        if config.kind == "contrastive":
            losses = {"ranking": contrastive_loss(scores, batch.owners, self.net.log_scale.exp())}
        else:
            hardest = config.hardest_from is not None and self.step >= config.hardest_from
            losses = {"ranking": margin_loss(scores, batch.owners, config.margin, hardest)}
        if config.instance:
            owners = torch.repeat_interleave(batch.owners, batch.texts.lengths)
            losses["instance"] = instance_loss(vectors, words, batch.used, owners)
        return losses

    def weight(self, name: str) -> float:
        return self.recipe.losses.instance if name == "instance" else 1.0

    def description(self) -> dict[str, Any]:
        """What a checkpoint must say to be read again."""
        relations = list(self.reader.relations) if isinstance(self.reader, EdgeReader) else []
        return {
            "kind": "alignment",
            "recipe": to_dict(self.recipe),
            "vocabulary": self.words.to_dict(),
            "detector": self.coded[0].detector,
            "code": int(self.coded[0].codes.shape[2]),
            "relations": relations,
        }

    def evaluate(self, net: nn.Module, device: torch.device, folder: Path, step: int) -> dict[str, float]:  # noqa: ARG002
        """Ranking of the first data set's dev photos, evenly spread."""
        dataset = Dataset(self.recipe.data[0].path, "dev")
        records = [dataset[number] for number in evenly_spaced(len(dataset), self.recipe.run.evaluate_photos)]
        records = [record for record in records if record.image in self.coded[0].places]
        if not records:
            return {}
        assert isinstance(net, AlignmentNet)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.recipe.run.precision == "bfloat16"):
            return ranking_metrics(score_matrix(net, self.reader, self.coded[0], records, device))


def _some_codes(coded: CodedPhotos, records: Sequence[Record], place: str) -> NDArray[np.float32]:
    """(N, D) the codes of photos that are evenly spread over the records."""
    chosen = coded.find([records[number] for number in evenly_spaced(len(records), PHOTOS_TO_STANDARDISE)], place)
    return coded.codes[chosen][coded.mask[chosen]].astype(np.float32)


def _vocabulary(recipe: AlignmentRecipe, sentences: Sequence[str]) -> tuple[Vocabulary, Tensor | None]:
    """The words, and the vectors they begin with."""
    words = Vocabulary.build(sentences, recipe.vocabulary.cleaning, recipe.vocabulary.smallest_count)
    if recipe.word_vectors.path is None:
        return words, None
    vectors = read_word_vectors(Path(recipe.word_vectors.path))
    known = set(words.words)
    more = (word for word in list(vectors)[: recipe.word_vectors.more_words] if word not in known)
    words = replace(words, words=(*words.words, *more))
    return words, vector_table(words, vectors)


def build_net(
    recipe: AlignmentRecipe, code: int, words: Vocabulary, reader: Reader, table: Tensor | None
) -> AlignmentNet:
    """A net with its first weights; `table` (tokens, e) is where words begin."""
    config = recipe.net if table is None else replace(recipe.net, embedding=table.shape[1])
    relations = len(reader.relations) if isinstance(reader, EdgeReader) else 0
    net = AlignmentNet(config, code, len(words), relations)
    if table is not None:
        begin_words(net, table)
    return net


def load_alignment(
    checkpoint: Path, device: torch.device, sentences: Sequence[str] = ()
) -> tuple[AlignmentNet, Vocabulary, Reader, dict[str, Any]]:
    """The net of a checkpoint ready for use, what reads `sentences` for it, and the checkpoint's state."""
    state = read_state(checkpoint)
    if state["kind"] != "alignment":
        raise ModelError(f"{checkpoint}: a checkpoint of kind {state['kind']!r}, not alignment")
    recipe = from_stored(AlignmentRecipe, state["recipe"], str(checkpoint))
    words = Vocabulary.from_dict(state["vocabulary"])
    reader: Reader = WordReader(words)
    if recipe.parses is not None:
        reader = EdgeReader(words, tuple(state["relations"]), load_parses(Path(recipe.parses), sentences, words))
    name = "mean" if (checkpoint / "mean.safetensors").exists() else "model"
    values = read_tensors(checkpoint, name)
    net = build_net(recipe, state["code"], words, reader, values["words.table.weight"])
    fill_net(net, values, checkpoint)
    return net.to(device).eval(), words, reader, state


@torch.no_grad()
def score_matrix(
    net: AlignmentNet, reader: Reader, coded: CodedPhotos, records: Sequence[Record], device: torch.device
) -> ScoreMatrix:
    """The score of every photo with every sentence. A sentence with nothing to read in it scores 0 everywhere."""
    places = coded.find(records, "codes")
    sentences = [reader.read(sentence) for record in records for sentence in record.sentences]
    owners = np.repeat(np.arange(len(records)), [len(record.sentences) for record in records])
    parts = [
        reader.stack(sentences[start : start + SENTENCES_AT_ONCE]).to(device)
        for start in range(0, len(sentences), SENTENCES_AT_ONCE)
    ]
    words = [net.read(texts) for texts in parts]
    rows = []
    for start in range(0, len(places), PHOTOS_AT_ONCE):
        chosen = places[start : start + PHOTOS_AT_ONCE]
        vectors = net.regions(torch.from_numpy(coded.codes[chosen]).float().to(device))
        used = torch.from_numpy(coded.mask[chosen]).to(device)
        scores = [net.scores(vectors, used, read, texts.lengths) for read, texts in zip(words, parts, strict=True)]
        rows.append(torch.cat(scores, dim=1).float().cpu().numpy())
    return ScoreMatrix(np.concatenate(rows), owners)


def ranking_metrics(model: ScoreMatrix) -> dict[str, float]:
    result = evaluate_ranking([model])
    metrics = {
        f"{name}_r{cut}": value
        for name, direction in (("image_to_text", result.image_to_text), ("text_to_image", result.text_to_image))
        for cut, value in zip((1, 5, 10), direction.recall, strict=True)
    }
    return {"recall_sum": sum(metrics.values()), **metrics}
