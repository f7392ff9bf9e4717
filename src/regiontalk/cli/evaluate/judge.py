"""`regiontalk evaluate judge`: captions judged by eye."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli import console
from regiontalk.cli.measurement import (
    INPUT,
    Measurement,
    Table,
    measured,
    photo_opener,
    split_option,
)
from regiontalk.cli.options import FILE, probability_option
from regiontalk.errors import UsageError
from regiontalk.results import Shown

if TYPE_CHECKING:
    from PIL import Image

    from regiontalk.lab.evaluation.judging import Judging, OpenPhoto


@click.command()
@click.option("--predictions", type=INPUT, help="JSON lines from caption, describe or predict.")
@click.option(
    "--truth",
    "--data",
    "truth",
    type=INPUT,
    help="The records, if the photos are those of a data set.",
)
@split_option
@click.option(
    "--photos",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Size of the random sample.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The random seed of the sample.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Most captions per photo.",
)
@probability_option("--threshold", "Leave out regions with a lower score.", Shown.threshold)
@probability_option("--confidence", "Leave out captions with a lower confidence.", 0.0)
@click.option(
    "-o", "--output", type=FILE, help="Write a page (.html) on which captions are judged."
)
@click.option(
    "--list",
    "sheets",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write sheets with numbered boxes, and a file of verdicts to fill in, to this new folder.",
)
@click.option(
    "--judged", type=INPUT, multiple=True, help="The verdicts of one judge. Can be repeated."
)
@measured("judged")
def judge(
    *,
    predictions: Path | None,
    truth: Path | None,
    split: str | None,
    photos: int,
    seed: int,
    top: int,
    threshold: float,
    confidence: float,
    output: Path | None,
    sheets: Path | None,
    judged: tuple[Path, ...],
    measurement: Measurement,
) -> None:
    """Have captions, or sentences about photos, judged by eye: right, half or wrong
    (docs/evaluation.md).

    First give --predictions with -o PAGE.html or --list FOLDER, and judge the captions there. Then
    give the verdicts with --judged FILE, once per judge.
    """
    from regiontalk.lab.evaluation import judging

    if judged:
        if predictions or output or sheets:
            raise UsageError("--judged cannot be used with --predictions, -o or --list")
        for path in judged:
            measurement.record.uses("judging", path)
        _finish([judging.read_judging(path) for path in judged], measurement)
        return
    if predictions is None or (output is None) == (sheets is None):
        raise UsageError("give --predictions with -o PAGE.html or --list FOLDER; or --judged FILE")
    opener, sizes = _photos(truth, split, predictions, measurement)
    captioned = judging.read_captioned(predictions, sizes, measurement.problems)
    chosen = judging.choose(captioned, photos, Shown(threshold, top, confidence), seed)
    opened = judging.open_photos(
        console.track(chosen, "photos", len(chosen), measurement.quiet),
        opener,
        measurement.problems,
    )
    items = (
        judging.write_page(output, opened)
        if output is not None
        else judging.write_sheets(Path(str(sheets)), opened)
    )
    shown = console.count(len({item.photo for item in items}), "photo")
    measurement.message(f"{output or sheets}: {console.count(len(items), 'caption')} of {shown}")


def _photos(
    truth: Path | None, split: str | None, predictions: Path, measurement: Measurement
) -> tuple[OpenPhoto, dict[str, tuple[int, int]]]:
    """What opens a photo by its name, and the photos' sizes."""
    from regiontalk.images.photo import open_photo
    from regiontalk.lab.evaluation.judging import own_sizes

    if truth is not None:
        records = list(measurement.records(truth, split))
        return photo_opener(truth, records), {
            record.image: (record.width, record.height) for record in records
        }

    def open_path(path: str) -> Image.Image:
        """A path as it is, or from the folder of the predictions."""
        return open_photo(path if Path(path).exists() else predictions.parent / path)

    return open_path, own_sizes(predictions)


def _finish(judgings: list[Judging], measurement: Measurement) -> None:
    from regiontalk.lab.evaluation.judging import VERDICTS, evaluate_judgings

    figures = evaluate_judgings(judgings)
    rows = [_judge_row(judge["judge"] or "unnamed", judge) for judge in figures["judges"]]
    rows.append(_judge_row("all", figures))
    tables: list[Table] = [
        ("Judged, in % (95 % interval over photos)", ("judge", *VERDICTS, "captions"), rows)
    ]
    if figures["agreement"]:
        agreed = [
            [
                " and ".join(both["judges"]),
                f"{both['percent']:.1f}",
                _kappa(both["kappa"]),
                both["captions"],
            ]
            for both in figures["agreement"]
        ]
        tables.append(("Agreement", ("judges", "%", "Cohen's kappa", "captions"), agreed))
    measurement.finish(figures, *tables)


def _judge_row(name: str, figures: dict[str, Any]) -> list[object]:
    from regiontalk.lab.evaluation.judging import VERDICTS

    shares = [_share(figures, verdict) for verdict in VERDICTS]
    return [name, *shares, figures["captions"]]


def _share(figures: dict[str, Any], verdict: str) -> str:
    low, high = figures["intervals"][verdict]
    return f"{figures[verdict]:.1f} ({low:.1f}–{high:.1f})"


def _kappa(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
