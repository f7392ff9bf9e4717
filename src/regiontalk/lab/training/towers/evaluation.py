"""Two towers on the photos of a data set: scores of photos and sentences, and names of boxes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from regiontalk import boxes as geometry
from regiontalk.errors import DataError, RegionTalkError
from regiontalk.images.photo import open_photo, resize
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.evaluation.naming import Named, evaluate_naming
from regiontalk.lab.evaluation.ranking import ScoreMatrix
from regiontalk.lab.nets.two_towers import PhotoVectors, TextVectors, TwoTowers
from regiontalk.lab.training.detector.augmentation import stretched_view
from regiontalk.lab.training.task import Skip
from regiontalk.lab.training.towers.batches import encode_texts
from regiontalk.language.wordpiece import WordPieces

PHOTOS_AT_ONCE = 16
TEXTS_AT_ONCE = 256
MAX_PRODUCTS = 1 << 28
"""How many products of patches and words are computed at once: 1 GiB."""
SCORES = ("both", "global", "words")
"""What photos and sentences are compared by: the sum of both logits, their vectors, patches and
words."""


class RegionsOfPhoto(NamedTuple):
    """A photo whose boxes are looked at; none: the whole photo alone."""

    record: Record
    regions: Sequence[TrueRegion]


@dataclass(frozen=True)
class TowersModel:
    """Two towers for inference, on a device."""

    net: TwoTowers
    pieces: WordPieces
    device: torch.device
    longest_side: int | None = None
    """Photos are first shrunk to this long side."""

    @torch.inference_mode()
    def read_texts(self, texts: Sequence[str]) -> TextVectors:
        """The vectors of texts; what is longer than the text tower reads is cut off."""
        longest = self.net.config.text.positions
        parts = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = encode_texts(texts[start : start + TEXTS_AT_ONCE], self.pieces, longest)
            tokens, lengths = (part.to(self.device) for part in some)
            parts.append(self.net.read_texts(type(some)(tokens, lengths)))
        return TextVectors(*(torch.cat(columns) for columns in zip(*parts, strict=True)))

    @torch.inference_mode()
    def read_photos(
        self, dataset: Dataset, photos: Iterable[RegionsOfPhoto], skip: Skip
    ) -> Iterator[tuple[list[RegionsOfPhoto], PhotoVectors]]:
        """The vectors of photos and of their regions, some photos at a time; of one that cannot be
        read, `skip` is told."""
        chunks = iter(photos)
        while chunk := list(islice(chunks, PHOTOS_AT_ONCE)):
            opened = _open(dataset, chunk, skip)
            if not opened:
                continue
            most = 1 + max(len(photo.regions) for photo, _ in opened)
            side = self.net.config.input_size
            boxes = np.tile(np.array([0, 0, side, side], dtype=np.float32), (len(opened), most, 1))
            for row, (photo, _) in enumerate(opened):
                regions_xyxy = np.array([region.xyxy for region in photo.regions]).reshape(-1, 4)
                factors = (side / photo.record.width, side / photo.record.height)
                boxes[row, 1 : 1 + len(regions_xyxy)] = geometry.scale(regions_xyxy, *factors)
            pixels = np.stack([self._stretched(image) for _, image in opened])
            images = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(self.device).float()
            vectors = self.net.read_photos(images, torch.from_numpy(boxes).to(self.device))
            yield [photo for photo, _ in opened], vectors

    def _stretched(self, photo: Image.Image) -> NDArray[np.uint8]:
        """The photo as the net gets it, (S, S, 3)."""
        if self.longest_side is not None and max(photo.size) > self.longest_side:
            photo = Image.fromarray(resize(photo, self.longest_side).pixels)
        side = self.net.config.input_size
        return stretched_view(photo, np.zeros((0, 4)), (side, side)).pixels

    @torch.inference_mode()
    def score_matrices(
        self, dataset: Dataset, records: Iterable[Record], skip: Skip
    ) -> dict[str, ScoreMatrix]:
        """The scores of every photo with every sentence, by each of `SCORES`."""
        described = [record for record in records if record.sentences]
        if not described:
            raise DataError(f"{dataset.folder}: no photo has a sentence")
        sentences = [sentence for record in described for sentence in record.sentences]
        texts = self.read_texts(sentences)
        rows: list[tuple[Tensor, Tensor]] = []
        seen: list[Record] = []
        photos = (RegionsOfPhoto(record, ()) for record in described)
        for some, vectors in self.read_photos(dataset, photos, skip):
            seen += [photo.record for photo in some]
            by_vectors = vectors.boxes[:, 0] @ texts.texts.T
            rows.append((by_vectors.cpu(), self._word_scores(vectors.patches, texts).cpu()))
        if not rows:
            raise DataError(f"{dataset.folder}: no photo can be read")
        return self._matrices(rows, described, seen)

    def _word_scores(self, patches: Tensor, texts: TextVectors) -> Tensor:
        """(N, P, D) -> (N, L), a few photos at a time."""
        at_once = max(1, MAX_PRODUCTS // max(1, patches.shape[1] * len(texts.words)))
        parts = patches.split(at_once)
        return torch.cat([self.net.word_scores(part, texts) for part in parts])

    def _matrices(
        self,
        rows: Sequence[tuple[Tensor, Tensor]],
        described: Sequence[Record],
        seen: Sequence[Record],
    ) -> dict[str, ScoreMatrix]:
        """The matrices of the photos that could be read, with their sentences alone."""
        place_of = {id(record): index for index, record in enumerate(seen)}
        owners = np.array(
            [place_of.get(id(record), -1) for record in described for _ in record.sentences],
            dtype=np.intp,
        )
        columns = np.flatnonzero(owners >= 0)
        by_vectors, by_words = (torch.cat(parts).numpy() for parts in zip(*rows, strict=True))
        scales = [float(self.net.scale(term).detach()) for term in ("sentences", "words")]
        scores = {
            "both": scales[0] * by_vectors + scales[1] * by_words,
            "global": by_vectors,
            "words": by_words,
        }
        return {
            name: ScoreMatrix(values[:, columns], owners[columns])
            for name, values in scores.items()
        }

    @torch.inference_mode()
    def name_regions(
        self,
        dataset: Dataset,
        photos: Iterable[RegionsOfPhoto],
        names: Sequence[str],
        skip: Skip,
    ) -> Iterator[tuple[RegionsOfPhoto, NDArray[np.float32]]]:
        """How well each of the names fits each region of photos: photo, scores (R, names). A region
        that is the whole photo has the photo's vector."""
        texts = self.read_texts(names).texts
        for some, vectors in self.read_photos(dataset, photos, skip):
            scores = (vectors.boxes @ texts.T).cpu().numpy()  # (N, B, names)
            for photo, of_photo in zip(some, scores, strict=True):
                yield photo, of_photo[_rows(photo)]


