"""The way from records to batches: which photos are in which batch, and how they become tensors.

A batch is a function of seed and step alone, so a run can resume at any step, and any number of
workers or processes sees the same photos.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from regiontalk.errors import DataError, RegionTalkError
from regiontalk.images.photo import open_photo, pad_together, resized_size
from regiontalk.lab.data.records import Dataset, Record, TrueRegion, epoch_order
from regiontalk.lab.data.region_files import ScoredBoxes, read_region_file
from regiontalk.lab.nets.localization import Proposals
from regiontalk.lab.training.detector.augmentation import (
    View,
    plain_view,
    quarter,
    random_view,
    random_zoom,
)
from regiontalk.lab.training.detector.photo_cache import PhotoCache
from regiontalk.lab.training.detector.photo_sentences import SentencePicker, Sentences
from regiontalk.lab.training.detector.targets import Truths
from regiontalk.lab.training.loader import StepBatch
from regiontalk.lab.training.recipe.detector import AugmentationConfig, DataConfig
from regiontalk.language import vocabulary as text
from regiontalk.language.articles import with_article
from regiontalk.language.vocabulary import END, LENGTH_STYLE, Vocabulary

Loaded = TypeVar("Loaded")

MOST_BROKEN = 20  # photos in a row that cannot be read: then it is not the photos
MOST_STRETCH = 1.15  # how much the shape of a photo may change so that it fills its batch's
MOST_WEIGHT = 4.0  # of a rare name's caption; that of a common one is no less than 1 / 4
# Batches whose photos are sorted by shape together, so that little is padding.
BATCHES_SORTED_TOGETHER = 16


class Share(Protocol):
    """How much of the mixture a data set is: a `[[data]]` of a recipe."""

    @property
    def share(self) -> float: ...
    @property
    def share_at_end(self) -> float | None: ...


@dataclass(frozen=True)
class Example:
    """One photo's place in the training order: data set, record, and the seed of its
    augmentation."""

    source: int
    number: int
    seed: int


@dataclass(frozen=True)
class Batch(StepBatch):
    images: Tensor  # (N, 3, H, W) uint8, padded at right and bottom
    sizes: Tensor  # (N, 2) width and height of the photo inside
    truths: Truths
    seeds: tuple[int, ...]  # N numbers, of the photos' sampling
    sentences: Sentences | None = None
    proposals: Proposals | None = None
    """The proposals of the data set's file, where a net finds none itself."""


@dataclass(frozen=True)
class Phrase:
    """A region to learn from: its box, its words, and the style of its text."""

    xyxy: tuple[float, float, float, float]
    words: tuple[str, ...]
    style: str
    is_name: bool = False
    """A bare name that got an article, not what someone wrote of the region."""


def usable_phrases(record: Record, config: DataConfig, cleaning: str) -> list[Phrase]:
    """The regions of a record that the recipe asks for, cleaned; boxes without area are left
    out."""
    clean = text.CLEANING[cleaning]
    phrases = []
    whole = (0.0, 0.0, float(record.width), float(record.height))
    regions = (
        [TrueRegion(whole, sentence) for sentence in record.sentences]
        if config.whole_photos
        else record.regions
    )
    for region in regions:
        kind = region.type or "*"
        everyday = region.coarse if config.everyday_names else None
        words = clean(everyday or region.phrase)
        if not words:
            continue
        style = config.styles.get(
            f"{kind}:{' '.join(words)}", config.styles.get(kind, config.styles.get("*"))
        )
        if style is None:
            continue
        if style in config.without_position_words and text.tells_position(words):
            continue
        is_name = kind in config.articles
        if is_name:
            words = with_article(words)
        x0, y0, x1, y1 = region.xyxy
        box = (
            max(x0, 0.0),
            max(y0, 0.0),
            min(x1, float(record.width)),
            min(y1, float(record.height)),
        )
        if box[2] - box[0] >= 1 and box[3] - box[1] >= 1:
            phrases.append(Phrase(box, tuple(words), style, is_name))
    return phrases


