"""`regiontalk baseline`: the papers' comparison systems, whose output can be evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console, options
from regiontalk.cli.splits import test_split_option
from regiontalk.errors import need
from regiontalk.io.files import write_json_lines
from regiontalk.lab.data.records import Dataset, open_split
from regiontalk.lab.runs import recording

_shared = options.with_options(
    click.argument("dataset", type=options.PLACE),
    click.argument("codes", type=options.FILE),
    click.option(
        "-o",
        "--output",
        type=options.FILE,
        required=True,
        help="Output file: JSON lines, one photo per line.",
    ),
    test_split_option,
    options.quiet_option,
)


@click.group()
def command() -> None:
    """Run the papers' comparison systems on a data set with region codes (`regiontalk data
    codes`)."""


@command.command()
@_shared
def nearest_neighbour(*, dataset: Path, codes: Path, output: Path, split: str, quiet: bool) -> None:
    """Give each photo the first sentence of the nearest training photo, for `regiontalk evaluate
    captions`."""
    from regiontalk.lab.baselines.nearest_neighbour import transferred_sentences
    from regiontalk.lab.codes.store import CodedPhotos

    records = list(open_split(dataset, split))
    with recording("baseline nearest-neighbour", output) as record:
        record.uses("codes", codes)
        record.uses_data(dataset, split, len(records))
        sentences = transferred_sentences(
            records, list(Dataset(dataset, "train")), CodedPhotos.load(codes)
        )
        pairs = zip(records, sentences, strict=True)
        _write(
            output,
            ({"path": record.image, "sentence": sentence} for record, sentence in pairs),
            quiet,
        )


@command.command()
@_shared
@click.option(
    "--truths", type=options.FILE, required=True, help="Codes from `data codes --on-truths`."
)
@click.option(
    "--alignment", type=options.PLACE, required=True, help="A training run of an alignment net."
)
@click.option(
    "--beta", type=click.FloatRange(min=0), required=True, help="Larger values give longer pieces."
)
@options.place_weight_option
def region_ranking(
    *,
    dataset: Path,
    codes: Path,
    output: Path,
    split: str,
    truths: Path,
    alignment: Path,
    beta: float,
    place_weight: float,
    quiet: bool,
) -> None:
    """Give each true box the piece of a training sentence that fits it best, for `regiontalk
    evaluate regions`."""
    need("train", "running an alignment net", "torch", "safetensors")
    from regiontalk.lab.baselines.region_ranking import caption_truths, training_pieces
    from regiontalk.lab.codes.store import CodedPhotos
    from regiontalk.lab.training.heads.evaluation import open_aligned_photos
    from regiontalk.lab.training.heads.snippets import Snippets

    records = list(open_split(dataset, split))
    photos = open_aligned_photos(alignment, CodedPhotos.load(codes), place_weight)
    true_boxes = open_aligned_photos(alignment, CodedPhotos.load(truths))
    with recording(
        "baseline region-ranking", output, beta=beta, place_weight=place_weight, boxes="true"
    ) as record:
        record.uses("model", options.checkpoint_of(alignment))
        record.uses("codes", codes)
        record.uses("codes", truths)
        record.uses_data(dataset, split, len(records))
        training = console.track(
            Dataset(dataset, "train"), "Reading training sentences", quiet=quiet
        )
        pieces = training_pieces(Snippets(photos, beta), training)
        captioned = caption_truths(pieces, true_boxes, records)
        _write(output, (photo.to_dict() for photo in captioned), quiet)


def _write(output: Path, lines: Iterable[dict[str, Any]], quiet: bool) -> None:
    count = write_json_lines(output, lines)
    console.message(f"{output}: {console.count(count, 'photo')}", quiet)
