"""What the commands of `regiontalk data` share: options, progress bars and the summary that they
print."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console, options

pack_option = click.option(
    "--pack", type=int, metavar="PX", help="Copy photos into tar shards, long side at most PX."
)
force_option = click.option("--force", is_flag=True, help="Replace an existing data set.")
keep_paths_option = click.option(
    "--keep-paths",
    is_flag=True,
    help="Keep the photos' relative paths, for an OUT in the same folder as DATASET.",
)


def making(doing: str) -> Callable[[Callable[..., Mapping[str, Any]]], Callable[..., None]]:
    """Decorates a verb that makes the data set `out` from `dataset`, with a progress bar (`track`),
    and returns the summary to print."""

    def decorate(make: Callable[..., Mapping[str, Any]]) -> Callable[..., None]:
        @force_option
        @options.json_option
        @options.quiet_option
        @functools.wraps(make)
        def command(
            *, dataset: Path, out: Path, as_json: bool, quiet: bool, **options: Any
        ) -> None:
            track = functools.partial(console.track, description=f"{doing} {dataset}", quiet=quiet)
            print_description(
                str(out), make(dataset=dataset, out=out, track=track, **options), as_json
            )

        return command

    return decorate


def print_description(title: str, description: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        console.print_json(description)
    else:
        console.print_table(title, ("", ""), _rows(description))


def _rows(values: Mapping[str, Any], above: str = "") -> list[tuple[str, object]]:
    """Nested counts as rows of a table; a row for each inmost group (`splits train`, `types`)."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        label = f"{above} {name}".strip().replace("_", " ")
        if not isinstance(value, Mapping):
            rows.append((label, value))
        elif any(isinstance(inner, Mapping) for inner in value.values()):
            rows += _rows(value, label)
        else:
            rows.append((label, ", ".join(f"{key} {count}" for key, count in value.items())))
    return rows
