"""`--names`: one's own list of names, one on each line of a file."""

from __future__ import annotations

from pathlib import Path

import click

from regiontalk.cli import console, options
from regiontalk.cli.each_photo import PhotoOptions
from regiontalk.errors import InputError, UsageError
from regiontalk.io.files import read_file

LARGEST_LIST = 1 << 21  # bytes: names for some seconds

names_option = click.option(
    "--names",
    "names_file",
    type=options.FILE,
    metavar="FILE",
    help="Call things by these names alone, one on each line.",
)


def read_lines_of(file: Path) -> list[str]:
    """The lines of a list of names."""
    try:
        return read_file(file, LARGEST_LIST).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not a text in UTF-8", hint="one name per line") from error


def read_name_list(file: Path) -> frozenset[str]:
    """The names of a list, in small letters, whether a model knows them or not."""
    return frozenset(line.strip().lower() for line in read_lines_of(file) if line.strip())


def read_names(file: Path, shared: PhotoOptions) -> list[str]:
    """The names of the list that the model knows; the others are told. Raises `UsageError` if it
    knows none."""
    from regiontalk.inference.name_list import TO_KNOW, a_few

    lines = read_lines_of(file)
    model = options.load_model(shared.model, "cpu", lazily=True, words_book=shared.words_book)
    known, unknown = model.known_names(lines)
    if not known:
        if unknown:
            reason = f"the model knows none of its names: {a_few(unknown)}"
            raise UsageError(f"{file}: {reason}", hint=TO_KNOW)
        raise UsageError(f"{file}: no names in it", hint="one name per line")
    if unknown:
        count = console.count(len(unknown), "name")
        console.message(
            f"{file}: left out {count} that the model does not know: {a_few(unknown)}", shared.quiet
        )
    return list(known)
