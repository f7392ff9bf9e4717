"""Visual Genome: `region_descriptions.json` and `image_data.json`, versions 1.0 to 1.4.

DenseCap section 4 is applied: phrases of more than ten words (after its cleaning) are dropped, then
images with fewer than 20 or more than 50 regions. The other phrases are kept as people wrote them;
the vocabulary cleans them later. With `densecap_splits.json` as split file, images in no split are
left out.

Regions have the type "phrase". `visual-genome-coco` reads the half of the photos that are COCO's
too, under COCO's ids and without the limits on regions, so that `data join` can add the phrases to
COCO. `vg` reads one file of region descriptions in which each photo has its `path`, `width` and
`height`, as `caption --format vg` writes it.

x and y are taken as counted from 0 (Differs from the paper: the released code counts them from 1;
the files have zeros in them).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from regiontalk.errors import DataError
from regiontalk.io.json_stream import stream_array
from regiontalk.lab.data.formats.fields import (
    as_object,
    as_size,
    as_text,
    box_xywh,
    reading,
    scores_of,
)
from regiontalk.lab.data.formats.sources import Format, Item, Source, read_entries
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.language.vocabulary import LONGEST_PHRASE, clean_densecap
from regiontalk.results import ImageRegions

REGIONS = "region_descriptions.json"
IMAGES = "image_data.json"


class _Photo(NamedTuple):
    name: str
    width: int
    height: int
    coco_id: str | None


def read(source: Source, of_coco: bool = False) -> Iterator[Item]:
    """Every photo; with `of_coco` those that are COCO's, under its ids."""
    photos = _read_images(source)
    for place, entry in stream_array(source.folder / REGIONS):
        with reading(place):
            identity = _identity(as_object(entry))
            if identity not in photos:
                raise DataError(f"{place}: image {identity} is not in {IMAGES}")
            photo = photos[identity]
            regions = tuple(_region(region) for region in entry["regions"])
        name = photo.coco_id if of_coco else str(identity)
        if name is not None:
            split = source.split_for(name, default="train")
            yield Item(
                place,
                Record(photo.name, photo.width, photo.height, split, regions=regions, id=name),
            )


def read_with_paths(source: Source) -> Iterator[Item]:
    def to_record(entry: Mapping[str, Any], _: str) -> Record:
        name = as_text(entry["path"], "path")
        split = source.split_for(name, default="train")
        regions = tuple(_region(region) for region in entry["regions"])
        return Record(name, *as_size(entry["width"], entry["height"]), split, regions=regions)

    return read_entries(stream_array(source.path), to_record)


def to_visual_genome(photos: Sequence[ImageRegions]) -> list[dict[str, Any]]:
    """`region_descriptions.json`: an entry for each photo, with a phrase for each region.

    `path`, `width`, `height` and the scores are ours: Visual Genome keeps files and sizes in
    `image_data.json`.
    """
    numbers = itertools.count(1)
    entries = []
    for image_id, photo in enumerate(photos, start=1):
        regions = []
        for region in photo.to_dict()["regions"]:
            box = dict(zip(("x", "y", "width", "height"), box_xywh(region["xyxy"]), strict=True))
            identity = {"region_id": next(numbers), "image_id": image_id}
            regions.append({**identity, **box, "phrase": region["caption"], **scores_of(region)})
        size = {"width": photo.width, "height": photo.height}
        entries.append({"id": image_id, "path": photo.path, **size, "regions": regions})
    return entries


def too_long(region: TrueRegion) -> str | None:
    """DenseCap section 4: a phrase of more than ten words. Only "°" makes a phrase longer when
    cleaned."""
    phrase = region.phrase
    if phrase.count(" ") < LONGEST_PHRASE and "°" not in phrase:
        return None
    return (
        None
        if clean_densecap(phrase) is not None
        else f"phrase of more than {LONGEST_PHRASE} words"
    )


FORMAT = Format(read, ("", "images"), min_regions=20, max_regions=50, drops=too_long)
FORMAT_WITH_PATHS = Format(read_with_paths)
FORMAT_ON_COCO = Format(partial(read, of_coco=True), ("", "images"), drops=too_long)


def _read_images(source: Source) -> dict[int, _Photo]:
    photos = {}
    for place, entry in stream_array(source.folder / IMAGES):
        with reading(place):
            identity = _identity(as_object(entry))
            url = PurePosixPath(as_text(entry["url"], "url"))
            width, height = as_size(entry["width"], entry["height"])
            coco_id = entry.get("coco_id")
            name = f"{url.parent.name}/{url.name}"
            photos[identity] = _Photo(
                name, width, height, None if coco_id is None else str(int(coco_id))
            )
    return photos


def _identity(entry: Mapping[str, Any]) -> int:
    """`image_id` since version 1.2, `id` before."""
    return int(entry["image_id"] if "image_id" in entry else entry["id"])


def _region(entry: Mapping[str, Any]) -> TrueRegion:
    left, top = entry["x"] + 0, entry["y"] + 0  # text instead of a number fails here
    box = (left, top, round(left + entry["width"], 4), round(top + entry["height"], 4))
    return TrueRegion(box, as_text(entry["phrase"], "phrase"), "phrase", **scores_of(entry))
