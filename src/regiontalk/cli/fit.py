"""`regiontalk fit`: what is fitted on dev photos after training, and how much it helps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import regiontalk
from regiontalk.cli import console
from regiontalk.cli.options import open_split
from regiontalk.data.records import SPLITS, Dataset, evenly_spaced
from regiontalk.files import replacing
from regiontalk.model_folder import PredictionConfig, check_free, read_model_folder, write_model_folder
from regiontalk.runs import log_test_look, recording

if TYPE_CHECKING:
    from regiontalk.calibration import Calibration
    from regiontalk.evaluation.dense_ap import DenseResult
    from regiontalk.evaluation.language import SentenceScorer
    from regiontalk.evaluation.reliability import Judged
    from regiontalk.fitting.photos import SeenPhoto
    from regiontalk.model import Model

PARTS = ("settings", "ranking", "calibration")
TRIED = ("score", "final_nms", "proposals", "caption_weight")
FIGURES = ("map", "map_strict", "detection_map")
SHOWN = 5  # of the settings that were tried


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The fitted model's new folder.")
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Fit this alone; may be given more than once.")
@click.option(
    "--split", type=click.Choice(["dev", "train"]), default="dev", show_default=True, help="Photos to fit on."
)
@click.option(
    "--check",
    type=click.Choice(SPLITS),
    default="test",
    show_default=True,
    help="Photos on which the error of the calibration is reported.",
)
@click.option("--photos", type=click.IntRange(min=1), help="Only so many of a split, evenly spaced.")
@click.option(
    "--diagram", type=click.Path(dir_okay=False, path_type=Path), help="Reliability before and after, as SVG."
)
@click.option("-j", "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Photos at a time.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="No messages, no bar.")
def command(
    *,
    model: Path,
    data: Path,
    output: Path | None,
    only: tuple[str, ...],
    split: str,
    check: str,
    photos: int | None,
    diagram: Path | None,
    workers: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit MODEL, a model folder, to dev photos of DATA that it was not trained on.

    Three things, in this order:

    \b
    settings     score rule, NMS, number of proposals and caption weight: those of best dense mAP
    ranking      a small net that learns which regions come first; its figures are cross-validated
    calibration  what turns a score into the probability that a region is right: that it overlaps a
                 true one by an IoU of 0.5; its error is reported on other photos (--check)

    Each rests on those before it: what is fitted anew drops what was fitted after it, unless that is fitted as well.
    Dense mAP is that of `regiontalk evaluate dense`, with METEOR.
    """
    parts = tuple(part for part in PARTS if part in (only or PARTS))
    if output is not None:
        check_free(output)
    if diagram is not None and "calibration" not in parts:
        raise click.UsageError("--diagram shows the calibration, which is not fitted")
    fit_data = open_split(data, split)
    check_data = open_split(data, check, "--check") if "calibration" in parts else None
    fitter = Fitter(regiontalk.load(model), workers, photos, quiet)
    report: dict[str, Any] = {"model": fitter.model.runtime.info.name, "fitted_on": split}
    settings = _without(fitter.model.runtime.info.prediction, parts)
    with _scorer(parts, quiet) as scorer:
        seen = fitter.look(fit_data, settings, "settings" in parts)
        report["photos"] = len(seen)
        if "settings" in parts:
            settings, report["settings"] = fitter.fit_settings(seen, settings, scorer)
        if "ranking" in parts:
            settings, report["ranking"] = fitter.fit_ranking(seen, settings, scorer)
    if check_data is not None:
        checked = seen if check == split else fitter.look(check_data, settings)
        settings, judged = fitter.fit_calibration(seen, checked, settings)
        report["calibration"] = {"checked_on": check} | _calibration_report(judged, settings.calibration)
        if diagram is not None:
            _draw(diagram, judged, settings.calibration)
    if output is not None:
        with recording("fit", output, parts=parts) as record:
            record.uses("model", model)
            record.uses_data(data, split, len(seen))
            _write(model, output, settings)
        if check == "test" and "calibration" in parts:
            record.uses_data(data, check, report["calibration"]["photos"])
            log_test_look(record, "calibration", report["calibration"]["after"], output)
        console.message(f"{output}: {model}, {', '.join(parts)} fitted on {len(seen)} {split} photos", quiet)
    if as_json:
        console.print_json(report)
    else:
        _print(report)


