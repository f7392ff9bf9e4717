"""Karpathy's files of Flickr8k, Flickr30k and COCO: `dataset_flickr8k.json`, `dataset_coco.json`
and so on.

They have the sentences and the splits of K&FF, but no sizes: those are read from the photos.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from regiontalk.errors import DataError
from regiontalk.io.json_stream import stream_members
from regiontalk.lab.data.formats import flickr8k, flickr30k_entities
from regiontalk.lab.data.formats.fields import as_text
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_entries, split_of
from regiontalk.lab.data.records import Record


def read(source: Source) -> Iterator[Item]:
    path = source.path if source.path.is_file() else _only_file(source.path)
    images = (entry for key, entry in stream_members(path) if key == "images")
    places = ((f"{path}, image {number}", entry) for number, entry in enumerate(images, start=1))
    return read_entries(places, lambda entry, place: _record(entry, source, place))


FORMAT = Format(read, (*flickr8k.PHOTO_FOLDERS, *flickr30k_entities.PHOTO_FOLDERS[1:]))


def _only_file(folder: Path) -> Path:
    files = sorted(folder.glob("dataset*.json"))
    if len(files) != 1:
        problem = f"{len(files)} files" if files else "no file"
        raise DataError(
            f"{folder}: {problem} named dataset*.json", hint="give the file itself as SOURCE"
        )
    return files[0]


def _record(entry: Mapping[str, Any], source: Source, place: str) -> Record:
    name = as_text(entry["filename"], "filename")
    sentences = (as_text(sentence["raw"], "raw").strip() for sentence in entry["sentences"])
    return Record(
        f"{entry['filepath']}/{name}" if entry.get("filepath") else name,
        0,
        0,
        source.split_for(name, default=split_of(as_text(entry["split"], "split"), place)),
        sentences=tuple(sentence for sentence in sentences if sentence),
        id=str(entry["cocoid"]) if "cocoid" in entry else flickr8k.flickr_id(name),
    )
