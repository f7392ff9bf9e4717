"""`regiontalk evaluate`: the papers' metrics, one command for each."""

from __future__ import annotations

import click

from regiontalk.cli.evaluate import benchmarks, files, judge, model, retrieval, search, teach

COMMANDS = (
    *(files.dense, files.captions, files.regions, files.ranking, files.calibration),
    *(
        model.alignment,
        model.find,
        model.grounding,
        model.names,
        model.naming,
        model.vector_lengths,
    ),
    *(retrieval.queries, retrieval.retrieval, search.search, teach.teach, judge.judge),
    *(benchmarks.objects, benchmarks.chair, benchmarks.diversity, benchmarks.context),
    benchmarks.shown,
)


@click.group()
def command() -> None:
    """Compute the papers' metrics, on files of predictions or on a model; or have captions judged
    by eye.

    --record DIR saves the figures and how they were made. Every evaluation on a test split is
    logged in the model's folder.
    """


for _command in COMMANDS:
    command.add_command(_command)
