"""Whether a region's caption depends on what is around it: captioned among the photo's other true
regions (`together`), as the only region of the photo (`alone`), and cut out, as a photo of its own
(`cut_out`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.boxes import Floats
from regiontalk.errors import DataError
from regiontalk.images.photo import Photo
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.merged_truth import true_boxes
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.names import is_right, truths_near

WAYS = ("together", "alone", "cut_out")
SHORTEST_SIDE = 16  # pixels of a region that can be looked at as a photo
WHOLE = ((0.0, 0.0, 1.0, 1.0),)


class Captioned(NamedTuple):
    """The captions of a true region, by each of `WAYS`, and which of them name what it is."""

    captions: tuple[str, ...]
    right: tuple[bool, ...]


def caption_each_way(dataset_model: DatasetModel, record: Record) -> Iterator[Captioned]:
    """The true regions of a photo, as dense captioning merges them, without tiny ones."""
    boxes_xyxy = geometry.clip(true_boxes(record), record.width, record.height)
    sides = boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]
    boxes_xyxy = boxes_xyxy[(sides >= SHORTEST_SIDE).all(axis=1)]
    if not len(boxes_xyxy):
        return
    truths = truths_near(boxes_xyxy, record)
    together = [region.caption for region in dataset_model.captions(record, boxes_xyxy).regions]
    for box, near, among_others in zip(boxes_xyxy, truths, together, strict=True):
        alone = dataset_model.captions(record, box[None]).regions[0].caption
        captions = (among_others, alone, _caption_cut_out(dataset_model, record, box))
        yield Captioned(captions, tuple(is_right(caption, near) for caption in captions))


def _caption_cut_out(dataset_model: DatasetModel, record: Record, box_xyxy: Floats) -> str:
    with dataset_model.open(record) as source:
        photo = Photo.of(source, dataset_model.model.limits).open()
        scale = np.array([photo.width / record.width, photo.height / record.height] * 2)
        x0, y0, x1, y1 = np.rint(box_xyxy * scale).astype(int).tolist()
        captioned = dataset_model.model(photo.crop((x0, y0, x1, y1)), boxes=WHOLE)
    return captioned.regions[0].caption


def evaluate_context(regions: Iterable[Captioned]) -> dict[str, Any]:
    """`right`: the share of captions that name what the region is; `same_as_together`: the share
    that is word for word the caption among the photo's other regions; in percent, by each of
    `WAYS`."""
    rows = list(regions)
    if not rows:
        raise DataError("no region to caption")
    figures: dict[str, Any] = {}
    for column, way in enumerate(WAYS):
        same = [row.captions[column] == row.captions[0] for row in rows]
        figures[way] = {
            "right": 100 * float(np.mean([row.right[column] for row in rows])),
            "same_as_together": 100 * float(np.mean(same)),
            "different_captions": len({row.captions[column] for row in rows}),
        }
    return figures | {"regions": len(rows)}
