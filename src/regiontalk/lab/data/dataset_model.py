"""A model's answers for the photos of a data set, exactly as `caption` and `describe` make them.

Boxes are in the pixels of the records, which need not be those of the photos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.errors import DataError, ModelError, RegionTalkError
from regiontalk.images.paths import in_order
from regiontalk.images.photo import Photo, PhotoSource
from regiontalk.inference.regions import Frame, Look, RegionTable
from regiontalk.lab.data.merged_truth import true_boxes
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.data.region_files import ScoredBoxes, scaled
from regiontalk.model import Model
from regiontalk.models.runtime import Floats
from regiontalk.results import Description, ImageRegions

Answer = TypeVar("Answer")
FindRegions = Callable[[Record, PhotoSource], ScoredBoxes]
"""Candidate boxes of a record's photo, in the record's pixels."""


@dataclass(frozen=True)
class DatasetModel:
    """A model for the photos of a data set."""

    model: Model
    dataset: Dataset
    longest_side: int | None = None
    """Photos with a longer side, in pixels, are shrunk to it before the model sees them."""

    def regions(self, record: Record, beam: int = 1) -> ImageRegions:
        """The regions of a photo."""
        with self.open(record) as photo:
            return in_record(self.model(photo, beam=beam), record)

    def regions_among(self, record: Record, find: FindRegions, beam: int = 1) -> ImageRegions:
        """The regions of a photo, detected among the boxes of `find` instead of the model's own
        proposals."""
        look = self.look_among(record, find)
        regions = tuple(self.model.regions(look, beam))
        place = ("", *look.frame.photo_size, self.model.runtime.info.name)
        return in_record(ImageRegions(*place, regions, self.model.shown()), record)

    def look_among(self, record: Record, find: FindRegions) -> Look:
        with self.open(record) as photo:
            candidates = find(record, photo)
            boxes = self._in_photo(candidates.boxes_xyxy, record, photo).astype(np.float64)
            return self.model.look(photo, candidates=(boxes, candidates.scores))

    def proposals(self, record: Record, count: int) -> ScoredBoxes:
        """The `count` best proposals, refined and scored by the recognition network, best first; no
        words."""
        with self.open(record) as photo:
            look = self.model.look(photo, proposals=count)
        width, height = look.frame.photo_size
        best_first = np.argsort(-look.recognized.scores, kind="stable")
        regions = look.recognized.take(best_first)
        scored = ScoredBoxes(regions.boxes_xyxy, regions.scores)
        return scaled(scored, record.width / width, record.height / height)

    def captions(self, record: Record, boxes_xyxy: geometry.Floats, beam: int = 1) -> ImageRegions:
        """Captions of given boxes (N, 4), in the record's pixels and in their order."""
        with self.open(record) as photo:
            boxes = self._in_photo(boxes_xyxy, record, photo)
            return in_record(self.model(photo, boxes=boxes, beam=beam), record)

    def true_regions(self, record: Record, beam: int = 1) -> ImageRegions:
        """Captions of the true boxes (`merged_truth.true_boxes`), highest score first."""
        captioned = self.captions(record, true_boxes(record), beam)
        return replace(
            captioned, regions=tuple(sorted(captioned.regions, key=lambda region: -region.score))
        )

    def sentence(self, record: Record, beam: int | None = None) -> Description:
        """One sentence for the whole photo."""
        with self.open(record) as photo:
            description = self.model.describe(photo, beam=beam)
        return replace(
            description, path=record.image, width=record.width, height=record.height, photo=None
        )

    def look(self, record: Record, on_truths: bool = False, size: int | None = None) -> Look:
        """What codes are computed of: the best regions, or the true boxes."""
        with self.open(record) as photo:
            boxes = self._in_photo(true_boxes(record), record, photo) if on_truths else None
            return self.model.look(photo, boxes=boxes, size=size)

    def coded_boxes(self, record: Record, boxes_xyxy: geometry.Floats) -> RegionTable:
        """The whole photo (row 0) and given boxes (N, 4), in the record's pixels and in their
        order, with codes."""
        with self.open(record) as photo:
            look = self.model.look(photo, boxes=self._in_photo(boxes_xyxy, record, photo))
        return self.model.codes(look)

    def network_input(
        self, record: Record, boxes_xyxy: geometry.Floats
    ) -> tuple[Floats, Frame, Floats]:
        """What the network reads of a photo, and boxes (N, 4) of the record in its pixels."""
        with self.open(record) as source:
            photo = Photo.of(source, self.model.limits)
            image, frame = self.model.network_input(photo)
        width, height = frame.photo_size
        in_photo = geometry.scale(boxes_xyxy, width / record.width, height / record.height)
        return image, frame, frame.to_input(in_photo.astype(np.float64))

    def codes_at(self, record: Record, boxes_xyxy: geometry.Floats) -> Floats:
        """Codes (N, D) of given boxes (N, 4), in the record's pixels and in their order."""
        return self.coded_boxes(record, boxes_xyxy).codes[1:]

    def candidates(self, record: Record, find: FindRegions | None = None) -> RegionTable:
        """The candidates for phrases: the whole photo and its best regions, or the boxes of
        `find`."""
        look = self.look(record) if find is None else self.look_among(record, find)
        return self.candidates_of(look, record)

    def candidates_of(self, look: Look, record: Record) -> RegionTable:
        """The candidates for phrases of a photo that was looked at, in the record's pixels."""
        regions = self.model.candidates(look)
        width, height = look.frame.photo_size
        boxes = geometry.scale(regions.boxes_xyxy, record.width / width, record.height / height)
        return replace(
            regions,
            boxes_xyxy=boxes.astype(np.float64),
            recognition_codes=regions.recognition_codes[:0],  # memory for the photos of a data set
        )

    @contextmanager
    def open(self, record: Record) -> Iterator[PhotoSource]:
        """The photo of a record, to run the model on; errors name the record."""
        try:
            yield self._shrunk(self.dataset.read_photo(record))
        except RegionTalkError as error:
            kind = ModelError if isinstance(error, ModelError) else DataError
            raise kind(
                f"{self.dataset.folder}: {record.image}: {error.message}", hint=error.hint
            ) from error

    def _shrunk(self, photo: bytes) -> PhotoSource:
        if self.longest_side is None:
            return photo
        opened = Photo.of(photo, self.model.limits)
        if max(opened.size) <= self.longest_side:
            return photo
        return opened.resized(self.longest_side).pixels

    def _in_photo(
        self, boxes_xyxy: geometry.Floats, record: Record, photo: PhotoSource
    ) -> geometry.Floats:
        """Boxes (N, 4) of a record in the photo's pixels."""
        width, height = Photo.of(photo, self.model.limits).size
        return geometry.scale(boxes_xyxy, width / record.width, height / record.height)

    def each(
        self,
        answer: Callable[[Record], Answer],
        numbers: Iterable[int] | None = None,
        workers: int = 1,
    ) -> Iterator[Answer]:
        """The answers for all photos, or those of `numbers`, in order; `workers` photos at a
        time."""
        chosen = range(len(self.dataset)) if numbers is None else numbers
        return in_order(lambda number: answer(self.dataset[number]), chosen, workers)


def in_record(photo: ImageRegions, record: Record) -> ImageRegions:
    """The result with the name and in the pixels of the record, without the photo itself."""
    factors = (record.width / photo.width, record.height / photo.height)
    boxes = geometry.scale([region.xyxy for region in photo.regions], *factors).tolist()
    regions = [
        replace(region, xyxy=(x0, y0, x1, y1))
        for (x0, y0, x1, y1), region in zip(boxes, photo.regions, strict=True)
    ]
    return replace(
        photo,
        path=record.image,
        width=record.width,
        height=record.height,
        regions=tuple(regions),
        photo=None,
    )
