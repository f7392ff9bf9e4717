"""Turns a data set of another format into records: reads sizes, clips boxes to the image, counts
what is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from regiontalk.errors import DataError, ImageError, SkippedInputs, UsageError
from regiontalk.images.photo import Photo
from regiontalk.lab.data.formats import (
    coco,
    csv_table,
    flickr8k,
    flickr30k_entities,
    hugging_face,
    json_lines,
    karpathy,
    label_studio,
    refcoco,
    visual_genome,
    xmp,
    yolo,
)
from regiontalk.lab.data.formats.sources import (
    NO_SPLIT,
    Format,
    Item,
    Skipped,
    Source,
    read_split_file,
)
from regiontalk.lab.data.packing import packing
from regiontalk.lab.data.records import Record, TarShards, TrueRegion, checked
from regiontalk.lab.data.region_boxes import Unusable, clamp_region, scale_region
from regiontalk.lab.data.writing import Counts, write_dataset

FORMATS: dict[str, Format] = {
    "visual-genome": visual_genome.FORMAT,
    "flickr30k-entities": flickr30k_entities.FORMAT,
    "flickr8k": flickr8k.FORMAT,
    "karpathy": karpathy.FORMAT,
    "coco": coco.FORMAT,
    "refcoco": refcoco.FORMAT,
    "visual-genome-coco": visual_genome.FORMAT_ON_COCO,
    "vg": visual_genome.FORMAT_WITH_PATHS,
    "hf": hugging_face.FORMAT,
    "labelstudio": label_studio.FORMAT,
    "yolo": yolo.FORMAT,
    "csv": csv_table.FORMAT,
    "jsonl": json_lines.FORMAT,
    "xmp": xmp.FORMAT,
}


@dataclass(frozen=True)
class Settings:
    """How a source is prepared; None: the default of its format. `pack`: long side of packed
    photos."""

    images: Path | None = None
    split_file: Path | None = None
    min_regions: int | None = None
    max_regions: int | None = None
    pack: int | None = None
    strict: bool = False
    force: bool = False


@dataclass
class Report:
    """Counts of what was not used or was changed.

    `skipped`: images with errors; `left_out`: images that a rule leaves out; `dropped`: regions;
    `clamped`: regions whose boxes were clipped to the image; `missing`: photos that do not exist.
    """

    skipped: list[Skipped] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    clamped: int = 0
    missing: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "skipped_images": dict(
                sorted(Counter(skipped.kind for skipped in self.skipped).items())
            ),
            "left_out_images": dict(sorted(self.left_out.items())),
            "missing_photos": self.missing,
            "dropped_regions": dict(sorted(self.dropped.items())),
            "clamped_regions": self.clamped,
        }


class Prepared(NamedTuple):
    """The description in `dataset.json`, and the skipped images one by one."""

    description: dict[str, Any]
    skipped: list[Skipped]


def prepare(
    format_name: str,
    path: Path,
    out: Path,
    settings: Settings = Settings(),
    track: Callable[[Iterable[Item | Skipped]], Iterable[Item | Skipped]] = iter,
) -> Prepared:
    """Reads the data set `path` and writes the data set `out` atomically."""
    source = _open_source(path, settings)
    form = _with_settings(FORMATS[format_name], settings)
    report = Report()

    def records(folder: Path) -> Iterator[Record]:
        with packing(folder, settings.pack, TarShards(source.folder)) as packed:
            yield from RecordMaker(form, source, report).records(track(form.read(source)), packed)

    def results(counts: Counts) -> dict[str, Any]:
        _check_outcome(counts["images"], path, report, settings.strict)
        return report.to_dict()

    used = {
        "split_file": None if settings.split_file is None else settings.split_file.name,
        "min_regions": form.min_regions,
        "max_regions": form.max_regions,
        "pack": settings.pack,
    }
    how = {"source": format_name, "settings": used}
    return Prepared(write_dataset(out, settings.force, path, how, records, results), report.skipped)


@dataclass
class RecordMaker:
    """Makes records of a source's items, and notes in `report` what it could not use."""

    form: Format
    source: Source
    report: Report

    def __post_init__(self) -> None:
        self._places: dict[tuple[str | None, str], str] = {}

    def records(
        self, items: Iterable[Item | Skipped], packed: Callable[[Record], Record]
    ) -> Iterator[Record]:
        for item in items:
            if isinstance(item, Skipped):
                self.report.skipped.append(item)
                continue
            try:
                record = self._record(item)
                if record is not None:
                    yield packed(record)
            except ImageError as error:
                self._skip(item, "unreadable photo", str(error))

    def _record(self, item: Item) -> Record | None:
        """The record of an item; None (and an entry in `report`) if it cannot be used."""
        record = checked(item.record, item.place)
        if record.split == NO_SPLIT:
            self.report.left_out["in no split"] += 1
            return None
        image, there = (
            self.source.locate(record.image, self.form)
            if record.shard is None
            else (record.image, True)
        )
        if not record.width and not there:
            self._skip(item, "photo not found", f"photo not found: {image}")
            return None
        if self._places.setdefault((record.shard, image), item.place) != item.place:
            self._skip(
                item, "duplicate", f"the same photo as in {self._places[record.shard, image]}"
            )
            return None
        width, height = (record.width, record.height) if record.width else Photo(image).size
        regions = tuple(self._fit(item, width, height))
        reason = self._rule_against(regions, record.sentences)
        if reason is not None:
            self.report.left_out[reason] += 1
            return None
        self.report.missing += not there
        return replace(record, image=image, width=width, height=height, regions=regions)

    def _fit(self, item: Item, width: int, height: int) -> Iterator[TrueRegion]:
        for number, region in enumerate(item.record.regions):
            reason = self.form.drops(region)
            if reason is not None:
                self.report.dropped[reason] += 1
                continue
            try:
                placed = scale_region(region, width, height) if item.fractions else region
                fitted = clamp_region(placed, width, height)
            except Unusable as problem:
                if self.form.own:
                    place = item.region_place(number)
                    raise DataError(
                        f"{place}: {problem}: {list(region.xyxy)} {region.phrase!r}"
                    ) from problem
                self.report.dropped[str(problem)] += 1
            except (ValueError, OverflowError) as error:
                raise DataError(f"{item.region_place(number)}: {error}") from error
            else:
                self.report.clamped += fitted is not placed
                yield fitted

    def _rule_against(
        self, regions: tuple[TrueRegion, ...], sentences: tuple[str, ...]
    ) -> str | None:
        if len(regions) < self.form.min_regions:
            return f"fewer than {self.form.min_regions} regions"
        if self.form.max_regions is not None and len(regions) > self.form.max_regions:
            return f"more than {self.form.max_regions} regions"
        return None if regions or sentences else "neither region nor sentence"

    def _skip(self, item: Item, kind: str, reason: str) -> None:
        self.report.skipped.append(Skipped(item.place, kind, reason))


def _open_source(path: Path, settings: Settings) -> Source:
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    if settings.images is not None and not settings.images.is_dir():
        raise DataError(f"{settings.images}: no folder of photos")
    splits = None if settings.split_file is None else read_split_file(settings.split_file)
    return Source(path, settings.images, splits)


def _with_settings(form: Format, settings: Settings) -> Format:
    low = form.min_regions if settings.min_regions is None else settings.min_regions
    high = form.max_regions if settings.max_regions is None else settings.max_regions
    if low < 0 or (high is not None and high < low):
        raise UsageError(f"no image has at least {low} and at most {high} regions")
    return replace(form, min_regions=low, max_regions=high)


def _check_outcome(written: int, path: Path, report: Report, strict: bool) -> None:
    if strict and report.skipped:
        first = report.skipped[0]
        raise SkippedInputs(
            f"images that cannot be used: {len(report.skipped)}; the first is {first.place}: "
            f"{first.reason}",
            hint="without --strict they are listed and skipped",
        )
    if written:
        return
    reasons = Counter(skipped.kind for skipped in report.skipped) + report.left_out + report.dropped
    detail = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common(3))
    raise DataError(f"{path}: an empty data set" + (f" ({detail})" if detail else ""))
