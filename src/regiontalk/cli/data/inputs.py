"""`regiontalk data vectors|codes|snippets|draw|anchors`: what training reads beside records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console, options
from regiontalk.cli.data.making import force_option, print_description
from regiontalk.cli.splits import one_split_option
from regiontalk.errors import DataError, need, one_line
from regiontalk.lab.data.records import SPLITS


@click.command()
@click.argument("vectors", type=options.FILE)
@click.argument("datasets", type=options.PLACE, nargs=-1, required=True)
@click.argument("out", type=options.FILE)
@options.json_option
def vectors(*, vectors: Path, datasets: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Select the word vectors of the words in data sets, for word_vectors in a recipe.

    VECTORS is a text file with one word and its numbers per line, such as glove.6B.100d.txt. OUT is
    an .npz file.
    """
    from regiontalk.lab.data.word_vectors import write_word_vectors

    print_description(str(out), {"words": write_word_vectors(vectors, datasets, out)}, as_json)


@click.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.FILE)
@click.option(
    "--model", type=options.MODEL, required=True, help="The model folder that computes them."
)
@click.option(
    "--surroundings",
    is_flag=True,
    help="Also compute codes of the boxes made twice as wide and high.",
)
@click.option(
    "--on-truths", is_flag=True, help="Use the boxes of the data set instead of the best regions."
)
@one_split_option
@click.option(
    "--size",
    type=click.IntRange(min=1),
    help="Long side of the resized photos. Default: the model's.",
)
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

    OUT is an .npz file with the 19 best regions of every photo of DATASET and the whole photo:
    boxes, scores, codes. If it is stopped, the same command continues where it stopped.
    """
    from regiontalk.lab.codes.build import Origin, compute_codes

    def track(numbers: Iterable[int], total: int) -> Iterator[int]:
        return console.track(numbers, f"Computing codes of {dataset}", total, quiet)

    coded = compute_codes(
        Origin(model, dataset, split, surroundings, on_truths, size), out, workers, track
    )
    figures = {
        "photos": len(coded),
        "regions": int(coded.counts.sum()) - len(coded),
        "code": coded.codes.shape[2],
    }
    print_description(str(out), figures, as_json)


@click.command(name="box-codes")
@click.argument("dataset", type=options.PLACE)
@click.argument("out", type=options.PLACE)
@click.option(
    "--model", type=options.MODEL, required=True, help="The model folder that computes them."
)
@click.option(
    "--split",
    type=click.Choice(SPLITS),
    default="train",
    show_default=True,
    help="The split to use.",
)
@click.option("--photos", type=click.IntRange(min=1), help="At most this many, drawn at random.")
@click.option(
    "--sides",
    type=click.IntRange(min=16),
    nargs=2,
    metavar="FROM TO",
    help="Shrink each photo to a random longest side in this range of pixels.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Draws other photos and sides."
)
@options.workers_option
@options.json_option
@options.quiet_option
def box_codes(
    *,
    dataset: Path,
    out: Path,
    model: Path,
    split: str,
    photos: int | None,
    sides: tuple[int, int] | None,
    seed: int,
    workers: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compute the codes of a data set's true boxes, which a language model is trained on.

    OUT is a folder. If it is stopped, the same command continues where it stopped.
    """
    from regiontalk.lab.codes.true_boxes import BoxesOrigin, true_box_codes

    def track(numbers: Iterable[int], total: int) -> Iterator[int]:
        return console.track(numbers, f"Computing codes of {dataset}", total, quiet)

    origin = BoxesOrigin(model, dataset, split, photos, sides, seed)
    coded = true_box_codes(origin, out, workers, track)
    figures = {"photos": len(coded), "boxes": len(coded.codes), "input": coded.inputs.shape[1]}
    print_description(str(out), figures, as_json)


