"""`regiontalk data`: turns data sets into records; checks, counts, joins and merges them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console, options, proposals
from regiontalk.data import joining, merging, prepare, statistics
from regiontalk.data.checking import Checker
from regiontalk.data.records import SPLITS
from regiontalk.errors import DataError, one_line
from regiontalk.files import replacing

MOST_NAMED = 20  # skipped images named one by one

pack_option = click.option("--pack", type=int, metavar="PX", help="Copy photos into tar shards, long side at most PX.")
force_option = click.option("--force", is_flag=True, help="Replace an existing data set.")
keep_paths_option = click.option(
    "--keep-paths",
    is_flag=True,
    help="Keep the photos' relative paths, for an OUT in the same folder as DATASET.",
)


def making(doing: str) -> Callable[[Callable[..., Mapping[str, Any]]], Callable[..., None]]:
    """For a verb that makes the data set `out` from `dataset`, with a progress bar (`track`); it returns the summary to
    print."""

    def decorate(make: Callable[..., Mapping[str, Any]]) -> Callable[..., None]:
        @force_option
        @options.json_option
        @options.quiet_option
        @functools.wraps(make)
        def command(*, dataset: Path, out: Path, as_json: bool, quiet: bool, **options: Any) -> None:
            track = functools.partial(console.track, description=f"{doing} {dataset}", quiet=quiet)
            _print_description(str(out), make(dataset=dataset, out=out, track=track, **options), as_json)

        return command

    return decorate


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Turn public data sets, or your own, into records; check, count, join and merge them."""


command.add_command(proposals.command, "proposals")


