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
@click.option("--seed", type=click.IntRange(min=0), help="Seed for --sample; default 0.")
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
    chosen = _options(**options) | asked.size_option()
    known = {"verb": "describe", **chosen}
    request = Request(lambda model, photo: model.describe(photo, **chosen), known, "Describing", "described")
    asked.answer(request, asked.find(wanted), wanted)


def _options(beam: int | None, sample: bool, seed: int | None, alternatives: int) -> dict[str, Any]:
    """What `Model.describe` is asked for."""
    if sample and beam is not None:
        raise UsageError("--sample draws words, --beam searches for the likeliest: give one of them")
    if seed is not None and not sample:
        raise UsageError("--seed belongs to --sample")
    if beam is not None and alternatives >= beam:
        raise UsageError(
            f"--alternatives {alternatives}: a beam of {beam} finds {beam} sentences, the best one among them",
            hint=f"--beam {alternatives + 1}",
        )
    wanted: dict[str, Any] = {"beam": beam, "alternatives": alternatives}
    if sample:
        wanted["seed"] = seed or 0
    return {name: value for name, value in wanted.items() if value is not None}
