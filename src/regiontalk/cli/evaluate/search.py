"""`regiontalk evaluate search`: photos found by sentences through an index."""

from __future__ import annotations

from pathlib import Path

import click

from regiontalk.cli import console
from regiontalk.cli.measurement import Measurement, measured, ranking_table
from regiontalk.cli.options import MODEL, PLACE
from regiontalk.cli.splits import test_split_option
from regiontalk.lab.data.records import open_split


@click.command()
@click.argument("model", type=MODEL)
@click.option("--truth", type=PLACE, required=True, help="A data set folder.")
@test_split_option
@measured("search")
def search(*, model: Path, truth: Path, split: str, measurement: Measurement) -> None:
    """Index photos and search them by their sentences: R@1/5/10, median rank (K&FF table 1, image
    search).

    MODEL is a model folder (`embedded`: the one in the package). The figures are those of
    `regiontalk search`, and those of a search by vectors alone.
    """
    from regiontalk.lab.evaluation.search import evaluate_search
    from regiontalk.search.build import to_entry
    from regiontalk.search.store import PhotoFile

    dataset = open_split(truth, split)
    asked = measurement.model(model, dataset)
    photos = [
        (record, to_entry(asked.model, asked.look(record), PhotoFile(record.image, 0, 0), b""))
        for record in measurement.photos(dataset)
    ]
    figures = evaluate_search(
        asked.model,
        photos,
        lambda texts: console.track(texts, "sentences", len(texts), measurement.quiet),
    )
    groups = {"text_to_image": "search", "by_vectors_alone": "by vectors alone"}
    measurement.finish(figures, ranking_table(figures, groups))
