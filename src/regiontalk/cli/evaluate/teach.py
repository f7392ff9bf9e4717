"""`regiontalk evaluate teach`: words that are taught with a few examples."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from regiontalk.cli import console
from regiontalk.cli.measurement import Measurement, measured, one_decimal
from regiontalk.cli.options import MODEL, PLACE
from regiontalk.errors import ModelError
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, open_split

SPACES = ("codes", "vectors")


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "--truth",
    type=PLACE,
    required=True,
    help="A data set with names that the model was not taught.",
)
@click.option("--everyday", type=PLACE, required=True, help="A data set of everyday photos.")
@click.option("--words", "count", type=click.IntRange(2), default=100, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the words.")
@click.option("--workers", "-j", type=click.IntRange(1, 64), default=1, show_default=True)
@measured("teach")
def teach(
    *,
    model: Path,
    truth: Path,
    everyday: Path,
    count: int,
    seed: int,
    workers: int,
    measurement: Measurement,
) -> None:
    """How many regions are recognised by words taught with 1, 3, 5 and 10 examples, and how many
    everyday regions are called by one of 50 words (docs/teach.md).

    Half of the words fit the weights and are not reported; the other half is measured with the
    weights of the package and with the fitted ones. Of the everyday photos, the dev split is used,
    one half for the fit.
    """
    from regiontalk.inference.taught import OF_CODES, OF_VECTORS
    from regiontalk.lab.evaluation import teaching

    named = Dataset(truth)
    others = open_split(everyday, "dev")
    chosen = teaching.choose_words(named, count, seed)
    dataset_model = measurement.model(model, named)
    of_everyday = DatasetModel(dataset_model.model, others)
    numbers = teaching.photos_of(measurement.photos(named), chosen, seed)
    examples = defaultdict[str, list[Any]](list)
    look = partial(teaching.look_at_words, dataset_model, words=chosen)
    looked_at = dataset_model.each(look, numbers, workers)
    for found in console.track(looked_at, "Words", len(numbers), measurement.quiet):
        for word, code in found:
            if len(examples[word]) < teaching.MAX_PHOTOS:
                examples[word].append(code)
    everyday_look = partial(teaching.look_at_everyday, of_everyday)
    seen = of_everyday.each(everyday_look, None, workers)
    parts = list(console.track(seen, "Everyday photos", len(others), measurement.quiet))
    codes = np.concatenate(parts)
    words = teaching.enough({word: np.stack(rows) for word, rows in examples.items()})
    figures = {}
    for name, weights in zip(SPACES, (OF_CODES, OF_VECTORS), strict=True):
        figures[name] = _measure(dataset_model, name, words, codes, weights)
    rows = []
    for name, measured_by in figures.items():
        for number, shares in measured_by["by_examples"].items():
            rows.append((name, number, *one_decimal(shares.values())))
    columns = ("by", "examples", "right", "right and said", "another said", "false")
    measurement.finish(figures, ("taught words, percent", columns, rows))


def _measure(
    dataset_model: DatasetModel, name: str, words: dict[str, Any], everyday: Any, weights: Any
) -> dict[str, Any]:
    """Measures the words in the space of codes or of vectors."""
    from regiontalk.inference.alignment import region_vectors
    from regiontalk.lab.evaluation import teaching
    from regiontalk.models.background import read_background

    runtime = dataset_model.model.runtime
    if runtime.background is None:
        raise ModelError("the model has no background", hint="regiontalk fit --only background")
    background = read_background(runtime.background, runtime.info.name)
    space = background.codes
    if name == "vectors":
        if background.vectors is None:
            return {"by_examples": {}}
        space = background.vectors
        words = {word: region_vectors(runtime, rows) for word, rows in words.items()}
        everyday = region_vectors(runtime, everyday)
    first, second = teaching.halves(words)
    fitted = teaching.fit(first, everyday[::2], space)
    report = teaching.measure(second, everyday[1::2], space, weights)
    report["right_among_all"] = {
        number: shares["right"]
        for number, shares in teaching.measure(words, everyday[1::2], space, weights)[
            "by_examples"
        ].items()
    }
    report["weights"] = list(weights)
    report["fitted"] = list(fitted)
    return report
