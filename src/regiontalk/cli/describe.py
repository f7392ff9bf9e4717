"""`regiontalk describe`: one sentence for each whole photo."""

from __future__ import annotations

from typing import Any

import click

from regiontalk.cli.each_photo import PhotoOptions, Request, photo_options
from regiontalk.cli.options import cluster_options, heads_option
from regiontalk.cli.outputs import VTT
from regiontalk.errors import UsageError


@click.command()
@click.option(
    "--beam",
    type=click.IntRange(1, 100),
    help="Beam width of the search. Default: 7; 1 is the fastest.",
)
@click.option(
    "--alternatives",
    type=click.IntRange(0, 99),
    default=0,
    help="Also give this many next best sentences.",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Sample words at random instead of searching for the best sentence.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0, 10, min_open=True),
    help="For --sample: lower values are safer, higher values more varied. Default: 0.5.",
)
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    help="For --sample: choose among the likeliest words that together have this probability. "
    "Default: 0.9.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="For --sample: the random seed. Default: 0."
)
@click.option(
    "--format", "export", type=click.Choice([VTT]), help="A track of captions for a video."
)
@heads_option
@cluster_options
@photo_options
def command(*, export: str | None, **options: Any) -> None:
    """Write one sentence for each photo, with its log-probability.

    On a terminal you get a table. A pipe gets one line per sentence: path, log-probability,
    sentence and "sure" or "not sure", separated by tabs. If a run with -o is stopped, the same
    command continues where it stopped.
    """
    shared = PhotoOptions.take(options)
    wanted = shared.wanted(export)
    chosen = shared.given(options)
    drawing = [name for name in ("temperature", "top_p", "seed") if name in chosen]
    if drawing and not chosen["sample"]:
        raise UsageError(f"--{drawing[0].replace('_', '-')} needs --sample")
    if chosen["sample"] and "beam" in chosen:
        raise UsageError("--sample cannot be used with --beam")
    known = {"verb": "describe", **chosen}
    request = Request(
        lambda model, photo: model.describe(photo, **chosen), known, "Describing", "described"
    )
    shared.answer(request, shared.find(wanted), wanted)
