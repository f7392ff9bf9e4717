"""`regiontalk describe`: one sentence for each whole photo."""

from __future__ import annotations

from typing import Any

import click

from regiontalk.cli.each_photo import PhotoOptions, Request, photo_options
from regiontalk.cli.options import heads_option
from regiontalk.errors import UsageError


@click.command()
@click.option("--beam", type=click.IntRange(1, 100), help="Sentences searched at a time; default 7, 1 is fastest.")
@click.option("--alternatives", type=click.IntRange(0, 99), default=0, help="Number of next best sentences to add.")
@click.option("--sample", is_flag=True, help="Draw words by their probability instead of searching for the likeliest.")
@click.option(
    "--temperature",
    type=click.FloatRange(0, 10, min_open=True),
    help="For --sample: lower is more careful, higher dares more; default 0.5.",
)
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    help="For --sample: draw among the likeliest words that have this probability together; default 0.9.",
)
@click.option("--seed", type=click.IntRange(min=0), help="For --sample: another seed, other words; default 0.")
@heads_option
@photo_options
def command(*, asked: PhotoOptions, **options: Any) -> None:
    """One sentence for each whole photo, with the logarithm of its probability.

    PATH is a photo, a folder (with all below it), a pattern such as 'trip/**/*.jpg', or - for stdin: paths, one a line
    or separated by NUL, or a photo itself. A photo that cannot be read is named and skipped.

    On a terminal a table is shown; a pipe gets a line for each sentence: path, log-probability and sentence, with tabs
    between. If a run with -o is stopped, the same command continues where it stopped.
    """
    wanted = asked.wanted()
    chosen = asked.given(options)
    drawing = [name for name in ("temperature", "top_p", "seed") if name in chosen]
    if drawing and not chosen["sample"]:
        raise UsageError(f"--{drawing[0].replace('_', '-')} belongs to --sample")
    if chosen["sample"] and "beam" in chosen:
        raise UsageError("--sample draws words, --beam searches for the likeliest: give one of them")
    known = {"verb": "describe", **chosen}
    request = Request(lambda model, photo: model.describe(photo, **chosen), known, "Describing", "described")
    asked.answer(request, asked.find(wanted), wanted)
