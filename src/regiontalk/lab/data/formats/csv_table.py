"""A user's own table: one row per region, with the columns `path`, `phrase` and a box.

The box is `x0,y0,x1,y1` or `x,y,w,h`, in pixels of the upright photo. A row whose box is empty (or
a table without box columns) is a sentence about the whole photo. Optional columns are `split`,
`width` and `height` of the photo, `score`, `confidence`, and the `time` of a frame of a video.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.fields import SCORES, as_size, reading, scores_of, xywh_box
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_text, split_of
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.results import AltText, BoxXYXY, Description, ImageRegions

CORNERS, SIZES = ("x0", "y0", "x1", "y1"), ("x", "y", "w", "h")
COLUMNS = ("path", "width", "height", *CORNERS, "phrase", *SCORES, "time")
HEADER = (",".join(COLUMNS) + "\n").encode()


@dataclass
class _Photo:
    """The rows about one photo."""

    place: str
    split: str
    size: tuple[int, int]
    sentences: list[str] = field(default_factory=list)
    regions: list[TrueRegion] = field(default_factory=list)
    region_places: list[str] = field(default_factory=list)


def to_rows(photo: ImageRegions | Description | AltText) -> bytes:
    """A row for each region of a photo, in the order of `COLUMNS`; sentences and alt texts have a
    row without a box."""
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    result = photo.to_dict()
    whole = {"xyxy": [None] * len(CORNERS), "caption": result.get("sentence", result.get("alt"))}
    for region in result.get("regions", [whole]):
        scores = [region.get(name) for name in SCORES]
        writer.writerow(
            [
                *(photo.path, photo.width, photo.height),
                *(*region["xyxy"], region["caption"], *scores, photo.time),
            ]
        )
    return rows.getvalue().encode(errors="surrogateescape")


def read(source: Source) -> Iterator[Item]:
    photos: dict[str, _Photo] = {}
    for place, row in _rows(source.path):
        with reading(place):
            _add(photos, place, row)
    for path, photo in photos.items():
        split = source.split_for(path, default=photo.split)
        record = Record(
            path, *photo.size, split, sentences=tuple(photo.sentences), regions=tuple(photo.regions)
        )
        yield Item(photo.place, record, tuple(photo.region_places))


FORMAT = Format(read, own=True)


def _add(photos: dict[str, _Photo], place: str, row: Mapping[str, str]) -> None:
    if not row["path"] or not row["phrase"]:
        raise ValueError(f"the {'phrase' if row['path'] else 'path'} is empty")
    split = split_of(row.get("split") or "train", place)
    size = as_size(row["width"], row["height"]) if row.get("width") else (0, 0)
    photo = photos.setdefault(row["path"], _Photo(place, split, size))
    if photo.split != split:
        raise ValueError(f"{row['path']} is in {photo.split} ({photo.place}) and in {split}")
    box = _box(row)
    if box is None:
        photo.sentences.append(row["phrase"])
    else:
        photo.regions.append(TrueRegion(box, row["phrase"], **scores_of(row)))
        photo.region_places.append(place)


def _box(row: Mapping[str, str]) -> BoxXYXY | None:
    columns = CORNERS if CORNERS[0] in row else SIZES
    texts = [row.get(column, "") for column in columns]
    if not any(texts):
        return None
    if not all(texts):
        raise ValueError(f"a box needs all of {', '.join(columns)}")
    first, second, third, fourth = (float(text) for text in texts)
    return (
        (first, second, third, fourth)
        if columns is CORNERS
        else xywh_box(first, second, third, fourth)
    )


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows with their places; blanks around cells are dropped."""
    text = read_text(path)
    header, _, _ = text.partition("\n")
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count), strict=True
    )
    try:
        columns = _columns(next(reader, []), path)
        for row in reader:
            place = f"{path}, line {reader.line_num}"
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(columns):
                raise DataError(f"{place}: {len(row)} cells under {len(columns)} columns")
            yield place, {column: cell.strip() for column, cell in zip(columns, row, strict=True)}
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not a table: {error}") from error


def _columns(header: list[str], path: Path) -> list[str]:
    columns = [name.strip().lower() for name in header]
    missing = [name for name in ("path", "phrase") if name not in columns]
    boxes = [names for names in (CORNERS, SIZES) if set(names) <= set(columns)]
    partial = set(columns) & {*CORNERS, *SIZES} and not boxes
    if missing or partial or len(boxes) > 1 or len(set(columns)) < len(columns):
        raise DataError(
            f"{path}, line 1: the columns are {', '.join(columns) or 'missing'}",
            hint="needed: path, x0, y0, x1, y1 (or x, y, w, h) and phrase; optional: split",
        )
    return columns
