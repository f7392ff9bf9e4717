"""`regiontalk live`: the camera, with captions drawn on it."""

from __future__ import annotations

from typing import Any

import click

from regiontalk.cli.options import MODEL, Book, words_book_option
from regiontalk.cli.serve import listening_options, start
from regiontalk.models.packaged import FAST


@click.command()
@listening_options
@click.option(
    "--model",
    type=MODEL,
    metavar="DIR|fast",
    help="A model folder; default: the package's fast model.",
)
@words_book_option
def command(*, words_book: Book | None, show: bool, quiet: bool, **given: Any) -> None:
    """Show what the camera sees, with captions drawn on it as it goes, on a page in your browser.

    Pictures go to this program only, and none is kept. Browsers give the camera only to pages of
    this machine, or to pages over HTTPS.
    """
    given["model"] = given["model"] or FAST
    start(dict(given, workers=1, words_book=words_book), show, quiet, page="live")
