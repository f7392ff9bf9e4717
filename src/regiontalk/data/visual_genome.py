"""Visual Genome: `region_descriptions.json` and `image_data.json`, versions 1.0 to 1.4.

DenseCap section 4 is applied: phrases of more than ten words (after its cleaning) are dropped, then images
with fewer than 20 or more than 50 regions. The phrases that stay are kept as people wrote them; the cleaning
itself is the vocabulary's work. With `densecap_splits.json` as split file, images in no split are left out.

x and y are taken as counted from 0 (Differs from the paper: the released code counts them from 1; the files
have zeros in them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from regiontalk.data.json_stream import stream_array
from regiontalk.data.records import Record, TrueRegion
from regiontalk.data.sources import Format, Item, Source, as_object, as_size, as_text, reading
from regiontalk.errors import DataError
from regiontalk.types import BoxXYXY
from regiontalk.vocabulary import LONGEST_PHRASE, clean_densecap

REGIONS, IMAGES = "region_descriptions.json", "image_data.json"


def read(source: Source) -> Iterator[Item]:
    photos = _read_images(source)
    path = source.folder / REGIONS
    for number, entry in enumerate(stream_array(path), start=1):
        place = f"{path}, item {number}"
        with reading(place):
            item = _item(as_object(entry), photos, source, place)
        yield item


def too_long(region: TrueRegion) -> str | None:
    """DenseCap section 4: a phrase of more than ten words. Only "°" makes a phrase longer when cleaned."""
    phrase = region.phrase
    if phrase.count(" ") < LONGEST_PHRASE and "°" not in phrase:
        return None
    return None if clean_densecap(phrase) is not None else f"phrase of more than {LONGEST_PHRASE} words"


FORMAT = Format(read, ("", "images"), min_regions=20, max_regions=50, drops=too_long)


def _read_images(source: Source) -> dict[int, tuple[str, tuple[int, int]]]:
    """The file and the size of every image, by its number."""
    path = source.folder / IMAGES
    photos = {}
    for number, entry in enumerate(stream_array(path), start=1):
        with reading(f"{path}, item {number}"):
            identity = _identity(as_object(entry))
            url = PurePosixPath(as_text(entry["url"], "url"))
            photos[identity] = f"{url.parent.name}/{url.name}", as_size(entry["width"], entry["height"])
    return photos


def _item(
    entry: Mapping[str, Any], photos: Mapping[int, tuple[str, tuple[int, int]]], source: Source, place: str
) -> Item:
    identity = _identity(entry)
    if identity not in photos:
        raise DataError(f"{place}: image {identity} is not in {IMAGES}")
    image, (width, height) = photos[identity]
    record = Record(
        image,
        width,
        height,
        source.split_for(str(identity), default="train"),
        regions=tuple(TrueRegion(_box(region), as_text(region["phrase"], "phrase")) for region in entry["regions"]),
        id=str(identity),
    )
    return Item(place, record)


def _identity(entry: Mapping[str, Any]) -> int:
    """`image_id` since version 1.2, `id` before."""
    return int(entry["image_id"] if "image_id" in entry else entry["id"])


def _box(region: Mapping[str, Any]) -> BoxXYXY:
    left, top = region["x"] + 0, region["y"] + 0  # text instead of a number fails here
    return left, top, left + region["width"], top + region["height"]