class Scene(NamedTuple):
    """A photo of a data set, or four of them in one, before it is augmented."""

    photo: Image.Image
    phrases: list[Phrase]
    phrase_boxes_xyxy: NDArray[np.floating]  # (P, 4) in the photo's pixels
    proposal_boxes_xyxy: NDArray[np.floating]  # (K, 4)


@dataclass(frozen=True)
class Item:
    """A photo to learn from."""

    view: View  # with the boxes of its phrases, and then those of its proposals
    phrases: list[Phrase]
    weights: list[float]  # how much the caption of each phrase counts
    seed: int  # of its sampling
    name: str
    sentences: list[list[str]]  # of the whole photo, as words

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which phrases are in the view."""
        return self.view.kept[: len(self.phrases)]


def name_weights(phrases: Iterable[Phrase], power: float) -> dict[tuple[str, ...], float]:
    """How much the caption of each name counts (`data.balance_names`); none where all count the
    same."""
    if not power:
        return {}
    counts = Counter(phrase.words for phrase in phrases if phrase.is_name)
    mean = counts.total() / max(len(counts), 1)
    return {
        words: min(max((mean / count) ** power, 1 / MOST_WEIGHT), MOST_WEIGHT)
        for words, count in counts.items()
    }


class PhotoSource:
    """The photos of one data set of a mixture, of which some records are used."""

    config: Share

    def __init__(self, dataset: Dataset, is_used: Callable[[Record], bool]) -> None:
        self.dataset = dataset
        self.cache: PhotoCache | None = None
        numbers = []
        sizes = []
        for number, record in enumerate(dataset):
            if is_used(record):
                numbers.append(number)
                sizes.append((record.width, record.height))
        self.numbers = np.array(numbers, dtype=np.int64)
        self.sizes: NDArray[Any] = np.array(sizes).reshape(-1, 2)  # width and height
        self.shapes = self.sizes[:, 0] / self.sizes[:, 1]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Record]:
        return (self.record(number) for number in range(len(self)))

    def record(self, number: int) -> Record:
        return self.dataset[int(self.numbers[number])]

    def remember_photos(self, long_side: int) -> None:
        """Keeps opened photos in memory, reduced to `long_side` at most."""
        self.cache = PhotoCache(self.sizes.tolist(), long_side)

    def photo(self, number: int) -> Image.Image:
        """A photo, perhaps reduced; an error names it."""
        record = self.record(number)

        def decode() -> Image.Image:
            return open_photo(self.dataset.read_photo(record))

        try:
            return decode() if self.cache is None else self.cache.get(number, decode)
        except RegionTalkError as error:
            raise DataError(f"{self.dataset.folder}: {record.image}: {error.message}") from error


SourceOf = TypeVar("SourceOf", bound=PhotoSource)


class Source(PhotoSource):
    """One data set of the mixture: the records that have something to learn from."""

    def __init__(self, config: DataConfig, split: str, cleaning: str) -> None:
        self.config: DataConfig = config
        self.cleaning = cleaning
        super().__init__(
            Dataset(config.path, split),
            lambda record: bool(usable_phrases(record, config, cleaning)),
        )
        if not len(self):
            raise DataError(f"{config.path}: no {split} photo with a usable phrase")
        self.name_weights = self._name_weights()
        self.proposals: dict[str, ScoredBoxes] | None = None
        if config.proposals is not None:
            self.proposals = read_region_file(Path(config.proposals), self)

    def phrases(self, record: Record) -> list[Phrase]:
        return usable_phrases(record, self.config, self.cleaning)

    def _name_weights(self) -> dict[tuple[str, ...], float]:
        return name_weights(self._every_phrase(), self.config.balance_names)

    def _every_phrase(self) -> Iterator[Phrase]:
        return chain.from_iterable(map(self.phrases, self))

    def weights(self, phrases: Sequence[Phrase]) -> list[float]:
        """How much the caption of each phrase counts."""
        return [
            self.name_weights.get(phrase.words, 1.0) if phrase.is_name else 1.0
            for phrase in phrases
        ]

    def proposals_xyxy(self, record: Record) -> NDArray[np.float64]:
        """(K, 4) the proposals of the data set's file; none where it has no file."""
        return (
            np.zeros((0, 4)) if self.proposals is None else self.proposals[record.image].boxes_xyxy
        )

    def texts(self) -> Iterator[str]:
        return (" ".join(phrase.words) for phrase in self._every_phrase())

    def scene(self, number: int) -> Scene:
        """A photo with its phrases and proposals; an error names the photo."""
        record = self.record(number)
        photo = self.photo(number)
        phrases = self.phrases(record)
        factors = np.array([photo.width / record.width, photo.height / record.height] * 2)
        boxes = np.array([phrase.xyxy for phrase in phrases]) * factors
        return Scene(photo, phrases, boxes, self.proposals_xyxy(record) * factors)

    def mosaic(self, numbers: Sequence[int], size: tuple[int, int]) -> Scene:
        """Four photos in the quarters of one of such width and height. Phrases that say where a
        thing is in its photo are left out."""
        scenes = [self.scene(number) for number in numbers]
        canvas, quarters = quarter([scene.photo for scene in scenes], size)
        phrases: list[Phrase] = []
        phrase_boxes = []
        proposal_boxes = []
        for scene, place in zip(scenes, quarters, strict=True):
            kept = [
                n for n, phrase in enumerate(scene.phrases) if not text.tells_position(phrase.words)
            ]
            phrases += [scene.phrases[n] for n in kept]
            phrase_boxes.append(place.boxes(scene.phrase_boxes_xyxy[kept]))
            proposal_boxes.append(place.boxes(scene.proposal_boxes_xyxy))
        return Scene(canvas, phrases, np.concatenate(phrase_boxes), np.concatenate(proposal_boxes))