@command.command(name="prepare")
@click.argument("format_name", metavar="FORMAT", type=click.Choice(list(prepare.FORMATS)))
@click.argument("source", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option("--images", type=options.PLACE, help="The folder of the photos, if they are not in SOURCE.")
@click.option("--split-file", type=options.PLACE, help='A JSON file: {"train": [names or ids], "val": [...], ...}.')
@click.option("--min-regions", type=int, help="Leave out images with fewer regions. [visual-genome: 20]")
@click.option("--max-regions", type=int, help="Leave out images with more regions. [visual-genome: 50]")
@pack_option
@click.option("--strict", is_flag=True, help="Fail if an image cannot be used.")
@force_option
@options.json_option
@options.quiet_option
def prepare_command(format_name: str, source: Path, out: Path, as_json: bool, quiet: bool, **settings: Any) -> None:
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
    visual-genome-coco   like visual-genome, but only photos that are in COCO, with COCO's ids, for `data join`
    vg                   region descriptions with paths, as `caption --format vg` writes them
    hf                   folder with metadata.jsonl (Hugging Face's imagefolder), or that file
    labelstudio          Label Studio's JSON export, or what `caption --format labelstudio` writes
    yolo                 folder with data.yaml (or classes.txt), labels/ and images/
    csv                  table: path, x0, y0, x1, y1 (or x, y, w, h), phrase, split
    jsonl                records, or what `regiontalk caption --json` prints
    xmp                  folder of photos with XMP sidecars, such as `regiontalk caption --format xmp` writes
    """
    track = functools.partial(console.track, description=f"Preparing {source}", quiet=quiet)
    done = prepare.prepare(format_name, source, out, prepare.Settings(**settings), track)
    for skipped in done.skipped[:MOST_NAMED]:
        console.message(f"skipped {skipped.place}: {skipped.reason}", quiet)
    if len(done.skipped) > MOST_NAMED:
        console.message(f"skipped {len(done.skipped) - MOST_NAMED} more", quiet)
    _print_description(str(out), done.description, as_json)


@command.command()
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
        found = [asdict(problem) for problem in problems]
        console.print_json({"records": checker.records, "broken": broken, "problems": found})
    else:
        for problem in problems:
            click.echo(one_line(str(problem)))
    if problems:
        raise DataError(f"{dataset}: {broken} of {checker.records} records are broken")
    console.message(f"{dataset}: {console.count(checker.records, 'record')}, nothing broken", quiet)


@command.command()
@click.argument("dataset", type=options.PLACE)
@options.one_split_option
@click.option("-o", "--output", type=options.PLACE, help="Draw some of the records on a contact sheet (PNG).")
@options.json_option
@options.quiet_option
def stats(dataset: Path, split: str | None, output: Path | None, as_json: bool, quiet: bool) -> None:
    """Count images, regions, sentences and words."""
    track = functools.partial(console.track, description=f"Counting {dataset}", quiet=quiet)
    counted = statistics.count_dataset(dataset, split, track)
    if output is not None:
        from regiontalk.data.samples import sample_sheet

        sheet = sample_sheet(dataset, split)
        with replacing(output) as partial:
            sheet.save(partial, "PNG")
    _print_description(str(dataset), counted, as_json)


@command.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option("--iou", type=float, default=0.7, show_default=True, help="Merge regions with at least this overlap.")
@making("Merging")
def merge(*, dataset: Path, out: Path, iou: float, **options: Any) -> Mapping[str, Any]:
    """Merge regions that overlap.

    Regions of DATASET that overlap by IOU or more become one region with the mean box and all phrases, as in DenseCap's
    evaluation (section 4). OUT is the new data set; the photos stay where they are.
    """
    return merging.merge_dataset(dataset, out, iou, **options)


@command.command()
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
def phrases(*, dataset: Path, out: Path, splits: tuple[str, ...], **options: Any) -> Mapping[str, Any]:
    """Add regions with phrases of several lengths, taken from the sentences.

    OUT is DATASET with added regions of type "derived": "a cat", "a white cat", "a white cat eating from a bowl". A
    phrase gets the box of its words (Flickr30k Entities), or that of the only object which its noun can mean.
    """
    from regiontalk.data.parse_tree import PARSER, load_parser
    from regiontalk.data.phrases import add_phrases

    console.need("parse", "cutting phrases", "spacy", PARSER)
    return add_phrases(dataset, out, load_parser(), splits, **options)


@command.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option("--hold-out", type=click.IntRange(min=1), required=True, help="Photos for test, and as many for dev.")
@click.option("--over", type=options.PLACE, help="Choose them from this larger data set, of which DATASET is a part.")
@click.option("--except", "exclude", type=options.PLACE, multiple=True, help="Hold out no photo of this data set.")
@keep_paths_option
@making("Splitting")
def split(*, dataset: Path, out: Path, hold_out: int, **options: Any) -> Mapping[str, Any]:
    """Hold out photos for test and dev by a fixed rule.

    The train photos with sentences are sorted by the SHA-256 of their file names (without the extension). The first
    become test, the next dev.
    """
    from regiontalk.data.splitting import split_dataset

    return split_dataset(dataset, out, hold_out, **options)


@command.command()
@click.argument("dataset", metavar="FIRST", type=options.PLACE)
@click.argument("others", type=options.PLACE, nargs=-1, required=True)
@click.argument("out", type=options.PLACE)
@pack_option
@making("Joining")
def join(*, dataset: Path, others: tuple[Path, ...], out: Path, **options: Any) -> Mapping[str, Any]:
    """Add the regions of other data sets about the same photos.

    OUT has the photos, sizes and splits of FIRST, and the regions of all data sets. Photos are matched by their ids
    (COCO's or Flickr's number). Boxes are scaled where two copies of a photo have different sizes. Sentences come from
    the first data set that has any.
    """
    return joining.join_datasets(dataset, others, out, **options)


@command.command()
@click.argument("vectors", type=options.FILE)
@click.argument("datasets", type=options.PLACE, nargs=-1, required=True)
@click.argument("out", type=options.FILE)
@options.json_option
def vectors(*, vectors: Path, datasets: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Select the word vectors of the words in data sets, for word_vectors in a recipe.

    VECTORS is a text file with one word and its numbers per line, such as glove.6B.100d.txt. OUT is an .npz file.
    """
    from regiontalk.data.word_vectors import write_word_vectors

    _print_description(str(out), {"words": write_word_vectors(vectors, datasets, out)}, as_json)


@command.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.FILE)
@click.option("--model", type=options.MODEL, required=True, help="The model folder that computes them.")
@click.option("--surroundings", is_flag=True, help="Also compute codes of the boxes made twice as wide and high.")
@click.option("--on-truths", is_flag=True, help="Use the boxes of the data set instead of the best regions.")
@options.one_split_option
@click.option("--size", type=click.IntRange(min=1), help="Long side of the resized photos. Default: the model's.")
@options.workers_option
@options.json_option
@options.quiet_option
def codes(
    *,
    dataset: Path,
    out: Path,
    model: Path,
    surroundings: bool,
    on_truths: bool,
    split: str | None,
    size: int | None,
    workers: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compute region codes, which heads are trained on.

    OUT is an .npz file with the 19 best regions of every photo of DATASET and the whole photo: boxes, scores, codes.
    If it is stopped, the same command continues where it stopped.
    """
    from regiontalk.codes.build import Origin, compute_codes

    def track(numbers: Iterable[int], total: int) -> Iterator[int]:
        return console.track(numbers, f"Computing codes of {dataset}", total, quiet)

    coded = compute_codes(Origin(model, dataset, split, surroundings, on_truths, size), out, workers, track)
    found = {"photos": len(coded), "regions": int(coded.counts.sum()) - len(coded), "code": coded.codes.shape[2]}
    _print_description(str(out), found, as_json)


@command.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("codes", type=options.FILE)
@click.argument("out", type=options.FILE)
@click.option("--alignment", type=options.PLACE, required=True, help="A run of an alignment net on the same codes.")
@click.option("--beta", type=click.FloatRange(min=0), required=True, help="Larger values give longer snippets.")
@options.place_weight_option
@click.option("--sentence-net", type=options.PLACE, help="A run trained on such snippets, to weigh the regions too.")
@options.one_split_option
@options.json_option
@options.quiet_option
def snippets(
    *,
    dataset: Path,
    codes: Path,
    out: Path,
    alignment: Path,
    beta: float,
    place_weight: float,
    sentence_net: Path | None,
    split: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Cut sentences into snippets about regions, which the multimodal RNN learns (K&FF section 3.1.4).

    CODES are the region codes of DATASET. OUT is a file of JSON lines, for data.snippets in a recipe.
    """
    console.need("train", "aligning", "torch", "safetensors")
    from regiontalk.data.records import Dataset
    from regiontalk.training.heads.caption_targets import write_snippets
    from regiontalk.training.heads.snippets import find_snippets

    records = Dataset(dataset, split)
    found = find_snippets(records, codes, alignment, beta, place_weight, sentence_net)
    count = write_snippets(out, console.track(found, f"Aligning {dataset}", len(records), quiet))
    _print_description(str(out), {"photos": len(records), "snippets": count}, as_json)


@command.command()
@click.argument("out", type=options.PLACE)
@click.option("--train", type=click.IntRange(min=1), required=True, help="How many scenes to train on.")
@click.option("--dev", type=click.IntRange(min=0), required=True, help="How many scenes to evaluate on.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The random seed.")
@click.option("--size", type=click.IntRange(min=32), default=128, show_default=True, help="Pixels on the long side.")
@click.option("--shapes", type=click.IntRange(min=1), default=3, show_default=True, help="Most shapes per scene.")
@force_option
@options.json_option
def draw(*, out: Path, train: int, dev: int, seed: int, size: int, shapes: int, force: bool, as_json: bool) -> None:
    """Draw scenes of coloured shapes, to try out training without photos."""
    from regiontalk.data.drawn import write_scenes

    _print_description(str(out), write_scenes(out, train, dev, seed, size, shapes, force), as_json)


@command.command()
@click.argument("dataset", type=options.PLACE)
@click.option("--count", type=click.IntRange(min=1), default=12, show_default=True, help="How many.")
@click.option("--size", type=click.IntRange(min=32), default=720, show_default=True, help="The net's input_size.")
@click.option("--split", type=click.Choice(SPLITS), default="train", show_default=True, help="The split to use.")
@options.json_option
def anchors(dataset: Path, count: int, size: int, split: str, as_json: bool) -> None:
    """Fit anchors to the boxes of a data set, for [net.localization] in a recipe.

    Prints TOML, with the mean IoU of the boxes and their nearest anchors, and the same for the paper's anchors.
    """
    import numpy as np

    from regiontalk.data.anchors import PAPER_ANCHORS, box_shapes, fit_anchors, shape_iou
    from regiontalk.data.records import Dataset

    try:
        shapes = box_shapes(Dataset(dataset, split), size)
    except DataError as error:
        raise DataError(f"{dataset}, split {split}: {error.message}", hint=error.hint) from error
    fitted = np.maximum(fit_anchors(shapes, count).round(), 1)
    papers = np.array(PAPER_ANCHORS) * size / 720
    found = {
        "anchors": fitted.astype(int).tolist(),
        "size": size,
        "regions": len(shapes),
        "mean_iou": float(shape_iou(shapes, fitted).max(axis=1).mean()),
        "paper_mean_iou": float(shape_iou(shapes, papers).max(axis=1).mean()),
    }
    if as_json:
        console.print_json(found)
    else:
        click.echo(_anchors_toml(found, dataset, split))


def _anchors_toml(found: Mapping[str, Any], dataset: Path, split: str) -> str:
    pairs = [f"[{width}, {height}]" for width, height in found["anchors"]]
    rows = ("  " + ", ".join(pairs[start : start + 6]) + ",\n" for start in range(0, len(pairs), 6))
    source = one_line(f"{found['regions']} {split} regions of {dataset}, long side {found['size']}")
    scores = f"{found['mean_iou']:.3f}; the paper's anchors at this size: {found['paper_mean_iou']:.3f}"
    return f"# {source}\n# mean IoU with the nearest anchor: {scores}\nanchors = [\n{''.join(rows)}]"


def _print_description(title: str, description: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        console.print_json(description)
    else:
        console.print_table(title, ("", ""), _rows(description))


def _rows(values: Mapping[str, Any], above: str = "") -> list[tuple[str, object]]:
    """Nested counts as rows of a table; a row for each inmost group (`splits train`, `types`)."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        label = f"{above} {name}".strip().replace("_", " ")
        if not isinstance(value, Mapping):
            rows.append((label, value))
        elif any(isinstance(inner, Mapping) for inner in value.values()):
            rows += _rows(value, label)
        else:
            rows.append((label, ", ".join(f"{key} {count}" for key, count in value.items())))
    return rows
