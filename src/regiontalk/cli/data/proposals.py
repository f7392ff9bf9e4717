"""`regiontalk data proposals`: where to look in the photos of a data set, into a file of
regions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from regiontalk.cli import console, options
from regiontalk.cli.region_sources import EDGE_BOXES, MOST_BOXES, edge_boxes, edge_model_option
from regiontalk.cli.splits import one_split_option
from regiontalk.errors import UsageError
from regiontalk.images.paths import in_order
from regiontalk.io.files import write_json_lines
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record, open_split
from regiontalk.lab.data.region_files import ScoredBoxes, region_line
from regiontalk.lab.runs import recording
from regiontalk.models import packaged


@click.command()
@click.argument("source", metavar="edgeboxes|RUN|MODEL")
@click.argument("data", type=options.PLACE)
@click.argument("out", type=options.FILE)
@one_split_option
@click.option(
    "--count",
    type=click.IntRange(1, 10_000),
    default=MOST_BOXES,
    show_default=True,
    help="Regions per photo.",
)
@edge_model_option
@options.device_option
@options.workers_option
@options.quiet_option
def proposals(
    *,
    source: str,
    data: Path,
    out: Path,
    split: str | None,
    count: int,
    edge_model: Path | None,
    device: str,
    workers: int,
    quiet: bool,
) -> None:
    """Find regions without captions, for `predict --regions` and for data.proposals in a recipe.

    The regions are EdgeBoxes, or a model's best proposals after its recognition network has refined
    and scored them. OUT is a file of JSON lines, one line per photo of DATA; it is gzipped if its
    name ends in .gz.
    """
    dataset = open_split(data, split)
    if source != EDGE_BOXES and edge_model is not None:
        raise UsageError("--edge-model is for edgeboxes")
    name, find = _finder(source, dataset, count, edge_model, device)
    gpu = None if source == EDGE_BOXES else options.device_name(packaged.place_of(source), device)
    with recording("data proposals", out, gpu, source=name, count=count) as record:
        if source != EDGE_BOXES:
            record.uses("model", options.model_place(packaged.place_of(source)))
        record.uses_data(data, split, len(dataset))
        lines = in_order(lambda record: region_line(record, find(record), name), dataset, workers)
        write_json_lines(out, console.track(lines, f"Looking at {data}", len(dataset), quiet))
    console.message(f"{out}: {console.count(len(dataset), 'photo')}, {name}", quiet)


def _finder(
    source: str, dataset: Dataset, count: int, edge_model: Path | None, device: str
) -> tuple[str, Callable[[Record], ScoredBoxes]]:
    if source == EDGE_BOXES:
        name, boxes_of = edge_boxes(edge_model, count)
        return name, lambda record: boxes_of(record, dataset.read_photo(record))
    dataset_model = DatasetModel(options.load_model(packaged.place_of(source), device), dataset)
    return dataset_model.model.runtime.info.name, lambda record: dataset_model.proposals(
        record, count
    )
