"""The way from records to batches of two towers: photos, some of their boxes, and the texts that
belong to them.

A batch is a function of seed and step alone, as in `detector.batches`.

Letters: N photos, S pixels of a side, B boxes of a photo, K places (photos or regions) of a term, L
distinct texts, T tokens of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from regiontalk.errors import DataError, RegionTalkError
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.nets.alignment import Texts
from regiontalk.lab.nets.layers import STRIDE
from regiontalk.lab.training.detector.augmentation import View, random_view, random_zoom
from regiontalk.lab.training.detector.batches import Example, PhotoSource, Plan, load_any
from regiontalk.lab.training.loader import StepBatch
from regiontalk.lab.training.recipe.detector import AugmentationConfig
from regiontalk.lab.training.recipe.towers import ContrastiveRecipe, TextDataConfig
from regiontalk.language.vocabulary import breaks_when_mirrored, tells_position
from regiontalk.language.wordpiece import PAD, WordPieces, pad_together, split_words
from regiontalk.results import BoxXYXY

WHOLE = "whole"  # the type of a region that names the whole photo
EVERY_TYPE = "*"


@dataclass(frozen=True)
class Described:
    """A region, or the whole photo, with a text."""

    term: str
    """`sentences`, `phrases` or `names`."""
    xyxy: BoxXYXY | None
    """None: the whole photo."""
    text: str
    also: tuple[str, ...] = ()
    """Other texts that are right here too: they must not count as wrong."""


class Pairs(NamedTuple):
    """Places in photos, and texts of one term."""

    rows: Tensor  # (K,) among the N · B boxes of the batch
    texts: Texts  # L distinct ones, with START and END
    matches: Tensor  # (K, L) which of them are right


class TermPairs(NamedTuple):
    """The pairs of each term; None where a batch has none."""

    sentences: Pairs | None
    phrases: Pairs | None
    names: Pairs | None


@dataclass(frozen=True)
class TowersBatch(StepBatch):
    images: Tensor  # (N, 3, S, S) uint8
    boxes_xyxy: Tensor  # (N, B, 4); the first is the whole photo, missing ones are too
    pairs: TermPairs


@dataclass(frozen=True)
class Item:
    """A photo to learn from, and the described boxes that are in its view."""

    view: View  # with the boxes of `described` that have one
    described: Sequence[Described]
    name: str


def plain_text(text: str) -> str:
    """A text by which equal ones are known: lower case, single blanks."""
    return " ".join(text.lower().split())


def described_regions(record: Record, config: TextDataConfig) -> list[Described]:
    """The phrases and names of a record that the recipe asks for; boxes without area are left
    out."""
    described = []
    for region in record.regions:
        term = _term(region, config)
        text = plain_text(region.phrase)
        if term is None or not text or not _has_area(region):
            continue
        if region.type in config.without_position_words and tells_position(split_words(text)):
            continue
        box = None if region.type == WHOLE else region.xyxy
        described.append(Described(term, box, text, _also(region, record, term)))
    return described


def _also(region: TrueRegion, record: Record, term: str) -> tuple[str, ...]:
    """The other texts of a region: the everyday word of a name, other phrases on the same box."""
    if term == "names":
        return (plain_text(region.coarse),) if region.coarse else ()
    return tuple(plain_text(other.phrase) for other in record.regions if other.xyxy == region.xyxy)


def _term(region: TrueRegion, config: TextDataConfig) -> str | None:
    if region.type in config.names:
        return "names"
    is_phrase = EVERY_TYPE in config.phrases or region.type in config.phrases
    return "phrases" if is_phrase else None


def _has_area(region: TrueRegion) -> bool:
    x0, y0, x1, y1 = region.xyxy
    return x1 - x0 >= 1 and y1 - y0 >= 1


class TextSource(PhotoSource):
    """One data set of the mixture: the records that have a text to learn."""

    def __init__(self, config: TextDataConfig) -> None:
        self.config: TextDataConfig = config
        super().__init__(Dataset(config.path, "train"), self._has_texts)
        if not len(self):
            raise DataError(f"{config.path}: no train photo with a text to learn")

    def _has_texts(self, record: Record) -> bool:
        if self.config.sentences and any(map(plain_text, record.sentences)):
            return True
        is_enough = not self.config.require_sentences
        return is_enough and bool(described_regions(record, self.config))

    def draw(self, record: Record, most: int, random: np.random.Generator) -> list[Described]:
        """One of the photo's sentences, and at most so many of its phrases and of its names."""
        drawn = []
        sentences = [*filter(None, map(plain_text, record.sentences))]
        if self.config.sentences and sentences:
            sentence = sentences[int(random.integers(len(sentences)))]
            drawn.append(Described("sentences", None, sentence, tuple(sentences)))
        regions = described_regions(record, self.config)
        for term in ("phrases", "names"):
            of_term = [described for described in regions if described.term == term]
            order = random.permutation(len(of_term))[:most].tolist()
            drawn += [of_term[index] for index in order]
        return drawn


