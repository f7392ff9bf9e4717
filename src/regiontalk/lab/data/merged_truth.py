"""The truth of an image as in DenseCap's evaluation: boxes that overlap heavily are merged.

A truth is a box with one or more references; a box drawn twice for two phrases is one truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from regiontalk import boxes
from regiontalk.boxes import Floats
from regiontalk.errors import DataError
from regiontalk.lab.data.merging import merge_regions
from regiontalk.lab.data.records import Record, TrueRegion

MERGE_IOU = 0.7


@dataclass(frozen=True)
class TruthImage:
    """The truths of one image: `boxes_xyxy` (T, 4) and for each of them its references."""

    path: str
    width: int
    height: int
    boxes_xyxy: Floats
    references: tuple[tuple[str, ...], ...]

    @cached_property
    def bag(self) -> tuple[str, ...]:
        """Every different reference of the image, wherever it stands (DenseCap section 4.1)."""
        return tuple(dict.fromkeys(chain.from_iterable(self.references)))


def truth_of(record: Record, plus_one: bool = True, drop_invalid: bool = False) -> TruthImage:
    """Merges a record's regions (DenseCap section 4); merged ones (`phrases`) are taken as they
    are."""
    regions = tuple(
        region for region in record.regions if not (drop_invalid and _has_no_area(region))
    )
    if not any(region.phrases for region in regions):
        regions = merge_regions(replace(record, regions=regions), MERGE_IOU, plus_one).regions
    return TruthImage(
        path=record.image,
        width=record.width,
        height=record.height,
        boxes_xyxy=np.array([region.xyxy for region in regions], dtype=np.float64).reshape(-1, 4),
        references=tuple(region.references for region in regions),
    )


def true_boxes(record: Record) -> Floats:
    """(T, 4) the true boxes of a photo, wherever they are captioned, coded or given to a model:
    merged as in the evaluation, without those that have no area inside the photo."""
    merged = truth_of(record).boxes_xyxy
    return merged[boxes.area(boxes.clip(merged, record.width, record.height)) > 0]


def truths_by_path(truths: Iterable[TruthImage]) -> dict[str, TruthImage]:
    """Image path -> its truths; an image may occur once."""
    by_path: dict[str, TruthImage] = {}
    for truth in truths:
        if truth.path in by_path:
            raise DataError(f"the truth has {truth.path} twice")
        by_path[truth.path] = truth
    return by_path


def _has_no_area(region: TrueRegion) -> bool:
    x0, y0, x1, y1 = region.xyxy
    return x1 <= x0 or y1 <= y0
