"""A network's regions and captions for the photos of a data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from regiontalk import boxes, images
from regiontalk.data.records import Dataset, Record
from regiontalk.errors import DataError, RegionTalkError
from regiontalk.evaluation.merged_truth import truth_of
from regiontalk.model_folder import PredictionConfig
from regiontalk.nets.fcln import FCLN
from regiontalk.nets.prediction import Described, Predicted, Predictor, rank
from regiontalk.training.loader import checked
from regiontalk.types import ImageRegions, Region
from regiontalk.vocabulary import Vocabulary


@dataclass(frozen=True)
class PhotoBatch:
    """Photos of like shape, ready for the net, with their records' places and their scales."""

    images: torch.Tensor  # (N, 3, H, W) uint8
    sizes: torch.Tensor  # (N, 2)
    numbers: tuple[int, ...]
    scales: tuple[tuple[float, float], ...]


class PhotoBatches(TorchDataset):
    """The photos of a data set in batches, those of like shape together."""

    def __init__(self, dataset: Dataset, numbers: Sequence[int], long_side: int, pad_to: int, batch: int) -> None:
        self.dataset, self.long_side, self.pad_to = dataset, long_side, pad_to
        by_shape = sorted(numbers, key=lambda n: (dataset[n].width / dataset[n].height, n))
        self.groups = [by_shape[i : i + batch] for i in range(0, len(by_shape), batch)]

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, place: int) -> PhotoBatch | RegionTalkError:
        try:
            return self._load(self.groups[place])
        except RegionTalkError as error:
            return error  # raised by `checked`, out of the worker process

    def _load(self, group: Sequence[int]) -> PhotoBatch:
        resized = [self._resized(self.dataset[n]) for n in group]
        pixels = images.pad_together([photo for photo, _ in resized], self.pad_to)
        sizes = [[photo.shape[1], photo.shape[0]] for photo, _ in resized]
        return PhotoBatch(
            torch.from_numpy(pixels).permute(0, 3, 1, 2),
            torch.tensor(sizes, dtype=torch.float32),
            tuple(group),
            tuple(scale for _, scale in resized),
        )

    def _resized(self, record: Record) -> tuple[NDArray[np.uint8], tuple[float, float]]:
        """Pixels, and the factors from the record's pixels to them."""
        try:
            photo = images.open_photo(self.dataset.read_photo(record))
        except RegionTalkError as error:
            raise DataError(f"{self.dataset.folder}: {record.image}: {error.message}") from error
        result = images.resize(photo, self.long_side)
        height, width = result.pixels.shape[:2]
        return result.pixels, (width / record.width, height / record.height)


@dataclass(frozen=True)
class DescribedPhoto:
    """One photo's proposals with captions, in input pixels; `scale` leads there from the record's pixels."""

    record: Record
    scale: tuple[float, float]
    described: Described


@dataclass
class DatasetPredictor:
    """Runs a net over the photos of a data set; results come batch by batch, photos of like shape together."""

    net: FCLN
    words: Vocabulary
    config: PredictionConfig
    device: torch.device
    batch: int = 8
    workers: int = 0

    def __post_init__(self) -> None:
        self.predictor = Predictor(self.net, self.words.start(), self.config)

    def regions(self, dataset: Dataset, numbers: Sequence[int]) -> Iterator[ImageRegions]:
        """The net's own regions."""
        for batch in self._load(dataset, numbers):
            found = self.predictor(self._images(batch), batch.sizes.to(self.device))
            for n, predicted in enumerate(found):
                yield to_regions(predicted, self.words, dataset[batch.numbers[n]], batch.scales[n])

    def described(self, dataset: Dataset, numbers: Sequence[int]) -> Iterator[DescribedPhoto]:
        """What the net says of its proposals before the last suppression, to choose settings by."""
        for batch in self._load(dataset, numbers):
            found = self.predictor.describe(self._images(batch), batch.sizes.to(self.device))
            for n, number in enumerate(batch.numbers):
                values = (getattr(found, item.name)[n : n + 1].cpu() for item in fields(Described))
                yield DescribedPhoto(dataset[number], batch.scales[n], Described(*values))

    def on_truths(self, dataset: Dataset, numbers: Sequence[int]) -> Iterator[ImageRegions]:
        """Captions of the true boxes, merged as the evaluator merges them (DenseCap section 4)."""
        for batch in self._load(dataset, numbers):
            true_boxes = [truth_of(dataset[n]).boxes_xyxy for n in batch.numbers]
            counts = torch.tensor([len(photo) for photo in true_boxes])
            given = np.zeros((len(true_boxes), max(1, int(counts.max())), 4), dtype=np.float32)
            for row, photo, scale in zip(given, true_boxes, batch.scales, strict=True):
                row[: len(photo)] = boxes.scale(photo, *scale)
            found = self.predictor.caption_boxes(
                self._images(batch), batch.sizes.to(self.device), torch.from_numpy(given).to(self.device), counts
            )
            for n, predicted in enumerate(found):
                yield to_regions(predicted, self.words, dataset[batch.numbers[n]], batch.scales[n])

    def proposals(self, dataset: Dataset, numbers: Sequence[int]) -> Iterator[tuple[Record, NDArray[np.floating]]]:
        """The chosen proposals of each photo, in the record's pixels, best first."""
        for batch in self._load(dataset, numbers):
            chosen, counts = self.predictor.proposals(self._images(batch), batch.sizes.to(self.device))
            for n, count in enumerate(counts.tolist()):
                scale_x, scale_y = batch.scales[n]
                yield dataset[batch.numbers[n]], boxes.scale(chosen[n, :count].cpu().numpy(), 1 / scale_x, 1 / scale_y)

    def _load(self, dataset: Dataset, numbers: Sequence[int]) -> Iterator[PhotoBatch]:
        batches = PhotoBatches(dataset, numbers, self.net.config.input_size, self.net.pad_to, self.batch)
        return checked(DataLoader(batches, batch_size=None, shuffle=False, num_workers=self.workers))

    def _images(self, batch: PhotoBatch) -> torch.Tensor:
        return batch.images.to(self.device).float().contiguous(memory_format=torch.channels_last)


def ranked_regions(photo: DescribedPhoto, words: Vocabulary, config: PredictionConfig) -> ImageRegions:
    """A photo's regions after the last suppression."""
    return to_regions(rank(photo.described, config)[0], words, photo.record, photo.scale)


def to_regions(predicted: Predicted, words: Vocabulary, record: Record, scale: tuple[float, float]) -> ImageRegions:
    """In the record's pixels, with words."""
    original = boxes.clip(
        boxes.scale(predicted.boxes_xyxy.float().cpu().numpy().astype(np.float64), 1 / scale[0], 1 / scale[1]),
        record.width,
        record.height,
    )
    rows = zip(
        original.tolist(),
        predicted.scores.float().tolist(),
        predicted.tokens.tolist(),
        predicted.logprobs.float().tolist(),
        strict=True,
    )
    regions = [
        Region((box[0], box[1], box[2], box[3]), score, words.decode(tokens), logprob)
        for box, score, tokens, logprob in rows
    ]
    return ImageRegions(record.image, record.width, record.height, "checkpoint", tuple(regions))
