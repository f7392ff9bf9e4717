"""`regiontalk evaluate queries` and `retrieval`: photos and regions from captions (DenseCap table
2)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from regiontalk.cli import console, options
from regiontalk.cli.measurement import (
    INPUT,
    Measurement,
    figures_table,
    intervals_table,
    measured,
    split_option,
    truth_option,
)
from regiontalk.cli.region_sources import edge_model_option, region_source
from regiontalk.cli.splits import test_split_option
from regiontalk.errors import UsageError
from regiontalk.lab.data.dataset_model import FindRegions
from regiontalk.lab.data.records import Dataset, open_split
from regiontalk.lab.data.region_files import ScoredBoxes

if TYPE_CHECKING:
    from regiontalk.lab.evaluation.retrieval import Answer, QuerySet

WHOLE = "whole"

_drawn = options.with_options(
    click.option(
        "--images",
        type=click.IntRange(min=1),
        default=1000,
        show_default=True,
        help="Images to search in.",
    ),
    click.option(
        "--count",
        type=click.IntRange(min=1),
        default=100,
        show_default=True,
        help="How many queries.",
    ),
    click.option(
        "--captions",
        type=click.IntRange(min=1),
        default=4,
        show_default=True,
        help="Captions per query.",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The random seed."
    ),
)


@click.command()
@truth_option
@split_option
@_drawn
def queries(
    *, truth: Path, split: str | None, images: int, count: int, captions: int, seed: int
) -> None:
    """Draw random queries for `evaluate retrieval` and print them as JSON."""
    from regiontalk.lab.evaluation.retrieval import sample_queries

    records = list(Measurement("queries").records(truth, split))
    console.print_json(asdict(sample_queries(records, images, count, captions, seed)))


@click.command()
@click.option(
    "--queries",
    "asked_in",
    type=INPUT,
    help="What `evaluate queries` printed. Default: drawn from the truth.",
)
@click.option("--predictions", type=INPUT, help="The answers of any system, as JSON lines…")
@click.option(
    "--model", type=options.MODEL, help="…or the model that answers; `embedded`: the package's."
)
@click.option(
    "--truth", "--data", "truth", type=options.PLACE, help="For a model: the folder of a data set."
)
@test_split_option
@click.option(
    "--by",
    type=click.Choice(["likelihood", "alignment", "both"]),
    default="likelihood",
    show_default=True,
    help="How photos are scored: see above.",
)
@click.option(
    "--regions",
    metavar="own|whole|edgeboxes|FILE",
    default="own",
    show_default=True,
    help="Where to look: the model's 100 best regions, whole photos only, EdgeBoxes, or a file of "
    "regions.",
)
@edge_model_option
@options.heads_option
@options.device_option
@measured("retrieval")
def retrieval(
    *,
    asked_in: Path | None,
    predictions: Path | None,
    model: Path | None,
    measurement: Measurement,
    **options: Any,
) -> None:
    """Find photos and regions from four captions: R@k, median rank, IoU@t (DenseCap table 2).

    \b
    --by likelihood   a caption's log-probability in its likeliest region, as in the paper
    --by alignment    how well the caption's words fit their best regions
    --by both         words find 100 photos, and likelihood and alignment together rank them

    Likelihoods are exact for the 100 best photos of each query, and estimated for the others
    (docs/evaluation.md)."""
    from regiontalk.lab.evaluation.retrieval import evaluate_retrieval, read_answers, read_queries

    if (predictions is None) == (model is None):
        raise UsageError("give either --predictions or --model")
    if asked_in is not None:
        measurement.record.uses("queries", asked_in)
    if predictions is not None:
        if asked_in is None:
            raise UsageError(
                "--predictions are answers to --queries",
                hint="regiontalk evaluate queries draws some",
            )
        measurement.record.uses("predictions", predictions)
        query_set = read_queries(asked_in)
        figures = evaluate_retrieval(
            query_set, read_answers(predictions, query_set, measurement.problems)
        )
    else:
        query_set, answers, seconds = _ask(Path(str(model)), asked_in, measurement, **options)
        figures = evaluate_retrieval(query_set, answers) | {"seconds": seconds}
    shown = {name: value for name, value in figures.items() if name not in ("seconds", "intervals")}
    shown |= {f"seconds {name}": value for name, value in figures.get("seconds", {}).items()}
    measurement.finish(
        figures,
        figures_table("Retrieval", shown),
        intervals_table(figures["intervals"], "queries"),
    )


def _ask(
    model: Path,
    asked_in: Path | None,
    measurement: Measurement,
    *,
    truth: Path | None,
    split: str,
    by: str,
    regions: str,
    edge_model: Path | None,
    heads: tuple[Path, ...],
    device: str,
) -> tuple[QuerySet, Mapping[str, Answer], dict[str, float]]:
    """The queries, a model's answers, and how long it took to look at photos and to answer."""
    from regiontalk.lab.evaluation.retrieval import read_queries, sample_queries
    from regiontalk.lab.evaluation.retrieval_answers import answer_queries

    if truth is None:
        raise UsageError("--model needs photos: give --truth DATA")
    dataset = open_split(truth, split)
    source, find = _source(regions, dataset, edge_model)
    query_set = sample_queries(list(dataset)) if asked_in is None else read_queries(asked_in)
    looking = measurement.model(model, dataset, device, heads)
    begun = time.perf_counter()
    measurement.record.values["settings"] = {"by": by, "boxes": source}
    wanted = set(query_set.images)
    no_codes = np.zeros(0, dtype=np.float32)  # a thousand photos have to fit into the memory
    photos = {
        record.image: replace(looking.candidates(record, find), codes=no_codes)
        for record in measurement.photos(dataset)
        if record.image in wanted
    }
    if missing := wanted - set(photos):
        raise UsageError(
            f"{truth}: no photo {sorted(missing)[0]!r} in its split {split}, which the queries ask "
            "for"
        )
    seen_at = time.perf_counter()
    answers = answer_queries(looking.model, query_set, photos, by, grounded=regions != WHOLE)
    return (
        query_set,
        answers,
        {"looking": seen_at - begun, "answering": time.perf_counter() - seen_at},
    )


def _source(
    regions: str, dataset: Dataset, edge_model: Path | None
) -> tuple[str, FindRegions | None]:
    """The name of where a model looks, and what finds it, if it is not the model itself."""
    if regions == "own":
        return regions, None
    if regions == WHOLE:  # no region at all: the whole photo is always a candidate
        return regions, lambda *_: ScoredBoxes(np.zeros((0, 4)), np.zeros(0))
    return region_source(regions, dataset, edge_model)
