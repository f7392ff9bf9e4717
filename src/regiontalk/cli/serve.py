"""`regiontalk serve`: the page and the HTTP API."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console
from regiontalk.cli.index import check_one_place, place_option, store_option
from regiontalk.cli.options import (
    ANY_MODEL,
    Book,
    Decorated,
    Number,
    check_folder,
    max_megapixels_option,
    words_book_option,
)
from regiontalk.errors import UsageError, need


def _limit_option(
    name: str, field: str, most: float, default: float, help: str
) -> Callable[[Decorated], Decorated]:
    kind = Number(0, most, min_open=True)
    return click.option(name, field, type=kind, default=default, show_default=True, help=help)


def listening_options(command: Decorated) -> Decorated:
    """Where the server listens, and what it says."""
    options = (
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="The address to listen on."
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65535),
            default=8765,
            show_default=True,
            help="0: choose a free port.",
        ),
        click.option(
            "--allow-host",
            "allowed_hosts",
            multiple=True,
            metavar="NAME",
            help="A host name to accept.",
        ),
        click.option("--open/--no-open", "show", default=True, help="Open the page in a browser."),
        click.option("-q", "--quiet", is_flag=True, help="Show no messages."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@place_option
@store_option
@listening_options
@click.option(
    "--model",
    type=ANY_MODEL,
    metavar="DIR|fast|FILE.py:CLASS",
    help="A model folder, or another model (docs/another-model.md); fast: the package's fast "
    "model; default: its strong one.",
)
@words_book_option
@click.option(
    "-j",
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Processes for photos.",
)
@max_megapixels_option
@_limit_option("--max-megabytes", "megabytes", 1000, 25.0, "Reject larger uploads.")
@_limit_option(
    "--timeout",
    "seconds",
    3600,
    20.0,
    "Time limit in seconds for an upload, and for the work on one photo.",
)
def command(
    *,
    max_megapixels: float,
    words_book: Book | None,
    show: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Run the web page and the HTTP API. With DIR, its photos can be searched.

    The server keeps the index of DIR up to date: new, changed and deleted photos appear by
    themselves. With --store it does not: `regiontalk index DIR --store` does, and any number of
    servers can search that database. Without --host, only this machine can reach the server.
    """
    start(dict(given, megapixels=max_megapixels, words_book=words_book), show, quiet)


def start(given: dict[str, Any], show: bool, quiet: bool, page: str = "") -> None:
    """Serves with these settings until Ctrl-C, and opens a page of it."""
    need("serve", "the server", "starlette", "uvicorn", "python_multipart")
    from regiontalk.serve.server import run
    from regiontalk.serve.settings import Settings

    book = given.pop("words_book")
    settings = Settings(words_book=True if book is None else book, **given)
    check_one_place(settings.place, settings.store)
    if settings.store is not None:
        need("postgres", "an index in PostgreSQL", "psycopg", "pgvector")
        if settings.folder is None:
            raise UsageError("--store without a folder", hint="give the folder of the photos: DIR")
    if settings.folder is not None:
        check_folder(settings.folder)

    def ready(server: str) -> None:
        address = f"{server}{page}"
        console.message(f"{address}  (Ctrl-C ends it)", quiet)
        if settings.host not in ("127.0.0.1", "localhost", "::1"):
            console.message(
                "everyone who can reach this address can see the photos: there is no login", quiet
            )
        if show:
            webbrowser.open(address)

    run(settings, ready)
