"""`regiontalk data prepare|check|stats`: other formats into records, and what is in them."""

from __future__ import annotations

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console, options
from regiontalk.cli.data.making import force_option, pack_option, print_description
from regiontalk.cli.splits import one_split_option
from regiontalk.errors import DataError, one_line
from regiontalk.io.files import replacing
from regiontalk.lab.data import prepare, statistics
from regiontalk.lab.data.checking import Checker

MOST_NAMED = 20  # skipped images named one by one


@click.command(name="prepare")
@click.argument("format_name", metavar="FORMAT", type=click.Choice(list(prepare.FORMATS)))
@click.argument("source", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option(
    "--images", type=options.PLACE, help="The folder of the photos, if they are not in SOURCE."
)
@click.option(
    "--split-file",
    type=options.PLACE,
    help='A JSON file: {"train": [names or ids], "val": [...], ...}.',
)
@click.option(
    "--min-regions", type=int, help="Leave out images with fewer regions. [visual-genome: 20]"
)
@click.option(
    "--max-regions", type=int, help="Leave out images with more regions. [visual-genome: 50]"
)
@pack_option
@click.option("--strict", is_flag=True, help="Fail if an image cannot be used.")
@force_option
@options.json_option
@options.quiet_option
def prepare_command(
    format_name: str, source: Path, out: Path, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Turn a data set in another format into records.

    SOURCE is the data set as it was downloaded, OUT the folder to write.

    \b
    FORMAT               SOURCE
    visual-genome        folder with region_descriptions.json and image_data.json
    flickr30k-entities   folder with Annotations/, Sentences/, train.txt, val.txt, test.txt
    flickr8k             folder with Flickr8k.token.txt and Flickr_8k.*Images.txt
    karpathy             dataset_flickr8k.json, dataset_flickr30k.json or dataset_coco.json
    coco                 folder with captions_*.json and/or instances_*.json, or one such file
    refcoco              folder with instances.json and refs(unc).p, refs(umd).p or refs(google).p
    visual-genome-coco   the same, only photos that are in COCO, with COCO's ids, for `data join`
    vg                   region descriptions with paths, as `caption --format vg` writes them
    hf                   folder with metadata.jsonl (Hugging Face's imagefolder), or that file
    labelstudio          Label Studio's JSON export, or what `caption --format labelstudio` writes
    yolo                 folder with data.yaml (or classes.txt), labels/ and images/
    csv                  table: path, x0, y0, x1, y1 (or x, y, w, h), phrase, split
    jsonl                records, or what `regiontalk caption --json` prints
    xmp                  folder of photos with XMP sidecars, as `caption --format xmp` writes them
    """
    track = functools.partial(console.track, description=f"Preparing {source}", quiet=quiet)
    done = prepare.prepare(format_name, source, out, prepare.Settings(**settings), track)
    for skipped in done.skipped[:MOST_NAMED]:
        console.message(f"skipped {skipped.place}: {skipped.reason}", quiet)
    if len(done.skipped) > MOST_NAMED:
        console.message(f"skipped {len(done.skipped) - MOST_NAMED} more", quiet)
    print_description(str(out), done.description, as_json)


@click.command()
@click.argument("dataset", type=options.PLACE)
@click.option("--quick", is_flag=True, help="Check that the photos exist, but do not open them.")
@options.json_option
@options.quiet_option
def check(dataset: Path, quick: bool, as_json: bool, quiet: bool) -> None:
    """List every broken record with its line. The exit code is 4 if there is one."""
    checker = Checker(dataset, quick)
    track = functools.partial(console.track, description=f"Checking {dataset}", quiet=quiet)
    problems = list(checker.problems(track))
    broken = len({problem.line for problem in problems})
    if as_json:
        problem_list = [asdict(problem) for problem in problems]
        console.print_json({"records": checker.records, "broken": broken, "problems": problem_list})
    else:
        for problem in problems:
            click.echo(one_line(str(problem)))
    if problems:
        raise DataError(f"{dataset}: {broken} of {checker.records} records are broken")
    console.message(f"{dataset}: {console.count(checker.records, 'record')}, nothing broken", quiet)


@click.command()
@click.argument("dataset", type=options.PLACE)
@one_split_option
@click.option(
    "-o", "--output", type=options.PLACE, help="Draw some of the records on a contact sheet (PNG)."
)
@options.json_option
@options.quiet_option
def stats(
    dataset: Path, split: str | None, output: Path | None, as_json: bool, quiet: bool
) -> None:
    """Count images, regions, sentences and words."""
    track = functools.partial(console.track, description=f"Counting {dataset}", quiet=quiet)
    counted = statistics.count_dataset(dataset, split, track)
    if output is not None:
        from regiontalk.lab.data.samples import sample_sheet

        sheet = sample_sheet(dataset, split)
        with replacing(output) as partial:
            sheet.save(partial, "PNG")
    print_description(str(dataset), counted, as_json)
