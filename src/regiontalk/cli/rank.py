"""`regiontalk rank`: which regions come first, learned from dev photos, and how much that helps."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import regiontalk
from regiontalk.cli import console
from regiontalk.cli.predict import fitting_options, look_at_photos, open_split
from regiontalk.data.records import Dataset
from regiontalk.model_folder import PredictionConfig, check_free, read_model_folder, write_model_folder

if TYPE_CHECKING:
    from regiontalk.evaluation.dense_ap import DenseResult
    from regiontalk.fitting.ranking import RankedPhoto
    from regiontalk.model import Model

FIGURES = ("map", "map_strict", "detection_map")


@click.command()
@fitting_options
def command(
    *,
    model: Path,
    data: Path,
    output: Path | None,
    fit_split: str,
    photos: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Learn from DATA which regions MODEL, a model folder, should put first.

    A small net scores the regions that outlast suppression by their place, score, words and rivals, in place of a
    product of scores. It learns what dense mAP rewards; the metric is that of `regiontalk evaluate dense`, with
    METEOR. The figures are cross-validated: each photo is ranked by a net that was fitted without it. What is
    written was fitted on all of them. Take photos that the model was not trained on, choose the other prediction
    settings first, and calibrate afterwards.
    """
    if output is not None:
        check_free(output)
    from regiontalk.evaluation.language import open_meteor
    from regiontalk.fitting.ranking import cross_validated, fit_photos, judge, targets

    dataset = open_split(data, fit_split, "--fit")
    with open_meteor(workers=os.cpu_count() or 1, notify=partial(console.message, quiet=quiet)) as scorer:
        captioner = regiontalk.load(model)
        settings = _unranked(captioner.runtime.info.prediction)
        seen = _seen(captioner, dataset, photos, quiet)
        wanted = targets(seen, scorer)
        rankings = cross_validated(seen, wanted)
        before = judge(captioner, seen, [None] * len(seen), settings, scorer)
        after = judge(captioner, seen, rankings, settings, scorer)
    report = _report(captioner, seen, fit_split, before, after)
    if output is not None:
        folder = read_model_folder(model)
        info = replace(folder.info, prediction=replace(settings, ranking=fit_photos(seen, wanted)))
        write_model_folder(output, info, folder.words, folder.graphs, folder.heads)
        console.message(f"{output}: {model}, ranking anew; its scores are bare: regiontalk calibrate it next", quiet)
    if as_json:
        console.print_json(report)
    else:
        _print(report)


def _unranked(settings: PredictionConfig) -> PredictionConfig:
    """A ranking is compared with the bare rules, not with another one, and a calibration belongs to the old scores."""
    from regiontalk.calibration import UNCHANGED

    return replace(settings, calibration=UNCHANGED, ranking=None)


def _seen(captioner: Model, dataset: Dataset, photos: int | None, quiet: bool) -> list[RankedPhoto]:
    from regiontalk.fitting.ranking import photo_of

    looked_at = look_at_photos(dataset, photos, captioner.evidence, quiet)
    return [photo_of(captioner, evidence, record) for evidence, record in looked_at]


def _report(
    captioner: Model, seen: list[RankedPhoto], split: str, before: DenseResult, after: DenseResult
) -> dict[str, Any]:
    return {
        "model": captioner.runtime.info.name,
        "fitted_on": split,
        "photos": len(seen),
        "regions": sum(len(photo.captions) for photo in seen),
        "before": {name: getattr(before, name) for name in FIGURES},
        "after": {name: getattr(after, name) for name in FIGURES},
    }


def _print(report: dict[str, Any]) -> None:
    title = f"{report['model']}, {report['photos']} {report['fitted_on']} photos, cross-validated"
    rows = [[name, *(f"{100 * report[name][figure]:.2f}" for figure in FIGURES)] for name in ("before", "after")]
    console.print_table(title, ["", "mAP", "METEOR ≥ 0.1", "boxes alone"], rows)