def _open(
    dataset: Dataset, photos: Sequence[RegionsOfPhoto], skip: Skip
) -> list[tuple[RegionsOfPhoto, Image.Image]]:
    """The photos that can be read, opened at the same time."""

    def attempt(photo: RegionsOfPhoto) -> Image.Image | RegionTalkError:
        try:
            return open_photo(dataset.read_photo(photo.record))
        except RegionTalkError as error:
            return error

    with ThreadPoolExecutor(len(photos)) as pool:
        opened = list(pool.map(attempt, photos))
    readable = []
    for photo, image in zip(photos, opened, strict=True):
        if isinstance(image, RegionTalkError):
            skip(f"{dataset.folder}: {photo.record.image}: {image.message}")
        else:
            readable.append((photo, image))
    return readable


def _rows(photo: RegionsOfPhoto) -> list[int]:
    """The row of each region among a photo's vectors; 0 is the whole photo's."""
    whole = (0.0, 0.0, float(photo.record.width), float(photo.record.height))
    return [
        0 if tuple(region.xyxy) == whole else 1 + number
        for number, region in enumerate(photo.regions)
    ]


def name_photos(
    model: TowersModel,
    dataset: Dataset,
    photos: Iterable[RegionsOfPhoto],
    names: list[str],
    skip: Skip,
) -> dict[str, Any]:
    """How often a region's nearest name is right."""
    named = (
        Named(region.phrase, scores)
        for photo, of_photo in model.name_regions(dataset, photos, names, skip)
        for region, scores in zip(photo.regions, of_photo, strict=True)
    )
    return evaluate_naming(named, names)
