"""Judging captions by eye: which ones are shown, the page to judge them on, sheets for judges
without a browser, and the figures.

A judging is a JSON file, downloaded from the page or filled in beside the sheets. One judge says of
each caption whether it is right, half right or wrong.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from PIL import Image

from regiontalk import boxes
from regiontalk.boxes import Integers
from regiontalk.errors import DataError, RegionTalkError
from regiontalk.images.photo import reduced
from regiontalk.io.files import json_file, new_folder, read_json, replacing
from regiontalk.io.typed import to_dataclass
from regiontalk.lab.evaluation.files import (
    PredictedSentence,
    Predictions,
    Problems,
    Size,
    read_objects,
    read_predictions,
)
from regiontalk.lab.evaluation.intervals import bootstrap
from regiontalk.results import BoxXYXY, ImageRegions, Region, Shown
from regiontalk.show import drawing
from regiontalk.show.page import fill_template, jpeg_base64, json_for_html

SCHEMA = "regiontalk-judging/1"
VERDICTS = ("right", "half", "wrong")
SKELETON = "judging.json"
LONG_SIDE = 1024  # pixels of a photo on the page
ON_A_SHEET = 6  # photos
LARGEST_SIDE = 1 << 20  # pixels of a photo that predictions may speak of

OpenPhoto = Callable[[str], Image.Image]
Opened = tuple[ImageRegions, Image.Image]


@dataclass(frozen=True)
class Item:
    """A caption to judge, and the verdict once there is one. A sentence is about the box of the
    whole photo."""

    photo: str
    xyxy: BoxXYXY
    caption: str
    verdict: str | None = None
    sheet: str | None = None
    number: int | None = None
    """The number of the box on the sheets."""

    def __post_init__(self) -> None:
        if self.verdict not in (*VERDICTS, None):
            raise DataError(f"the verdict {self.verdict!r} is none of {', '.join(VERDICTS)}")


@dataclass(frozen=True)
class Judging:
    judge: str
    date: str
    model: str
    items: tuple[Item, ...]
    schema: str = SCHEMA


# -- which captions
# ------------------------------------------------------------------------------------------


def read_captioned(
    path: Path, sizes: Mapping[str, Size], problems: Problems
) -> Iterator[ImageRegions]:
    """What `caption` or `describe` said of photos, of such sizes. A sentence is a region as large
    as the photo."""
    first = next((data for _, data in read_objects(path, Problems())), {})
    if "sentence" not in first:
        yield from read_predictions(path, sizes, problems)
        return
    for _, name, line in Predictions(path, PredictedSentence, sizes, problems):
        whole = (0.0, 0.0, float(sizes[name][0]), float(sizes[name][1]))
        yield ImageRegions(name, *sizes[name], line.model, (Region(whole, 1.0, line.sentence),))


def own_sizes(path: Path) -> dict[str, Size]:
    """The photos that a file of predictions names, with their sizes, for photos that no record
    describes."""
    sizes: dict[str, Size] = {}
    for _, data in read_objects(path, Problems()):
        name, width, height = (data.get(key) for key in ("path", "width", "height"))
        if type(name) is str and _is_side(width) and _is_side(height):
            sizes[name] = (width, height)
    if not sizes:
        raise DataError(
            f"{path}: no line has a path, a width and a height",
            hint="regiontalk caption --json writes them",
        )
    return sizes


def _is_side(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= LARGEST_SIDE


def choose(
    photos: Iterable[ImageRegions], count: int, shown: Shown, seed: int = 0
) -> list[ImageRegions]:
    """A random sample of the photos, with the regions of each that are shown at first. Photos
    without any are left out."""
    able = []
    for photo in sorted(photos, key=lambda photo: photo.path):
        regions = shown.at_first(sorted(photo.regions, key=lambda region: -region.score))
        if regions:
            able.append(replace(photo, regions=tuple(regions)))
    if not able:
        raise DataError("no caption to judge")
    return [able[number] for number in np.random.default_rng(seed).permutation(len(able))[:count]]


def open_photos(
    photos: Iterable[ImageRegions], opener: OpenPhoto, problems: Problems
) -> Iterator[Opened]:
    """The photos that can be opened, one after the other."""
    opened = 0
    for photo in photos:
        try:
            image = opener(photo.path)
        except RegionTalkError as error:
            problems.add(photo.path, f"{error.message}; skipped")
            continue
        opened += 1
        yield photo, image
    if not opened:
        raise DataError("none of the photos can be opened")


# -- showing them
# --------------------------------------------------------------------------------------------


def write_page(path: Path, photos: Iterable[Opened]) -> list[Item]:
    """One self-contained page."""
    before, after = fill_template("judge", package=__package__).split("{{data}}")
    items: list[Item] = []
    models: set[str] = set()
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(before + '{"photos": [')
        for photo, image in photos:
            regions = [
                {
                    "xyxy": region.xyxy,
                    "share": _share(region.xyxy, photo),
                    "caption": region.caption,
                }
                for region in photo.regions
            ]
            entry = {
                "photo": photo.path,
                "jpeg": jpeg_base64(reduced(image, LONG_SIDE), 82),
                "regions": regions,
            }
            file.write((",\n" if items else "\n") + json_for_html(entry))
            items += [Item(photo.path, region.xyxy, region.caption) for region in photo.regions]
            models.add(photo.model)
        about = {"schema": SCHEMA, "model": _names(models), "set": _fingerprint(items)}
        file.write(f"],\n{json_for_html(about)[1:]}{after}")
    return items


def _share(xyxy: BoxXYXY, photo: ImageRegions) -> list[float]:
    """The box in widths and heights of the photo, as the page's picture may have other pixels."""
    scaled: list[float] = boxes.scale([xyxy], 1 / photo.width, 1 / photo.height)[0].tolist()
    return [min(max(value, 0.0), 1.0) for value in scaled]


