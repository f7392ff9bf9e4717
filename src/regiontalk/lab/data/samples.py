"""A contact sheet of sample records with their regions, to check a data set by eye."""

from __future__ import annotations

from pathlib import Path

from PIL.Image import Image

from regiontalk.images.photo import open_photo
from regiontalk.lab.data.records import Record, TarShards, evenly_spaced, open_split
from regiontalk.results import BoxXYXY
from regiontalk.show import drawing

SAMPLE_PHOTOS = 12
SHEET_COLUMNS = 4
MOST_REGIONS = 10  # drawn on one photo: more cannot be read


def sample_sheet(folder: Path, split: str | None = None) -> Image:
    """Records from all over the data set, evenly spaced."""
    dataset = open_split(folder, split)
    shards = TarShards(folder)
    records = [dataset[number] for number in evenly_spaced(len(dataset), SAMPLE_PHOTOS)]
    pictures = [draw_record(record, open_photo(shards.photo(record))) for record in records]
    return drawing.contact_sheet(pictures, [_title(record) for record in records], SHEET_COLUMNS)


def draw_record(record: Record, photo: Image) -> Image:
    """The photo with the record's first regions; a plural phrase is drawn on each of its boxes."""
    boxes: list[BoxXYXY] = []
    phrases: list[str] = []
    for region in record.regions[:MOST_REGIONS]:
        region_boxes = region.boxes_xyxy or (region.xyxy,)
        boxes += region_boxes
        phrases += [region.phrase] * len(region_boxes)
    return drawing.draw_regions(photo, boxes, phrases)


def _title(record: Record) -> str:
    name = Path(record.image).name
    return f"{name}: {record.sentences[0]}" if record.sentences else name
