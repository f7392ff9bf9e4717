"""A model's answers for the photos of a data set, by the very path of `caption` and `describe`.

Boxes are in the pixels of the records, which need not be those of the photos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from PIL import Image

from regiontalk import boxes as geometry
from regiontalk import images
from regiontalk.data.merged_truth import true_boxes
from regiontalk.data.records import Dataset, Record
from regiontalk.errors import DataError, RegionTalkError
from regiontalk.model import Look, Model
from regiontalk.photos import in_order
from regiontalk.types import Description, ImageRegions

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class DatasetModel:
    """A model that is asked about the photos of a data set."""

    model: Model
    dataset: Dataset

    def regions(self, record: Record, beam: int = 1) -> ImageRegions:
        """The regions of a photo."""
        return self.ask(record, lambda photo: in_record(self.model(photo, beam=beam), record))

    def captions(self, record: Record, boxes_xyxy: geometry.Floats, beam: int = 1) -> ImageRegions:
        """Captions of given boxes (N, 4), in the record's pixels and in their order."""

        def caption(photo: Image.Image) -> ImageRegions:
            scaled = geometry.scale(boxes_xyxy, photo.width / record.width, photo.height / record.height)
            return in_record(self.model(photo, boxes=scaled, beam=beam), record)

        return self.ask(record, caption)

    def true_regions(self, record: Record, beam: int = 1) -> ImageRegions:
        """Captions of the true boxes (`merged_truth.true_boxes`), by falling score."""
        found = self.captions(record, true_boxes(record), beam)
        return replace(found, regions=tuple(sorted(found.regions, key=lambda region: -region.score)))

    def sentence(self, record: Record, beam: int | None = None) -> Description:
        """One sentence for the whole photo."""
        found = self.ask(record, lambda photo: self.model.describe(photo, beam=beam))
        return replace(found, path=record.image, width=record.width, height=record.height, image=None)

    def look(self, record: Record, on_truths: bool = False, size: int | None = None) -> Look:
        """What codes are read off: the best regions, or the true boxes."""
        return self.ask(
            record,
            lambda photo: self.model.look(photo, boxes=boxes_in_photo(record, photo) if on_truths else None, size=size),
        )

    def ask(self, record: Record, question: Callable[[Image.Image], Answer]) -> Answer:
        """Opens a record's photo and asks; an error names the record."""
        try:
            return question(images.open_photo(self.dataset.read_photo(record), self.model.limits))
        except RegionTalkError as error:
            raise DataError(f"{self.dataset.folder}: {record.image}: {error.message}", hint=error.hint) from error

    def each(
        self, answer: Callable[[Record], Answer], numbers: Iterable[int] | None = None, workers: int = 1
    ) -> Iterator[Answer]:
        """The answers for all photos, or those of `numbers`, in order; `workers` photos at a time."""
        chosen = range(len(self.dataset)) if numbers is None else numbers
        return in_order(lambda number: answer(self.dataset[number]), chosen, workers)


def boxes_in_photo(record: Record, photo: Image.Image) -> geometry.Floats:
    """The true boxes of a record in the photo's pixels."""
    return geometry.scale(true_boxes(record), photo.width / record.width, photo.height / record.height)


def in_record(found: ImageRegions, record: Record) -> ImageRegions:
    """What was found in a photo, under its record's name and in its pixels, without the photo itself."""
    factors = (record.width / found.width, record.height / found.height)
    boxes = geometry.scale([region.xyxy for region in found.regions], *factors).tolist()
    regions = [
        replace(region, xyxy=(x0, y0, x1, y1)) for (x0, y0, x1, y1), region in zip(boxes, found.regions, strict=True)
    ]
    return ImageRegions(record.image, record.width, record.height, found.model, tuple(regions))
