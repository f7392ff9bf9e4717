"""DenseCap section 4: ground-truth boxes that overlap heavily become one region with several
references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regiontalk import boxes
from regiontalk.errors import UsageError
from regiontalk.lab.data.records import Record, TrueRegion, join_paths, stream_records
from regiontalk.lab.data.writing import write_dataset


def merge_regions(record: Record, threshold: float = 0.7, plus_one: bool = False) -> Record:
    """The record with regions of IoU >= threshold merged: the mean box, and all phrases in
    `phrases`.

    `phrase` is the first of them; a type is kept if all are equal.
    """
    boxes_xyxy = np.array([region.xyxy for region in record.regions], dtype=np.float64).reshape(
        -1, 4
    )
    groups = boxes.merge_groups(boxes_xyxy, threshold, plus_one)
    merged = []
    for group in groups:
        merged.append(_merge([record.regions[member] for member in group]))
    return replace(record, regions=tuple(merged))


def _merge(regions: Sequence[TrueRegion]) -> TrueRegion:
    x0, y0, x1, y1 = np.mean([region.xyxy for region in regions], axis=0).tolist()
    phrases = tuple(chain.from_iterable(region.phrases or (region.phrase,) for region in regions))
    types = {region.type for region in regions}
    return TrueRegion(
        (x0, y0, x1, y1),
        phrases[0],
        types.pop() if len(types) == 1 else None,
        phrases=phrases,
    )


def merge_dataset(
    folder: Path,
    out: Path,
    threshold: float = 0.7,
    force: bool = False,
    track: Callable[[Iterable[Record]], Iterable[Record]] = iter,
) -> dict[str, Any]:
    """Writes the merged data set `out`, photos in place; returns what is in its `dataset.json`."""
    if not 0 < threshold <= 1:
        raise UsageError(f"the IoU must be above 0, at most 1, not {threshold:g}")
    before = 0

    def merged(_: Path) -> Iterator[Record]:
        nonlocal before
        for record in track(stream_records(folder)):
            before += len(record.regions)
            yield merge_regions(in_place(record, folder), threshold)

    how = {"source": "merge", "settings": {"iou": threshold}}
    return write_dataset(out, force, folder, how, merged, lambda _: {"merged_from_regions": before})


def in_place(record: Record, folder: Path) -> Record:
    """The record of a data set with the full path of its photo (or shard)."""
    if record.shard is None:
        return replace(record, image=join_paths(folder, record.image))
    return replace(record, shard=join_paths(folder, record.shard))