class Plan(Generic[SourceOf]):
    """Which examples each step learns from: shares of the data sets, a fresh shuffle per epoch of
    each."""

    def __init__(
        self,
        sources: Sequence[SourceOf],
        steps: int,
        batch: int,
        seed: int,
        sorted_together: int = BATCHES_SORTED_TOGETHER,
    ) -> None:
        """Photos of `sorted_together` batches are sorted by shape; 1: batches are random."""
        self.sources = sources
        self.steps = steps
        self.batch = batch
        self.seed = seed
        # within an epoch of every data set: else the same photo, sorted by shape, would fill a
        # batch
        self.window = max(1, min(sorted_together, *(len(source) // batch for source in sources)))
        shares = [source.config for source in sources]
        self.counts = share_counts(shares, steps, batch)  # (steps, sources)
        self.before = np.concatenate(
            [np.zeros((1, len(sources)), dtype=np.int64), np.cumsum(self.counts, axis=0)]
        )

    def examples(self, step: int) -> list[Example]:
        """The examples of one step; photos of like shape are together."""
        first = step - step % self.window
        last = min(first + self.window, self.steps)
        window = list(chain.from_iterable(map(self._unsorted, range(first, last))))
        window.sort(
            key=lambda e: (self.sources[e.source].shapes[e.number], e.source, e.number, e.seed)
        )
        turn = np.random.default_rng([self.seed, first, 1]).permutation(last - first)[step - first]
        return window[int(turn) * self.batch : (int(turn) + 1) * self.batch]

    def _unsorted(self, step: int) -> Iterator[Example]:
        for source, count in enumerate(self.counts[step]):
            for place in range(
                int(self.before[step, source]), int(self.before[step, source] + count)
            ):
                epoch, position = divmod(place, len(self.sources[source]))
                order = epoch_order(len(self.sources[source]), self.seed + 7919 * source, epoch)
                seed = int(np.random.default_rng([self.seed, source, place]).integers(2**62))
                yield Example(source, int(order[position]), seed)


def share_counts(configs: Sequence[Share], steps: int, batch: int) -> NDArray[np.int64]:
    """How many photos of a batch come from each data set, (steps, sources): the shares, rounded
    over time."""
    ratio = np.linspace(0, 1, steps)[:, None]
    start = np.array([config.share for config in configs])
    end = np.array(
        [config.share if config.share_at_end is None else config.share_at_end for config in configs]
    )
    shares = start + (end - start) * ratio
    wanted = shares / shares.sum(axis=1, keepdims=True) * batch
    if len(configs) == 1:
        return np.full((steps, 1), batch, dtype=np.int64)
    counts = np.zeros((steps, len(configs)), dtype=np.int64)
    owed = np.zeros(len(configs))
    for step in range(steps):
        owed += wanted[step]
        for _ in range(batch):
            most = int(owed.argmax())  # the data set that is furthest behind its share is next
            owed[most] -= 1
            counts[step, most] += 1
    return counts


def load_any(
    example: Example, count: int, load: Callable[[Example], Loaded], skipped: list[str]
) -> Loaded:
    """The example, or if its photo cannot be read, another of the `count` of its data set, which
    the example's seed decides; `skipped` gets a line for each that cannot."""
    random = np.random.default_rng([example.seed, 2])
    for _ in range(MOST_BROKEN):
        try:
            return load(example)
        except RegionTalkError as error:
            broken = error
            skipped.append(error.message)
            example = replace(example, number=int(random.integers(count)))
    raise broken


@dataclass(frozen=True)
class TrainingBatches:
    """Step -> batch. Rank r of several takes every `ranks`-th photo of it."""

    plan: Plan[Source]
    words: Vocabulary
    long_side: int
    pad_to: int
    augmentation: AugmentationConfig
    rank: int = 0
    ranks: int = 1
    picker: SentencePicker | None = None

    def __len__(self) -> int:
        return self.plan.steps

    def __getitem__(self, step: int) -> Batch | RegionTalkError:
        examples = self.plan.examples(step)
        sizes = self._sizes(examples, step)
        mine = range(self.rank, len(examples), self.ranks)
        skipped: list[str] = []
        try:
            items = [self._load_any(examples[n], sizes[n], skipped) for n in mine]
            batch = collate(items, self.words, self.pad_to)
        except RegionTalkError as error:
            return error  # raised by `load_batches`, outside the worker process
        picked = (
            None if self.picker is None else self.picker.collate([item.sentences for item in items])
        )
        return replace(batch, sentences=picked, skipped=tuple(skipped))

    def _load_any(self, example: Example, size: tuple[int, int] | None, skipped: list[str]) -> Item:
        """The example, or another photo of its data set, which has a size of its own."""
        return load_any(
            example,
            len(self.plan.sources[example.source]),
            lambda other: self._load(other, size if other is example else None),
            skipped,
        )

    def _sizes(self, examples: Sequence[Example], step: int) -> list[tuple[int, int] | None]:
        """The width and height that photos get before they are cropped; None where a photo's zoom
        is its own.

        Photos of a batch have much the same shape. Stretched to one, nothing is padding: no time is
        lost on it, and a transformer needs no mask.
        """
        if not self.augmentation.zoom_by_batch:
            return [None] * len(examples)
        sizes = np.stack(
            [self.plan.sources[example.source].sizes[example.number] for example in examples]
        )
        shapes = sizes[:, 0] / sizes[:, 1]
        shape = float(np.median(shapes))
        zoom = random_zoom(self.augmentation, np.random.default_rng([self.plan.seed, step, 2]))
        sides = self.long_side * zoom * np.array([min(shape, 1.0), min(1 / shape, 1.0)])
        width, height = np.maximum(np.rint(sides / self.pad_to), 1).astype(int) * self.pad_to
        fits = np.abs(np.log(shapes * height / width)) <= np.log(MOST_STRETCH)
        return [
            (int(width), int(height)) if fit else resized_size(across, down, max(width, height))
            for (across, down), fit in zip(sizes.tolist(), fits, strict=True)
        ]

    def _load(self, example: Example, size: tuple[int, int] | None) -> Item:
        source = self.plan.sources[example.source]
        record = source.record(example.number)
        scene = self._scene(source, example, size)
        phrases = scene.phrases
        random = np.random.default_rng(example.seed)
        sentences = [] if self.picker is None else self.picker.pick(record, random)
        texts = [*(phrase.words for phrase in phrases), *sentences]
        may_flip = not any(map(text.breaks_when_mirrored, texts))
        boxes = np.concatenate([scene.phrase_boxes_xyxy, scene.proposal_boxes_xyxy])
        view = random_view(
            scene.photo, boxes, self.long_side, may_flip, self.augmentation, random, size
        )
        if not view.kept[: len(phrases)].any():
            view = plain_view(scene.photo, boxes, self.long_side)
        return Item(view, phrases, source.weights(phrases), example.seed, record.image, sentences)

    def _scene(self, source: Source, example: Example, size: tuple[int, int] | None) -> Scene:
        """The example's photo, or a mosaic of it and three others of its data set."""
        random = np.random.default_rng([example.seed, example.number, 3])
        if random.random() >= self.augmentation.mosaic:
            return source.scene(example.number)
        others = random.integers(len(source), size=3).tolist()
        across, down = source.sizes[example.number].tolist()
        mosaic = source.mosaic(
            [example.number, *others], size or resized_size(across, down, self.long_side)
        )
        return mosaic if mosaic.phrases else source.scene(example.number)


def collate(items: Sequence[Item], words: Vocabulary, pad_to: int) -> Batch:
    pixels = pad_together([item.view.pixels for item in items], pad_to)
    sizes = [[item.view.pixels.shape[1], item.view.pixels.shape[0]] for item in items]
    return Batch(
        images=torch.from_numpy(pixels).permute(0, 3, 1, 2),
        sizes=torch.tensor(sizes, dtype=torch.float32),
        truths=_truths(items, words),
        seeds=tuple(item.seed for item in items),
        names=tuple(item.name for item in items),
        proposals=_proposals(items),
    )


def _proposals(items: Sequence[Item]) -> Proposals | None:
    """The items' proposals; where a photo has fewer than others, some are there more than once."""
    left = [
        item.view.boxes_xyxy[len(item.kept) :][item.view.kept[len(item.kept) :]] for item in items
    ]
    most = max(map(len, left))
    if not most:
        return None
    boxes = torch.from_numpy(
        np.stack([np.resize(candidates, (most, 4)) for candidates in left]).astype(np.float32)
    )
    return Proposals(boxes, torch.zeros(boxes.shape[:2]))


def _truths(items: Sequence[Item], words: Vocabulary) -> Truths:
    most = max(int(item.kept.sum()) for item in items)
    phrases = chain.from_iterable(item.phrases for item in items)
    longest = max(len(phrase.words) for phrase in phrases) + 1
    boxes = np.zeros((len(items), most, 4), dtype=np.float32)
    valid = np.zeros((len(items), most), dtype=bool)
    tokens = np.full((len(items), most, longest), END, dtype=np.int64)
    starts = np.full((len(items), most), words.start(), dtype=np.int64)
    weights = np.ones((len(items), most), dtype=np.float32)
    for row, item in enumerate(items):
        random = np.random.default_rng([item.seed, 1])  # not the stream of the photo's augmentation
        kept = np.flatnonzero(item.kept)
        boxes[row, : len(kept)] = item.view.boxes_xyxy[kept]
        valid[row, : len(kept)] = True
        for index, number in enumerate(kept):
            phrase = item.phrases[int(number)]
            tokens[row, index, : len(phrase.words)] = words.encode(phrase.words)
            starts[row, index] = start_token(phrase, words, random)
            weights[row, index] = item.weights[int(number)]
    return Truths(*(torch.from_numpy(array) for array in (boxes, valid, tokens, starts, weights)))


def start_token(phrase: Phrase, words: Vocabulary, random: np.random.Generator) -> int:
    """The START token of the phrase's style or of its length.

    Phrases of the first style are taught with both; but not names: asked for two words, one wants
    more than a name.
    """
    by_length = phrase.style == LENGTH_STYLE
    if words.lengths and phrase.style == words.styles[0] and not phrase.is_name:
        by_length = random.random() < 0.5
    return words.start_of_length(len(phrase.words)) if by_length else words.start(phrase.style)
