"""What the verbs of `regiontalk evaluate` share: options, how they answer, where figures are kept,
and that looks at test are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli import console, options
from regiontalk.cli.options import json_option, quiet_option, with_options
from regiontalk.errors import SkippedInputs

if TYPE_CHECKING:
    from PIL import Image

    from regiontalk.lab.data.dataset_model import DatasetModel
    from regiontalk.lab.data.records import Dataset, Record
    from regiontalk.results import ImageRegions

Table = tuple[str, Sequence[str], Iterable[Iterable[object]]]  # title, columns, rows

DIRECTIONS = {"image_to_text": "image → sentence", "text_to_image": "sentence → image"}
INPUT = click.Path(exists=True, path_type=Path)
split_option = click.option("--split", help="Use only the records of this split, such as test.")
truth_option = click.option(
    "--truth",
    "--data",
    "truth",
    type=INPUT,
    required=True,
    help="A file of records or a data set folder.",
)
predictions_option = click.option(
    "--predictions",
    type=INPUT,
    required=True,
    help="What caption, describe or predict wrote: JSON lines (.jsonl), or a JSON array with one "
    "object per line "
    "(.json); may be gzipped (.gz).",
)


compared = with_options(truth_option, predictions_option, split_option)
"""The options of verbs that compare predictions with the truth."""


def measured(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a verb the options of every measurement, and in place of them a `measurement`; to be
    the innermost."""
    shared = with_options(
        json_option,
        click.option(
            "--strict", is_flag=True, help="End with exit code 3 if anything in the input is wrong."
        ),
        quiet_option,
        click.option(
            "--record",
            "keep_in",
            type=click.Path(file_okay=False, path_type=Path),
            help="Save the figures, and how they were made, in this folder (metrics.json).",
        ),
        click.option(
            "--note", default="", help="With --record: a remark to save with the figures."
        ),
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @shared
        @wraps(command)
        def measuring(
            *,
            as_json: bool,
            strict: bool,
            quiet: bool,
            keep_in: Path | None,
            note: str,
            **others: Any,
        ) -> None:
            measurement = Measurement(kind, as_json, quiet, keep_in, note)
            command(measurement=measurement, **others)
            measurement.close(strict)

        return measuring

    return decorate


@dataclass
class Measurement:
    """Follows an evaluation from its input to the figures."""

    kind: str
    as_json: bool = False
    quiet: bool = False
    keep_in: Path | None = None
    note: str = ""

    def __post_init__(self) -> None:
        from regiontalk.lab.evaluation.files import Problems
        from regiontalk.lab.runs import RunRecord

        self.problems = Problems(tell=self.message)
        self.record = RunRecord(f"evaluate {self.kind}")
        self.truth: Path | None = None
        self.images = 0
        self.splits: set[str] = set()

    def message(self, text: str) -> None:
        console.message(text, self.quiet)

    def records(self, truth: Path, split: str | None) -> Iterator[Record]:
        """The records of the truth."""
        from regiontalk.lab.evaluation.files import read_truth

        return self._count(
            console.track(read_truth(truth, split, self.problems), "truth", quiet=self.quiet), truth
        )

    def photos(self, dataset: Dataset, numbers: Sequence[int] | None = None) -> Iterator[Record]:
        """The records of a data set whose photos a model looks at: all, or those of `numbers`."""
        chosen = range(len(dataset)) if numbers is None else numbers
        watched = console.track(chosen, "photos", len(chosen), self.quiet)
        return self._count((dataset[number] for number in watched), dataset.folder)

    def _count(self, records: Iterable[Record], truth: Path) -> Iterator[Record]:
        self.truth = truth
        for record in records:
            self.images += 1
            self.splits.add(record.split)
            yield record

    def model(
        self,
        place: options.Place,
        dataset: Dataset,
        device: str = "auto",
        heads: tuple[Path, ...] = (),
    ) -> DatasetModel:
        """The model that is measured, to be asked about the photos of a data set."""
        from regiontalk.lab.data.dataset_model import DatasetModel

        dataset_model = DatasetModel(options.load_model(place, device, heads=heads), dataset)
        self.uses_model(place, device)
        return dataset_model

    def uses_model(self, place: options.Place, device: str) -> None:
        """A model folder, run, checkpoint or captioner that answers on a device."""
        self.record.uses("model", options.model_place(place))
        if gpu := options.device_name(place, device):
            self.record.values["device"] = gpu

    def skip(self, message: str) -> None:
        """Notes a photo that cannot be read, and is left out."""
        place, _, text = message.partition(": ")
        self.problems.add(place, f"{text}; skipped")

    def predictions(
        self, path: Path, sizes: Mapping[str, tuple[int, int]]
    ) -> Iterator[ImageRegions]:
        """The predicted regions of the truth's images, of such sizes."""
        from regiontalk.lab.evaluation.files import read_predictions

        self.record.uses("predictions", path)
        return console.track(
            read_predictions(path, sizes, self.problems), "images", len(sizes), self.quiet
        )

    def finish(self, figures: Mapping[str, Any], *tables: Table) -> None:
        """Prints the figures, keeps them where --record says, and counts a look at a test split."""
        from regiontalk.lab import runs

        if self.as_json:
            console.print_json(figures)
        for table in () if self.as_json else tables:
            console.print_table(*table)
        if self.keep_in is None and not runs.measured_models(self.record.values):
            return
        if self.truth is not None:
            self.record.uses_data(self.truth, "+".join(sorted(self.splits)), self.images)
            self._compare_data()
        if self.keep_in is not None:
            runs.keep_metrics(
                self.keep_in,
                self.kind,
                self._settings() | dict(figures),
                self.record,
                self.note or None,
            )
        if "test" in self.splits:
            without = runs.log_test_look(self.record, self.kind, figures, self.keep_in)
            if without and self.keep_in is None:
                self.message(
                    f"this evaluation on test is not counted: {without[0]} has no log; use "
                    "--record DIR"
                )

    def close(self, strict: bool) -> None:
        if self.problems.hidden:
            self.message(f"… and {self.problems.hidden} more")
        if strict and self.problems.count:
            raise SkippedInputs(f"{self.problems.count} problem(s) in the input")

    def _predicted(self) -> Iterator[Mapping[str, Any]]:
        """The inputs that are predictions with a record of how they were made."""
        return (
            source
            for source in self.record.values["inputs"]
            if source["role"] == "predictions" and "record" in source
        )

    def _settings(self) -> dict[str, Any]:
        """How the predictions were made, where that is known: beam, true boxes and the like."""
        made = [
            self.record.values["settings"],
            *(source["record"]["settings"] for source in self._predicted()),
        ]
        return {"settings": made[-1]} if made[-1] else {}

    def _compare_data(self) -> None:
        """Says so where predictions were made from another version of the data set than they are
        judged by."""
        data = self.record.values["data"][-1]  # the truth; before it stands other data, if any
        for source in self._predicted():
            for other in source["record"]["data"]:
                if other["sha256"] != data["sha256"]:
                    self.message(
                        f"{source['path']} was made from another version of the data: "
                        f"{other['name']}"
                    )


def photo_opener(truth: Path, records: Iterable[Record]) -> Callable[[str], Image.Image]:
    """Opens the photo of one of these records of a data set by its name."""
    from regiontalk.images.photo import open_photo
    from regiontalk.lab.data.records import TarShards

    shards = TarShards(truth if truth.is_dir() else truth.parent)
    by_name = {record.image: record for record in records}
    return lambda name: open_photo(shards.photo(by_name[name]))


def figures_table(title: str, figures: Mapping[str, Any]) -> Table:
    """Every single figure in a row."""
    rows = [
        (name, f"{value:.4f}" if isinstance(value, float) else value)
        for name, value in figures.items()
    ]
    return title, ("", "value"), rows


def ranking_table(figures: Mapping[str, Any], groups: Mapping[str, str] = DIRECTIONS) -> Table:
    """R@1/5/10 and median rank; a row for each of the `groups`, whose names are those of
    figures."""
    rows = [[title, *one_decimal(figures[name].values())] for name, title in groups.items()]
    models = f", {figures['models']} models" if figures.get("models", 1) > 1 else ""
    title = f"{figures['images']} images, {figures['sentences']} sentences{models}"
    return title, ("", "R@1", "R@5", "R@10", "median rank"), rows


def intervals_table(intervals: Mapping[str, Any], over: str = "photos", digits: int = 1) -> Table:
    """The 95 % intervals of figures, or of groups of figures."""
    rows: list[tuple[str, ...]] = []
    for name, ends in intervals.items():
        group = ends if isinstance(ends, Mapping) else {"": ends}
        for inner, (low, high) in group.items():
            title = f"{DIRECTIONS.get(name, name)} {inner}".strip().replace("_", " ")
            rows.append((title, f"{low:.{digits}f}", f"{high:.{digits}f}"))
    return f"95 % intervals, over {over}", ("", "from", "to"), rows


def one_decimal(values: Iterable[float]) -> list[str]:
    """Figures as text, with one digit after the point."""
    return [f"{value:.1f}" for value in values]


def share(value: float | None) -> str:
    """A share as text, in percent."""
    return "–" if value is None else f"{100 * value:.1f}"
