"""`regiontalk evaluate search`: photos found by sentences through an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console
from regiontalk.cli.measurement import Measurement, Table, intervals_table, measured, ranking_table
from regiontalk.cli.options import MODEL, PLACE
from regiontalk.cli.splits import test_split_option
from regiontalk.lab.data.records import open_split


@click.command()
@click.argument("model", type=MODEL)
@click.option("--truth", type=PLACE, required=True, help="A data set folder.")
@click.option(
    "--words",
    metavar='"dog, car, …"',
    help="Search by these single words instead, with what people wrote and marked as the truth.",
)
@test_split_option
@measured("search")
def search(
    *, model: Path, truth: Path, words: str | None, split: str, measurement: Measurement
) -> None:
    """Index photos and search them by their sentences: R@1/5/10, median rank (K&FF table 1, image
    search).

    MODEL is a model folder (`embedded`: the one in the package). The figures are those of
    `regiontalk search`, and those of a search by vectors alone. With --words, they are the recall
    and the precision of the photos above the line."""
    from regiontalk.lab.evaluation.search import evaluate_search, evaluate_words
    from regiontalk.search.build import to_entry
    from regiontalk.search.store import PhotoFile

    dataset = open_split(truth, split)
    dataset_model = measurement.model(model, dataset)
    photos = [
        (
            record,
            to_entry(
                dataset_model.model, dataset_model.look(record), PhotoFile(record.image, 0, 0), b""
            ),
        )
        for record in measurement.photos(dataset)
    ]
    if words is not None:
        asked_for = [word.strip() for word in words.split(",") if word.strip()]
        measurement.kind = "search-words"
        measurement.record.values["settings"] = {"words": asked_for}
        figures = evaluate_words(dataset_model.model, photos, asked_for)
        measurement.finish(figures, _words_table(figures))
        return
    figures = evaluate_search(
        dataset_model.model,
        photos,
        lambda texts: console.track(texts, "sentences", len(texts), measurement.quiet),
    )
    groups = {"text_to_image": "search", "by_vectors_alone": "by vectors alone"}
    measurement.finish(
        figures, ranking_table(figures, groups), intervals_table(figures["intervals"])
    )


def _words_table(figures: dict[str, Any]) -> Table:
    rows = [
        [word, result["photos"], result["above_the_line"], result["of_them_right"]]
        for word, result in figures["words"].items()
    ]
    title = f"recall {figures['recall']:.1f} %, precision {figures['precision']:.1f} %"
    return title, ["word", "photos with it", "above the line", "of them right"], rows
