"""`regiontalk mcp`: tools for assistants."""

from __future__ import annotations

from pathlib import Path

import click

from regiontalk.cli.options import (
    Book,
    check_folder,
    load_model,
    model_option,
    words_book_option,
)
from regiontalk.errors import need


@click.command()
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR..."
)
@model_option
@words_book_option
def command(*, folders: tuple[Path, ...], model: Path | None, words_book: Book | None) -> None:
    """Give assistants tools to search and look at the photos in DIR, by the Model Context Protocol.

    An assistant starts this command and talks to it over stdin and stdout; nothing listens on a
    port. It can open the photos in DIR only, and changes none. `regiontalk index DIR` makes a
    folder searchable.
    """
    need("mcp", "tools for assistants", "mcp")
    from regiontalk.assistants.album import Album
    from regiontalk.assistants.server import make_server

    for folder in folders:
        check_folder(folder)
    make_server(Album.of(folders, lambda: load_model(model, "auto", words_book=words_book))).run(
        "stdio"
    )