@click.command()
@click.argument("dataset", type=options.PLACE)
@click.argument("codes", type=options.FILE)
@click.argument("out", type=options.FILE)
@click.option(
    "--alignment",
    type=options.PLACE,
    required=True,
    help="A run of an alignment net on the same codes.",
)
@click.option(
    "--beta",
    type=click.FloatRange(min=0),
    required=True,
    help="Larger values give longer snippets.",
)
@options.place_weight_option
@click.option(
    "--sentence-net",
    type=options.PLACE,
    help="A run trained on such snippets, to weigh the regions too.",
)
@one_split_option
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
    """Cut sentences into snippets about regions, which the multimodal RNN learns (K&FF section
    3.1.4).

    CODES are the region codes of DATASET. OUT is a file of JSON lines, for data.snippets in a
    recipe.
    """
    need("train", "aligning", "torch", "safetensors")
    from regiontalk.lab.data.records import Dataset
    from regiontalk.lab.training.heads.caption_targets import write_snippets
    from regiontalk.lab.training.heads.snippets import find_snippets

    records = Dataset(dataset, split)
    snippets_found = find_snippets(records, codes, alignment, beta, place_weight, sentence_net)
    count = write_snippets(
        out, console.track(snippets_found, f"Aligning {dataset}", len(records), quiet)
    )
    print_description(str(out), {"photos": len(records), "snippets": count}, as_json)


@click.command()
@click.argument("out", type=options.PLACE)
@click.option(
    "--train", type=click.IntRange(min=1), required=True, help="How many scenes to train on."
)
@click.option(
    "--dev", type=click.IntRange(min=0), required=True, help="How many scenes to evaluate on."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The random seed."
)
@click.option(
    "--size",
    type=click.IntRange(min=32),
    default=128,
    show_default=True,
    help="Pixels on the long side.",
)
@click.option(
    "--shapes",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Most shapes per scene.",
)
@force_option
@options.json_option
def draw(
    *,
    out: Path,
    train: int,
    dev: int,
    seed: int,
    size: int,
    shapes: int,
    force: bool,
    as_json: bool,
) -> None:
    """Draw scenes of coloured shapes, to try out training without photos."""
    from regiontalk.lab.data.drawn import write_scenes

    print_description(str(out), write_scenes(out, train, dev, seed, size, shapes, force), as_json)


@click.command()
@click.argument("dataset", type=options.PLACE)
@click.option(
    "--count", type=click.IntRange(min=1), default=12, show_default=True, help="How many."
)
@click.option(
    "--size",
    type=click.IntRange(min=32),
    default=720,
    show_default=True,
    help="The net's input_size.",
)
@click.option(
    "--split",
    type=click.Choice(SPLITS),
    default="train",
    show_default=True,
    help="The split to use.",
)
@options.json_option
def anchors(dataset: Path, count: int, size: int, split: str, as_json: bool) -> None:
    """Fit anchors to the boxes of a data set, for [net.localization] in a recipe.

    Prints TOML, with the mean IoU of the boxes and their nearest anchors, and the same for the
    paper's anchors.
    """
    import numpy as np

    from regiontalk.lab.data.anchors import PAPER_ANCHORS, box_shapes, fit_anchors, shape_iou
    from regiontalk.lab.data.records import Dataset

    try:
        shapes = box_shapes(Dataset(dataset, split), size)
    except DataError as error:
        raise DataError(f"{dataset}, split {split}: {error.message}", hint=error.hint) from error
    fitted = np.maximum(fit_anchors(shapes, count).round(), 1)
    papers = np.array(PAPER_ANCHORS) * size / 720
    figures = {
        "anchors": fitted.astype(int).tolist(),
        "size": size,
        "regions": len(shapes),
        "mean_iou": float(shape_iou(shapes, fitted).max(axis=1).mean()),
        "paper_mean_iou": float(shape_iou(shapes, papers).max(axis=1).mean()),
    }
    if as_json:
        console.print_json(figures)
    else:
        click.echo(_anchors_toml(figures, dataset, split))


def _anchors_toml(figures: Mapping[str, Any], dataset: Path, split: str) -> str:
    pairs = [f"[{width}, {height}]" for width, height in figures["anchors"]]
    rows = ("  " + ", ".join(pairs[start : start + 6]) + ",\n" for start in range(0, len(pairs), 6))
    source = one_line(
        f"{figures['regions']} {split} regions of {dataset}, long side {figures['size']}"
    )
    scores = f"{figures['mean_iou']:.3f}; the paper's anchors at this size: "
    f"{figures['paper_mean_iou']:.3f}"
    return (
        f"# {source}\n# mean IoU with the nearest anchor: {scores}\nanchors = [\n{''.join(rows)}]"
    )