@dataclass(frozen=True)
class TowersBatches:
    """Step -> batch. Rank r of several takes every `ranks`-th photo of it, and its negatives are
    those of its own share."""

    plan: Plan[TextSource]
    pieces: WordPieces
    recipe: ContrastiveRecipe
    rank: int = 0
    ranks: int = 1

    def __len__(self) -> int:
        return self.plan.steps

    def __getitem__(self, step: int) -> TowersBatch | RegionTalkError:
        examples = self.plan.examples(step)[self.rank :: self.ranks]
        side = self._side(step)
        skipped: list[str] = []
        try:
            items = [self._load_any(example, side, skipped) for example in examples]
        except RegionTalkError as error:
            return error  # raised by `load_batches`, outside the worker process
        return collate(items, self.pieces, self.recipe.run.longest, tuple(skipped))

    def _side(self, step: int) -> int:
        """The side to which the photos of a batch are stretched, before they are cropped."""
        random = np.random.default_rng([self.plan.seed, step, 2])
        zoom = random_zoom(self.augmentation, random)
        return max(round(self.recipe.net.input_size * zoom / STRIDE), 1) * STRIDE

    @property
    def augmentation(self) -> AugmentationConfig:
        return self.recipe.augmentation

    def _load_any(self, example: Example, side: int, skipped: list[str]) -> Item:
        count = len(self.plan.sources[example.source])
        return load_any(example, count, lambda other: self._load(other, side), skipped)

    def _load(self, example: Example, side: int) -> Item:
        source = self.plan.sources[example.source]
        record = source.record(example.number)
        photo = source.photo(example.number)
        random = np.random.default_rng(example.seed)
        drawn = source.draw(record, self.recipe.run.per_photo, random)
        may_flip = not any(breaks_when_mirrored(split_words(text.text)) for text in drawn)
        boxes = [text.xyxy for text in drawn if text.xyxy is not None]
        factors = np.array([photo.width / record.width, photo.height / record.height] * 2)
        view = random_view(
            photo,
            np.array(boxes, dtype=np.float64).reshape(-1, 4) * factors,
            self.recipe.net.input_size,
            may_flip,
            self.augmentation,
            random,
            (side, side),
        )
        return _without_lost_boxes(view, drawn, record.image)


def _without_lost_boxes(view: View, drawn: Sequence[Described], name: str) -> Item:
    """The item without the boxes that the view has cropped away."""
    kept = iter(view.kept.tolist())
    described = [text for text in drawn if text.xyxy is None or next(kept)]
    boxes = view.boxes_xyxy[view.kept]
    return Item(View(view.pixels, boxes, np.ones(len(boxes), dtype=bool)), described, name)


def collate(
    items: Sequence[Item], pieces: WordPieces, longest: int, skipped: tuple[str, ...] = ()
) -> TowersBatch:
    """The batch of photos of one size."""
    pixels = np.stack([item.view.pixels for item in items])  # (N, S, S, 3)
    height, width = pixels.shape[1:3]
    most = 1 + max(len(item.view.boxes_xyxy) for item in items)
    boxes = np.zeros((len(items), most, 4), dtype=np.float32)
    boxes[...] = (0, 0, width, height)
    for row, item in enumerate(items):
        boxes[row, 1 : 1 + len(item.view.boxes_xyxy)] = item.view.boxes_xyxy
    pairs = [
        _pairs(list(_places(items, term, most)), pieces, longest) for term in TermPairs._fields
    ]
    return TowersBatch(
        images=torch.from_numpy(pixels).permute(0, 3, 1, 2),
        boxes_xyxy=torch.from_numpy(boxes),
        pairs=TermPairs(*pairs),
        names=tuple(item.name for item in items),
        skipped=skipped,
    )


def _places(items: Sequence[Item], term: str, boxes: int) -> Iterator[tuple[int, Described]]:
    """The described places of a term, each with its row among all boxes."""
    for number, item in enumerate(items):
        box = 0
        for described in item.described:
            box += described.xyxy is not None
            if described.term == term:
                yield number * boxes + (0 if described.xyxy is None else box), described


def _pairs(
    places: Sequence[tuple[int, Described]], pieces: WordPieces, longest: int
) -> Pairs | None:
    if not places:
        return None
    texts = list(dict.fromkeys(described.text for _, described in places))
    columns = {text: column for column, text in enumerate(texts)}
    matches = torch.zeros(len(places), len(texts), dtype=torch.bool)
    for row, (_, described) in enumerate(places):
        for text in chain([described.text], described.also):
            if text in columns:
                matches[row, columns[text]] = True
    rows = torch.tensor([row for row, _ in places])
    return Pairs(rows, encode_texts(texts, pieces, longest), matches)


def encode_texts(texts: Sequence[str], pieces: WordPieces, longest: int) -> Texts:
    """Texts as padded tokens."""
    encoded = [pieces.encode(text, longest) for text in texts]
    lengths = torch.tensor([len(ids) for ids in encoded])
    return Texts(torch.tensor(pad_together(encoded, pieces.id(PAD))), lengths)