@dataclass(frozen=True)
class Fitter:
    """Looks at photos once and fits the parts to what was seen."""

    model: Model
    workers: int
    photos: int | None
    quiet: bool

    def look(self, dataset: Dataset, settings: PredictionConfig, every_setting: bool = False) -> list[SeenPhoto]:
        from regiontalk.data.dataset_model import DatasetModel
        from regiontalk.fitting.photos import look_at
        from regiontalk.fitting.settings import settings_to_try

        tried = list(settings_to_try(settings)) if every_setting else [settings]
        asked, numbers = DatasetModel(self.model, dataset), evenly_spaced(len(dataset), self.photos or len(dataset))
        found = asked.each(lambda record: look_at(asked, record, tried), numbers, self.workers)
        return list(console.track(found, f"Looking at {dataset.folder}", len(numbers), self.quiet))

    def fit_settings(
        self, seen: list[SeenPhoto], base: PredictionConfig, scorer: SentenceScorer
    ) -> tuple[PredictionConfig, dict[str, Any]]:
        from regiontalk.fitting.settings import settings_to_try, try_settings

        tried = list(settings_to_try(base))
        watched = console.track(tried, "Comparing settings", len(tried), self.quiet)
        results = try_settings(seen, self.model.runtime.words, watched, scorer)
        rows = [{name: getattr(one, name) for name in TRIED} | _figures(result) for one, result in results]
        return results[0][0], {"tried": rows}

    def fit_ranking(
        self, seen: list[SeenPhoto], settings: PredictionConfig, scorer: SentenceScorer
    ) -> tuple[PredictionConfig, dict[str, Any]]:
        from regiontalk.fitting.ranking import cross_validated, fit_photos, judge, targets, to_ranked

        words = self.model.runtime.words
        photos = [to_ranked(photo, settings, words) for photo in seen]
        wanted = targets(photos, scorer)
        rankings = cross_validated(photos, wanted)
        before = judge(photos, [None] * len(photos), settings, words, scorer)
        after = judge(photos, rankings, settings, words, scorer)
        regions = sum(len(photo.captions) for photo in photos)
        report = {"regions": regions, "before": _figures(before), "after": _figures(after)}
        return replace(settings, ranking=fit_photos(photos, wanted)), report

    def fit_calibration(
        self, seen: list[SeenPhoto], checked: list[SeenPhoto], settings: PredictionConfig
    ) -> tuple[PredictionConfig, Judged]:
        """The calibrated settings, and the regions of the photos to check with their raw scores."""
        from regiontalk.fitting.calibration import fit

        fitted_on = self._judged(seen, settings)
        found = fit(fitted_on.scores, fitted_on.right)
        return replace(settings, calibration=found), self._judged(checked, settings)

    def _judged(self, seen: Iterable[SeenPhoto], settings: PredictionConfig) -> Judged:
        from regiontalk.evaluation.reliability import judge

        return judge((photo.regions(settings, self.model.runtime.words), photo.record) for photo in seen)


def _without(settings: PredictionConfig, parts: tuple[str, ...]) -> PredictionConfig:
    """The settings before the first of the parts is fitted: nothing is fitted on top of what it replaces."""
    from regiontalk.calibration import UNCHANGED

    settings = replace(settings, calibration=UNCHANGED)
    return settings if parts == ("calibration",) else replace(settings, ranking=None)


def _scorer(parts: tuple[str, ...], quiet: bool) -> AbstractContextManager[Any]:
    """METEOR, which a calibration does without."""
    if parts == ("calibration",):
        return nullcontext()
    from regiontalk.evaluation.scoring_pool import open_meteor

    return open_meteor(workers=os.cpu_count() or 1, notify=partial(console.message, quiet=quiet))


def _figures(result: DenseResult) -> dict[str, float]:
    return {name: getattr(result, name) for name in FIGURES}


def _calibration_report(judged: Judged, found: Calibration) -> dict[str, Any]:
    from regiontalk.calibration import calibrated
    from regiontalk.evaluation.reliability import RIGHT_IOU, summary

    return {
        "calibration": list(found),
        "right_iou": RIGHT_IOU,
        "photos": judged.photos,
        "regions": len(judged.scores),
        "before": summary(judged, judged.scores),
        "after": summary(judged, calibrated(judged.scores, found)),
    }


def _draw(diagram: Path, judged: Judged, found: Calibration) -> None:
    from regiontalk.calibration import calibrated
    from regiontalk.evaluation.reliability import draw_reliability, reliability

    bins = [reliability(scores, judged.right) for scores in (judged.scores, calibrated(judged.scores, found))]
    with replacing(diagram) as temporary:
        temporary.write_text(draw_reliability(dict(zip(("before", "after"), bins, strict=True))), encoding="utf-8")


def _write(model: Path, output: Path, settings: PredictionConfig) -> None:
    folder = read_model_folder(model)
    info = replace(folder.info, prediction=settings)
    write_model_folder(output, info, folder.words, folder.graphs, folder.heads)


def _print(report: dict[str, Any]) -> None:
    title = f"{report['model']}, {report['photos']} {report['fitted_on']} photos"
    percent = ["mAP", "METEOR ≥ 0.1", "boxes alone"]
    if "settings" in report:
        columns = ["score", "final NMS", "proposals", "caption weight", *percent]
        rows = [[*(row[name] for name in TRIED), *_percent(row)] for row in report["settings"]["tried"][:SHOWN]]
        console.print_table(f"settings, best first: {title}", columns, rows)
    if "ranking" in report:
        rows = [[name, *_percent(report["ranking"][name])] for name in ("before", "after")]
        console.print_table(f"ranking: {title}, cross-validated", ["", *percent], rows)
    if "calibration" in report:
        _print_calibration(report["calibration"], title)


def _percent(figures: dict[str, float]) -> list[str]:
    return [f"{100 * figures[name]:.2f}" for name in FIGURES]


def _print_calibration(report: dict[str, Any], title: str) -> None:
    rows = []
    for name in ("before", "after"):
        figures = report[name]
        share = "–" if figures["right"] is None else f"{100 * figures['right']:.1f} %"
        rows.append(
            [name, f"{figures['expected_calibration_error']:.4f}", f"{figures['regions_per_photo']:.2f}", share]
        )
    title = f"calibration: {title}, checked on {report['photos']} {report['checked_on']} photos"
    console.print_table(title, ["", "expected error", "regions a photo ≥ 0.5", "of them right"], rows)
