"""`regiontalk calibrate`: a model's scores made probabilities, and how well that worked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import regiontalk
from regiontalk.cli import console
from regiontalk.cli.predict import fitting_options, look_at_photos, open_split, writing
from regiontalk.data.records import SPLITS, Dataset
from regiontalk.model_folder import check_free, read_model_folder, write_model_folder

if TYPE_CHECKING:
    from regiontalk.calibration import Calibration
    from regiontalk.evaluation.reliability import Judged
    from regiontalk.model import Model


@click.command()
@fitting_options
@click.option(
    "--diagram", type=click.Path(dir_okay=False, path_type=Path), help="Reliability before and after, as SVG."
)
@click.option("--check", "check_split", type=click.Choice(SPLITS), default="test", show_default=True)
def command(
    *,
    model: Path,
    data: Path,
    output: Path | None,
    diagram: Path | None,
    fit_split: str,
    check_split: str,
    photos: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit the scores of MODEL, a model folder, to DATA, so that a score is the probability that a region is right.

    Right is a region that overlaps a true one by an IoU of 0.5; its words are not judged. The calibration is
    fitted on one split (dev) and its figures are reported on another (test). No order changes. Choose the other
    prediction settings first: the calibration belongs to them.
    """
    if output is not None:
        check_free(output)
    from regiontalk.calibration import calibrated, fit
    from regiontalk.evaluation.reliability import draw_reliability, reliability

    fit_data, check_data = open_split(data, fit_split, "--fit"), open_split(data, check_split, "--check")
    captioner = _uncalibrated(model)
    judged = _judged(captioner, fit_data, photos, quiet)
    found = fit(judged.scores, judged.right)
    if check_split != fit_split:
        judged = _judged(captioner, check_data, photos, quiet)
    report = _report(captioner, judged, found, (fit_split, check_split))
    if diagram is not None:
        bins = [reliability(scores, judged.right) for scores in (judged.scores, calibrated(judged.scores, found))]
        with writing(diagram) as temporary:
            temporary.write_text(draw_reliability(dict(zip(("before", "after"), bins, strict=True))), encoding="utf-8")
    if output is not None:
        _write_calibrated(model, output, found)
        console.message(f"{output}: {model}, calibrated", quiet)
    if as_json:
        console.print_json(report)
    else:
        _print(report)


def _uncalibrated(model: Path) -> Model:
    """The model with its bare scores: a calibration is never fitted on top of another one."""
    from regiontalk.calibration import UNCHANGED

    captioner = regiontalk.load(model)
    info = captioner.runtime.info
    captioner.runtime.info = replace(info, prediction=replace(info.prediction, calibration=UNCHANGED))
    return captioner


def _judged(captioner: Model, dataset: Dataset, photos: int | None, quiet: bool) -> Judged:
    from regiontalk.evaluation.reliability import judge

    return judge(look_at_photos(dataset, photos, captioner, quiet))


def _report(captioner: Model, judged: Judged, found: Calibration, splits: tuple[str, str]) -> dict[str, Any]:
    from regiontalk.calibration import calibrated
    from regiontalk.evaluation.reliability import RIGHT_IOU, summary

    return {
        "model": captioner.runtime.info.name,
        "calibration": list(found),
        "right_iou": RIGHT_IOU,
        "fitted_on": splits[0],
        "checked_on": splits[1],
        "photos": judged.photos,
        "regions": len(judged.scores),
        "before": summary(judged, judged.scores),
        "after": summary(judged, calibrated(judged.scores, found)),
    }


def _write_calibrated(model: Path, output: Path, found: Calibration) -> None:
    folder = read_model_folder(model)
    info = replace(folder.info, prediction=replace(folder.info.prediction, calibration=found))
    write_model_folder(output, info, folder.words, folder.graphs, folder.heads)


def _print(report: dict[str, Any]) -> None:
    title = f"{report['model']}, fitted on {report['fitted_on']}, {report['photos']} {report['checked_on']} photos"
    columns = ["", "expected error", "regions a photo ≥ 0.5", "of them right"]
    rows = []
    for name in ("before", "after"):
        figures = report[name]
        share = "–" if figures["right"] is None else f"{100 * figures['right']:.1f} %"
        error = f"{figures['expected_calibration_error']:.4f}"
        rows.append([name, error, f"{figures['regions_per_photo']:.2f}", share])
    console.print_table(title, columns, rows)
    click.echo("calibration: " + " ".join(f"{value:.6g}" for value in report["calibration"]))
