"""`regiontalk data merge|phrases|split|join`: a new data set from others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import options
from regiontalk.cli.data.making import keep_paths_option, making, pack_option
from regiontalk.errors import need
from regiontalk.lab.data import joining, merging
from regiontalk.lab.data.records import SPLITS


@click.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option(
    "--iou",
    type=float,
    default=0.7,
    show_default=True,
    help="Merge regions with at least this overlap.",
)
@making("Merging")
def merge(*, dataset: Path, out: Path, iou: float, **options: Any) -> Mapping[str, Any]:
    """Merge regions that overlap.

    Regions of DATASET that overlap by IOU or more become one region with the mean box and all
    phrases, as in DenseCap's evaluation (section 4). OUT is the new data set; the photos stay where
    they are.
    """
    return merging.merge_dataset(dataset, out, iou, **options)


@click.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option(
    "--split",
    "splits",
    type=click.Choice(SPLITS),
    multiple=True,
    default=("train",),
    show_default=True,
    help="The splits to add phrases to. Can be repeated.",
)
@keep_paths_option
@making("Parsing")
def phrases(
    *, dataset: Path, out: Path, splits: tuple[str, ...], **options: Any
) -> Mapping[str, Any]:
    """Add regions with phrases of several lengths, taken from the sentences.

    OUT is DATASET with added regions of type "derived": "a cat", "a white cat", "a white cat eating
    from a bowl". A phrase gets the box of its words (Flickr30k Entities), or that of the only
    object which its noun can mean.
    """
    from regiontalk.lab.data.parse_tree import PARSER, load_parser
    from regiontalk.lab.data.phrases import add_phrases

    need("parse", "cutting phrases", "spacy", PARSER)
    return add_phrases(dataset, out, load_parser(), splits, **options)


@click.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option(
    "--hold-out",
    type=click.IntRange(min=1),
    required=True,
    help="Photos for test, and as many for dev.",
)
@click.option(
    "--over",
    type=options.PLACE,
    help="Choose them from this larger data set, of which DATASET is a part.",
)
@click.option(
    "--except",
    "exclude",
    type=options.PLACE,
    multiple=True,
    help="Hold out no photo of this data set.",
)
@keep_paths_option
@making("Splitting")
def split(*, dataset: Path, out: Path, hold_out: int, **options: Any) -> Mapping[str, Any]:
    """Hold out photos for test and dev by a fixed rule.

    The train photos with sentences are sorted by the SHA-256 of their file names (without the
    extension). The first become test, the next dev.
    """
    from regiontalk.lab.data.splitting import split_dataset

    return split_dataset(dataset, out, hold_out, **options)


@click.command()
@click.argument("dataset", metavar="FIRST", type=options.PLACE)
@click.argument("others", type=options.PLACE, nargs=-1, required=True)
@click.argument("out", type=options.PLACE)
@pack_option
@making("Joining")
def join(
    *, dataset: Path, others: tuple[Path, ...], out: Path, **options: Any
) -> Mapping[str, Any]:
    """Add the regions of other data sets about the same photos.

    OUT has the photos, sizes and splits of FIRST, and the regions of all data sets. Photos are
    matched by their ids (COCO's or Flickr's number). Boxes are scaled where two copies of a photo
    have different sizes. Sentences come from the first data set that has any.
    """
    return joining.join_datasets(dataset, others, out, **options)
