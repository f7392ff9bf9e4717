"""Output of all verbs: results on stdout, messages and progress bars on stderr, one line per
error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from regiontalk.errors import one_line

Item = TypeVar("Item")


class _OutConsole(Console):
    """Passes a closed pipe on to `main`, which ends the program silently; rich would exit with
    1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def out() -> Console:
    return _OutConsole(file=sys.stdout, highlight=False, soft_wrap=True)


def err() -> Console:
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def message(text: str, quiet: bool = False) -> None:
    """One line on stderr; ignored if stderr is full or closed."""
    if not quiet:
        with suppress(OSError):
            err().print(one_line(text), markup=False)


def count(number: int, thing: str) -> str:
    """How many things there are: 1 photo, 2 photos."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout. Control characters, and what cannot be encoded, are
    escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a lone surrogate, or a terminal without UTF-8
        text = json.dumps(value, allow_nan=False)
    if not text.isprintable():
        text = "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)
    _write(text)


def print_line(*cells: str) -> None:
    """Cells with tabs between them, on one line of stdout."""
    _write("\t".join(map(one_line, cells)))


def print_bytes(data: bytes) -> None:
    """A part of a file on stdout, in UTF-8; on a terminal, control characters are escaped."""
    if sys.stdout.isatty():
        for line in data.decode(errors="replace").splitlines():
            _write(one_line(line))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _write(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
    except UnicodeEncodeError:  # a terminal without UTF-8
        sys.stdout.write(line.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    table = Table(title=Text(one_line(title)) if title else None, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(Text(one_line(column)), justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(
            *(Text(one_line(str(cell))) for cell in row)
        )  # not markup: data may have "[b]" in it
    out().print(table)


def print_rows(
    columns: Iterable[str], rows: Sequence[Sequence[str]], about: str | None = None
) -> None:
    """A table on a terminal; for a pipe a line for each row, with tabs between the cells.

    What all rows are `about` is the table's title, or the first cell of every line.
    """
    if sys.stdout.isatty() and rows:
        print_table(about or "", columns, rows)
        return
    for row in rows:
        print_line(*(() if about is None else (about,)), *row)


@contextmanager
def progress(description: str, total: int | None = None, quiet: bool = False) -> Iterator[Progress]:
    """A bar on stderr, shown on terminals only; `Progress.update(Progress.task_ids[0], ...)` moves
    it."""
    console = err()
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        # what is printed while the bar moves is a result: it must not end up on stderr
        redirect_stdout=False,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        bar.add_task(one_line(description), total=total)
        yield bar


def track(
    items: Iterable[Item], description: str, total: int | None = None, quiet: bool = False
) -> Iterator[Item]:
    """`items`, with a bar that moves as they are taken."""
    with progress(description, total, quiet) as bar:
        for item in items:
            yield item
            bar.advance(bar.task_ids[0])