def _names(models: Iterable[str]) -> str:
    return ", ".join(sorted(filter(None, models)))


def _fingerprint(items: Sequence[Item]) -> str:
    """Tells sets of captions apart: under it the browser keeps what was judged."""
    return hashlib.sha256(json_file({"items": [asdict(item) for item in items]})).hexdigest()[:16]


def write_sheets(folder: Path, photos: Iterable[Opened]) -> list[Item]:
    """Sheets of photos with numbered boxes, and a judging whose verdicts are to be filled in."""
    items: list[Item] = []
    models: set[str] = set()
    remaining = iter(photos)
    with new_folder(folder) as temporary:
        while some := list(islice(remaining, ON_A_SHEET)):
            name = f"sheet-{len(list(temporary.iterdir())) + 1:03}.jpg"
            pictures = []
            for photo, image in some:
                numbered = enumerate(photo.regions, start=len(items) + 1)
                photo_items = [
                    Item(photo.path, region.xyxy, region.caption, None, name, number)
                    for number, region in numbered
                ]
                scaled = boxes.scale(
                    [item.xyxy for item in photo_items],
                    image.width / photo.width,
                    image.height / photo.height,
                )
                labels = [f"{item.number}: {item.caption}" for item in photo_items]
                pictures.append(drawing.draw_regions(image, scaled, labels))
                items += photo_items
                models.add(photo.model)
            titles = [photo.path for photo, _ in some]
            drawing.contact_sheet(pictures, titles, columns=2).save(temporary / name, quality=90)
        (temporary / SKELETON).write_bytes(
            json_file(asdict(Judging("", "", _names(models), tuple(items))))
        )
    return items


# -- figures
# -------------------------------------------------------------------------------------------------


def read_judging(path: Path) -> Judging:
    """A judging in which at least one caption is judged."""
    judging = to_dataclass(Judging, read_json(path), str(path))
    if judging.schema != SCHEMA:
        raise DataError(f"{path}: {judging.schema!r} is not a judging ({SCHEMA!r})")
    if not any(item.verdict for item in judging.items):
        raise DataError(f"{path}: nothing is judged yet")
    return judging


def evaluate_judgings(judgings: Sequence[Judging]) -> dict[str, Any]:
    """Shares of verdicts, in percent with 95 % intervals over photos, of all judges and of each;
    and how far judges agree.

    Verdicts on the captions of one photo, and of several judges on the same captions, are not
    independent: so photos are drawn, with all their verdicts.
    """
    verdicts_by_judge = [_verdicts(judging) for judging in judgings]
    captions = len(set(chain.from_iterable(verdicts_by_judge)))
    return {
        **_shares(verdicts_by_judge),
        "captions": captions,
        "judges": [
            {
                "judge": judging.judge,
                "date": judging.date,
                "model": judging.model,
                "captions": len(verdicts),
            }
            | _shares([verdicts])
            for judging, verdicts in zip(judgings, verdicts_by_judge, strict=True)
        ],
        "agreement": [
            {"judges": [judgings[a].judge, judgings[b].judge], **figures}
            for a, b in combinations(range(len(verdicts_by_judge)), 2)
            if (figures := agreement(verdicts_by_judge[a], verdicts_by_judge[b]))
        ],
    }


def _verdicts(judging: Judging) -> dict[Any, str]:
    return {
        (item.photo, item.xyxy, item.caption): item.verdict
        for item in judging.items
        if item.verdict
    }


def _shares(judged: Iterable[Mapping[Any, str]]) -> dict[str, Any]:
    """The share of each verdict in what several judges said, with its interval."""
    by_photo: dict[str, Counter[str]] = {}
    for verdicts in judged:
        for (photo, *_), verdict in verdicts.items():
            by_photo.setdefault(photo, Counter())[verdict] += 1
    counts = np.array([itemgetter(*VERDICTS)(counted) for counted in by_photo.values()])

    def shares_of(photos: Integers) -> dict[str, float]:
        totals = counts[photos].sum(0)
        return dict(zip(VERDICTS, (100 * totals / totals.sum()).tolist(), strict=True))

    intervals = bootstrap(len(counts), shares_of)
    return shares_of(np.arange(len(counts))) | {"intervals": intervals}


def agreement(first: Mapping[Any, str], second: Mapping[Any, str]) -> dict[str, Any] | None:
    """Percent of equal verdicts and Cohen's kappa, over the captions that both judged; None where
    there are none."""
    both = [(first[key], second[key]) for key in first if key in second]
    if not both:
        return None
    equal = sum(a == b for a, b in both) / len(both)
    of_first, of_second = (Counter(verdicts) for verdicts in zip(*both, strict=True))
    by_chance = sum(of_first[name] * of_second[name] for name in VERDICTS) / len(both) ** 2
    kappa = (equal - by_chance) / (1 - by_chance) if by_chance < 1 else None
    return {"captions": len(both), "percent": 100 * equal, "kappa": kappa}
