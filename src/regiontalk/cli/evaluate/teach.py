"""`regiontalk evaluate teach`: words that are taught with a few examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from regiontalk.cli import console
from regiontalk.cli.measurement import Measurement, Table, measured, one_decimal
from regiontalk.cli.names_option import read_name_list
from regiontalk.cli.options import FILE, MODEL, PLACE
from regiontalk.errors import ModelError

if TYPE_CHECKING:
    from regiontalk.inference.taught import Weights
    from regiontalk.lab.data.dataset_model import DatasetModel
    from regiontalk.lab.data.records import Dataset
    from regiontalk.lab.evaluation.teaching import Words
    from regiontalk.models.background import Background, Space
    from regiontalk.models.runtime import Floats

SPACES = ("codes", "vectors")


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "--truth",
    type=PLACE,
    required=True,
    help="A data set with names that the model was not taught.",
)
@click.option(
    "--everyday",
    type=PLACE,
    required=True,
    help="A data set whose dev photos show none of these names, or hardly any.",
)
@click.option(
    "--fit-on",
    type=PLACE,
    metavar="DATA",
    help="Also fit the weights: on half of the names, and the dev photos of DATA as everyday ones.",
)
@click.option(
    "--names",
    "names_file",
    type=FILE,
    metavar="FILE",
    help="Teach these names, one on each line, instead of --words.",
)
@click.option("--words", "count", type=click.IntRange(2), default=100, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the words.")
@measured("teach")
def teach(
    *,
    model: Path,
    truth: Path,
    everyday: Path,
    fit_on: Path | None,
    names_file: Path | None,
    count: int,
    seed: int,
    measurement: Measurement,
) -> None:
    """How many regions are recognised by words taught with 1, 3, 5 and 10 examples, and how many
    everyday regions are called by one of 50 words (docs/teach.md).

    The words are names that enough photos of the truth have. Without --names they are chosen at
    random, of those that have a word which the model's captions and queries do not know.
    """
    from regiontalk.inference.alignment import region_vectors
    from regiontalk.inference.taught import OF_CODES, OF_VECTORS
    from regiontalk.lab.data.records import Dataset, open_split
    from regiontalk.lab.evaluation import teaching

    named = Dataset(truth)
    others = open_split(everyday, "dev")
    to_fit = None if fit_on is None else open_split(fit_on, "dev")
    dataset_model = measurement.model(model, named)
    background = _background_of(dataset_model)
    if names_file is None:
        known = frozenset(dataset_model.model.words)
        chosen = teaching.choose_words(named, count, seed, known)
    else:
        chosen = read_name_list(names_file)
    numbers = teaching.photos_of(named, chosen, seed)
    words = teaching.examples_of(dataset_model, measurement.photos(named, numbers), chosen)
    codes = _everyday_codes(dataset_model, others, measurement)
    fit_codes = None if to_fit is None else _everyday_codes(dataset_model, to_fit, measurement)
    figures = {
        "names": sorted(words),
        "codes": _measure(words, codes, fit_codes, background.codes, OF_CODES),
    }
    if background.vectors is not None:
        runtime = dataset_model.model.runtime
        words = {word: region_vectors(runtime, rows) for word, rows in words.items()}
        codes = region_vectors(runtime, codes)
        fit_codes = None if fit_codes is None else region_vectors(runtime, fit_codes)
        vectors = _measure(words, codes, fit_codes, background.vectors, OF_VECTORS)
        figures["vectors"] = vectors
    measurement.finish(figures, _table(figures))


def _background_of(dataset_model: DatasetModel) -> Background:
    from regiontalk.models.background import read_background

    runtime = dataset_model.model.runtime
    if runtime.background is None:
        raise ModelError("the model has no background", hint="regiontalk fit --only background")
    return read_background(runtime.background, runtime.info.name)


def _everyday_codes(
    dataset_model: DatasetModel, dataset: Dataset, measurement: Measurement
) -> Floats:
    """The codes (M, D) of the regions of another data set's photos."""
    from regiontalk.lab.evaluation.teaching import codes_of_regions

    on_others = replace(dataset_model, dataset=dataset)
    measurement.record.uses_data(dataset.folder, "dev", len(dataset))
    photos = console.track(range(len(dataset)), "everyday photos", len(dataset), measurement.quiet)
    return np.concatenate([codes_of_regions(on_others, dataset[number]) for number in photos])


def _measure(
    words: Words, everyday: Floats, to_fit: Floats | None, space: Space, weights: Weights
) -> dict[str, Any]:
    """The figures with the package's weights; `to_fit`: everyday regions for fitted weights."""
    from regiontalk.lab.evaluation import teaching

    space = teaching.without_examples(space, words)
    figures = teaching.measure(words, everyday, space, weights)
    if to_fit is not None:
        first, second = teaching.halves(words)
        fitted = teaching.fit(first, to_fit, space)
        figures["fitted"] = teaching.measure(second, everyday, space, fitted)
    return figures


def _table(figures: Mapping[str, Any]) -> Table:
    rows = []
    for by in SPACES:
        for count, shares in figures.get(by, {}).get("by_examples", {}).items():
            rows.append((by, count, *one_decimal(shares.values())))
    columns = ("by", "examples", "right", "right and said", "another said", "false")
    return f"{len(figures['names'])} taught words, percent", columns, rows
