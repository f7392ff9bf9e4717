"""Files of regions without captions: proposals for each photo of a data set, highest score first.

JSON lines as `caption --json` prints them, captions not needed: {"path": "a.jpg", "width": 448,
"height": 336, "regions": [{"xyxy": [6, 135, 97, 305], "score": 0.21}]}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes
from regiontalk.errors import DataError
from regiontalk.io.files import parse_object, read_object_lines
from regiontalk.io.typed import WithMore, to_dataclass
from regiontalk.lab.data.records import MOST_REGIONS, Record


class ScoredBoxes(NamedTuple):
    """Boxes (B, 4) in a record's pixels and their scores (B,), from 0 to 1."""

    boxes_xyxy: NDArray[np.float64]
    scores: NDArray[np.float64]


@dataclass(frozen=True)
class _Line(WithMore):
    path: str
    width: int
    height: int
    regions: tuple[Any, ...]


def region_line(record: Record, scored: ScoredBoxes, source: str) -> dict[str, Any]:
    """The line of a photo; `source`: the program or model that found the regions."""
    rows = zip(scored.boxes_xyxy.round(1).tolist(), scored.scores.round(4).tolist(), strict=True)
    regions = [{"xyxy": list(map(_short, box)), "score": score} for box, score in rows]
    return {
        "path": record.image,
        "width": record.width,
        "height": record.height,
        "source": source,
        "regions": regions,
    }


def _short(value: float) -> float:
    return int(value) if value.is_integer() else value


def scaled(scored: ScoredBoxes, factor_x: float, factor_y: float) -> ScoredBoxes:
    return ScoredBoxes(
        boxes.scale(scored.boxes_xyxy, factor_x, factor_y).astype(np.float64), scored.scores
    )


def read_region_file(path: Path, records: Iterable[Record]) -> dict[str, ScoredBoxes]:
    """Image -> its boxes, for all `records`; lines about other photos are ignored."""
    wanted = {record.image: record for record in records}
    by_image = {}
    for number, text in read_object_lines(path):
        place = f"{path}, line {number}"
        line = to_dataclass(_Line, parse_object(text, place), place)
        if line.path in wanted:
            by_image[line.path] = _boxes(line, wanted[line.path], place)
    missing = [image for image in wanted if image not in by_image]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f"{path}: no regions of {missing[0]}{more}",
            hint="a line for every photo, whose 'path' is the record's 'image'",
        )
    return by_image


def _boxes(line: _Line, record: Record, place: str) -> ScoredBoxes:
    if (line.width, line.height) != (record.width, record.height):
        raise DataError(
            f"{place}: boxes for {line.width}×{line.height} pixels, but {record.image} has "
            f"{record.width}×{record.height} in the data set",
            hint="scale boxes, width and height to the data set's",
        )
    if len(line.regions) > MOST_REGIONS:
        raise DataError(
            f"{place}: {len(line.regions)} regions, and at most {MOST_REGIONS} can be used"
        )
    try:
        xyxy = np.array([region["xyxy"] for region in line.regions], dtype=np.float64).reshape(
            len(line.regions), 4
        )
        scores = np.array([region["score"] for region in line.regions], dtype=np.float64).reshape(
            len(line.regions)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{place}: a region is {{'xyxy': four numbers, 'score': a number}}"
        ) from error
    if not ((scores >= 0) & (scores <= 1)).all():
        raise DataError(f"{place}: scores must be from 0 to 1")
    clipped = boxes.clip(xyxy, line.width, line.height).astype(np.float64)
    inside = boxes.area(clipped) > 0
    return ScoredBoxes(clipped[inside], scores[inside])
