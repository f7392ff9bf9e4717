"""A user's own lines of JSON: records as we write them, or what `regiontalk caption --json` prints.

`image` (or `path`), `regions` with `xyxy` (or `xywh`) and `phrase` (or `caption`), `sentences`; `split`,
`width` and `height` may be left out. SOURCE is a file (`.gz` too) or the folder of a prepared data set.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from regiontalk.data.json_stream import refuse_constant
from regiontalk.data.records import BROKEN_FILE, TrueRegion, annotations_path, open_file
from regiontalk.data.sources import (
    Format,
    Item,
    Source,
    as_object,
    as_size,
    as_text,
    reading,
    split_of,
    xywh_box,
)
from regiontalk.errors import DataError

# What a prediction carries beside path, size and regions: no part of a record.
_OF_PREDICTIONS = {"schema", "model"}
_KNOWN = {"image", "path", "width", "height", "split", "shard", "sentences", "regions"} | _OF_PREDICTIONS
_KNOWN_OF_REGIONS = {"xyxy", "xywh", "phrase", "caption", "type", "boxes_xyxy", "id", "score", "logprob"}


def read(source: Source) -> Iterator[Item]:
    path = annotations_path(source.path) if source.path.is_dir() else source.path
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            place = f"{path}, line {number}"
            with reading(place):
                item = _item(_parse(line, place), source, place)
            yield item


FORMAT = Format(read, own=True)


def _lines(path: Path) -> Iterator[bytes]:
    with open_file(path) as file:
        try:
            yield from gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        except BROKEN_FILE as error:
            raise DataError(f"{path}: {error}") from error


def _parse(line: bytes, place: str) -> Mapping[str, Any]:
    try:
        return as_object(json.loads(line, parse_constant=refuse_constant))
    except json.JSONDecodeError as error:
        raise DataError(f"{place}: wrong JSON at character {error.pos + 1}: {error.msg}") from error


def _item(entry: Mapping[str, Any], source: Source, place: str) -> Item:
    image = as_text(entry["image"] if "image" in entry else entry["path"], "image")
    shard = entry.get("shard")
    return Item(
        place,
        image,
        as_size(entry["width"], entry["height"]) if "width" in entry or shard is not None else None,
        source.split_for(
            image,
            PurePosixPath(image).name,
            default=split_of(as_text(entry.get("split", "train"), "split"), place),
        ),
        None if shard is None else str((source.folder / as_text(shard, "shard")).absolute()),
        tuple(as_text(sentence, "sentence") for sentence in entry.get("sentences", ())),
        tuple(_region(region) for region in entry.get("regions", ())),
        {key: value for key, value in entry.items() if key not in _KNOWN},
    )


def _region(entry: Mapping[str, Any]) -> TrueRegion:
    box = xywh_box(*entry["xywh"]) if "xywh" in entry else entry["xyxy"]
    return TrueRegion.from_dict(
        {
            "xyxy": box,
            "phrase": entry["phrase"] if "phrase" in entry else entry["caption"],
            "type": entry.get("type"),
            "boxes_xyxy": entry.get("boxes_xyxy", ()),
        }
        | {key: value for key, value in entry.items() if key not in _KNOWN_OF_REGIONS}
    )
