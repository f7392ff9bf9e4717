"""What the verbs of `regiontalk evaluate` share: where figures are kept, and that looks at test are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli import console

if TYPE_CHECKING:
    from regiontalk.data.records import Record


def measured(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb --record and --note, and in place of them a `measurement`; to be the innermost decorator."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--record",
            "keep_in",
            type=click.Path(file_okay=False, path_type=Path),
            help="Keep the figures, and how they came about, in this folder (metrics.json).",
        )
        @click.option("--note", help="With --record: a remark to keep, such as what sets this run apart.")
        @wraps(command)
        def measuring(*, keep_in: Path | None, note: str | None, **options: Any) -> None:
            command(measurement=Measurement(kind, keep_in, note, options.get("quiet", False)), **options)

        return measuring

    return decorate


class Measurement:
    """Follows an evaluation. `finish` keeps its figures where --record says, and counts a look at a test split."""

    def __init__(self, kind: str, keep_in: Path | None, note: str | None, quiet: bool) -> None:
        from regiontalk.runs import RunRecord

        self.kind = kind
        self.keep_in = keep_in
        self.note = note
        self.quiet = quiet
        self.record = RunRecord(f"evaluate {kind}")
        self.images = 0
        self.splits: set[str] = set()

    def count(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records of the truth, unchanged."""
        for record in records:
            self.images += 1
            self.splits.add(record.split)
            yield record

    def finish(self, truth: Path | None, figures: Mapping[str, Any]) -> None:
        """`truth` is a data set folder or a file of records; None: unknown."""
        from regiontalk import runs

        if self.keep_in is None and not runs.measured_models(self.record.values):
            return
        if truth is not None:
            self.record.uses_data(truth, "+".join(sorted(self.splits)), self.images)
            self._compare_data()
        if self.keep_in is not None:
            runs.keep_metrics(self.keep_in, self.kind, self._settings() | dict(figures), self.record, self.note)
        if "test" in self.splits:
            without = runs.log_test_look(self.record, self.kind, figures, self.keep_in)
            if without and self.keep_in is None:
                text = f"this look at test is not counted: {without[0]} keeps no log; --record DIR keeps one"
                console.message(text, self.quiet)

    def _settings(self) -> dict[str, Any]:
        """How the predictions were made, where that is known: beam, true boxes and the like."""
        inputs = self.record.values["inputs"]
        made = [one["record"]["settings"] for one in inputs if one["role"] == "predictions" and "record" in one]
        return {"settings": made[0]} if made else {}

    def _compare_data(self) -> None:
        """Says so where predictions were made from another version of the data set than they are judged by."""
        (own,) = self.record.values["data"]
        for one in self.record.values["inputs"]:
            for other in one.get("record", {}).get("data", []) if one["role"] == "predictions" else []:
                if other["sha256"] != own["sha256"]:
                    text = f"{one['path']} was made from another version of the data: {other['name']}"
                    console.message(text, self.quiet)
