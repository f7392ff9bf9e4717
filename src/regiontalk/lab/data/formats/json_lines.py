"""A user's own JSON lines: records as we write them, or what `regiontalk caption --json` prints.

`image` (or `path`), `regions` with `xyxy` (or `xywh`) and `phrase` (or `caption`), `sentences`;
`split`, `width` and `height` may be left out. SOURCE is a file (`.gz` too), a `.json` file with one
array of the same, or the folder of a prepared data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regiontalk.io.files import open_file, read_json_lines
from regiontalk.io.json_stream import stream_array
from regiontalk.io.typed import to_dataclass
from regiontalk.lab.data.formats.fields import as_object, as_size, xywh_box
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_entries, split_of
from regiontalk.lab.data.records import Record, annotations_path

# Keys of a prediction that are not part of a record.
_OF_PREDICTIONS = {"schema", "model"}
_OF_PREDICTED_REGIONS = {"id", "logprob", "shown", "name", "name_confidence"}


def read(source: Source) -> Iterator[Item]:
    path = annotations_path(source.path) if source.path.is_dir() else source.path
    entries = _read_array(path) if path.suffix == ".json" else read_json_lines(path)
    return read_entries(entries, lambda entry, place: _record(_plain(entry), source, place))


FORMAT = Format(read, own=True)


def _read_array(path: Path) -> Iterator[tuple[str, Any]]:
    """The items of a file that is one JSON array or JSON lines."""
    with open_file(path) as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith(b"["):
        return read_json_lines(path)
    return stream_array(path)


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A line with the keys of records; 0 for a missing size."""
    plain = {key: value for key, value in entry.items() if key not in {"path", *_OF_PREDICTIONS}}
    plain.setdefault("image", entry.get("path"))
    plain["regions"] = [_plain_region(as_object(region)) for region in entry.get("regions", ())]
    if "id" in entry:
        plain["id"] = str(entry["id"])
    if "width" in entry or "height" in entry or "shard" in entry:
        as_size(entry["width"], entry["height"])
        return plain
    return plain | {"width": 0, "height": 0}


def _plain_region(entry: Mapping[str, Any]) -> dict[str, Any]:
    plain = {
        key: value
        for key, value in entry.items()
        if key not in {"xywh", "caption", *_OF_PREDICTED_REGIONS}
    }
    if "xywh" in entry:
        plain["xyxy"] = xywh_box(*entry["xywh"])
    if "caption" in entry:
        plain.setdefault("phrase", entry["caption"])
    return plain


def _record(plain: dict[str, Any], source: Source, place: str) -> Record:
    """A record with our name of its split, and the full path of its shard."""
    record = to_dataclass(Record, plain, place)
    split = source.split_for(record.image, default=split_of(record.split, place))
    shard = None if record.shard is None else str((source.folder / record.shard).absolute())
    return replace(record, split=split, shard=shard)
