"""`regiontalk fit`: what is fitted on dev photos after training, and how much it helps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import regiontalk
from regiontalk.cli import console
from regiontalk.cli.measurement import Table
from regiontalk.cli.names_option import read_name_list
from regiontalk.cli.options import FILE, MODEL, PLACE, json_option, quiet_option, workers_option
from regiontalk.errors import DataError
from regiontalk.io.files import replacing
from regiontalk.lab.data.records import open_split
from regiontalk.lab.fitting import (
    FIGURES,
    OF_NAMES,
    OF_WORDS,
    ON_ALL_DATA,
    ON_REQUEST,
    PARTS,
    TRIED,
)
from regiontalk.lab.runs import recording
from regiontalk.models.folder import (
    ModelFolder,
    check_free,
    detector_fingerprint,
    read_model_folder,
    write_model_folder,
)

if TYPE_CHECKING:
    from regiontalk.lab.fitting.fitter import Fitter

MAY_BE_SKIPPED = ("find", "alignment")  # with a message, where the records have no phrases
NAMED_RIGHT = ("right", "among_five")  # figures of names and colours
MAX_TRIED_ROWS = 5  # of the settings that were tried


@click.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=PLACE, nargs=-1, required=True)
@click.option("-o", "--output", type=PLACE, help="Write the fitted model to this new folder.")
@click.option(
    "--only", type=click.Choice(PARTS), multiple=True, help="Fit only this part. Can be repeated."
)
@click.option(
    "--split",
    type=click.Choice(["dev", "train"]),
    default="dev",
    show_default=True,
    help="What to fit on.",
)
@click.option(
    "--photos",
    type=click.IntRange(min=1),
    help="Use only this many photos of each DATA, evenly spaced.",
)
@click.option(
    "--leave-out",
    type=FILE,
    metavar="FILE",
    help="The background learns nothing from photos with these names, one on each line: those of "
    "`evaluate teach`.",
)
@click.option("--diagram", type=FILE, help="Draw the calibration before and after the fit, as SVG.")
@workers_option
@json_option
@quiet_option
def command(
    *,
    model: Path,
    data: tuple[Path, ...],
    output: Path | None,
    only: tuple[str, ...],
    split: str,
    photos: int | None,
    leave_out: Path | None,
    diagram: Path | None,
    workers: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit the settings of MODEL, a model folder, to dev photos of DATA that it was not trained on.

    Eleven parts can be fitted, in this order; confidence, agreement, find, search, names, colours
    and background on all DATA, the others on the first:

    \b
    settings     score rule, NMS, number of proposals and caption weight with the best dense mAP
    ranking      a small net that learns which regions come first
    calibration  turns a score into the probability that a region is right, that is, overlaps a true
                 one by an IoU of at least 0.5
    confidence   how likely a caption names its region correctly, from which confidence on
                 captions are shown, and when a shorter or longer caption is used
    agreement    how likely a caption is right where a name says the same or something else, and
                 when a region is called by its name instead; for models with names
    find         how likely a region shows a phrase, and below which probability
                 `regiontalk find` reports it as absent; photos with objects are asked for these
    alignment    the weights of `regiontalk align`: region scores, likelihoods, neighbouring words
    search       how likely a photo shows a phrase, and below which probability `regiontalk search`
                 calls it less likely
    names        what things are called (`Model.name`), from regions of type `object` or `whole`;
                 fitted on request alone (--only names --split train), because it needs many photos
    colours      which colours a region has, from phrases that say one: captions leave out those
                 that are unlikely; on request alone (--only colours --split train)
    background   everyday regions, with which words of `regiontalk teach` are compared, and how
                 regions of one name differ (type `object` or `whole`); on request alone
                 (--only background --split train)

    Alignment and search are for models that align words with regions. The printed figures of
    ranking, calibration, confidence, agreement and alignment are cross-validated, those of names
    and colours are of held-out photos. Those of settings and find are of the photos that were
    fitted on, and so is how often search has a right photo first.

    The first four parts build on each other: fitting one again discards those after it, unless they
    are fitted again too. Fitting the settings again also discards find. Dense mAP is that of
    `regiontalk evaluate dense`, with METEOR."""
    from regiontalk.lab.fitting.fitter import Fitter

    folder = read_model_folder(model)
    parts = tuple(part for part in PARTS if part in (only or _possible_parts(folder)))
    if output is not None:
        check_free(output)
    if diagram is not None and "calibration" not in parts:
        raise click.UsageError("--diagram needs the part calibration")
    if leave_out is not None and "background" not in parts:
        raise click.UsageError("--leave-out needs the part background")
    left_out = frozenset() if leave_out is None else read_name_list(leave_out)
    datasets = [
        open_split(folder, split) for folder in (data if {*ON_ALL_DATA} & {*parts} else data[:1])
    ]
    track = partial(console.track, quiet=quiet)
    loaded = regiontalk.load(model, words_book=False)
    report = {}
    with _scorer(parts, quiet) as scorer:
        detector = detector_fingerprint(folder.graphs)
        fitter = Fitter(loaded, datasets, parts, scorer, track, detector, workers, photos, left_out)
        for part in parts:
            try:
                report[part] = fitter.fit(part)
            except DataError as error:
                if only or part not in MAY_BE_SKIPPED:
                    raise
                console.message(error.message, quiet)
    of_first = min(len(datasets[0]), photos or len(datasets[0]))
    looked_at = max([of_first, *(report[part]["photos"] for part in ON_ALL_DATA if part in report)])
    report = {"model": loaded.runtime.info.name, "fitted_on": split, "photos": looked_at} | report
    if diagram is not None:
        _draw(diagram, report["calibration"])
    if output is not None:
        with recording("fit", output, parts=parts) as record:
            record.uses("model", model)
            for dataset in datasets:
                record.uses_data(dataset.folder, split, min(len(dataset), photos or len(dataset)))
            _write(folder, output, fitter)
        console.message(
            f"{output}: {model}, {', '.join(parts)} fitted on {looked_at} {split} photos", quiet
        )
    if as_json:
        console.print_json(report)
    else:
        title = f"{report['model']}, {looked_at} {split} photos"
        for name, columns, rows in _tables(report):
            console.print_table(f"{name}: {title}", columns, rows)


def _possible_parts(folder: ModelFolder) -> set[str]:
    """What is fitted by default: all that the model has and that needs dev photos alone."""
    parts = {*PARTS} - {*ON_REQUEST}
    if "words" not in folder.heads:
        parts -= {*OF_WORDS}
    if folder.names is None:
        parts -= {*OF_NAMES}
    return parts


def _scorer(parts: tuple[str, ...], quiet: bool) -> AbstractContextManager[Any]:
    """METEOR, for those that need it."""
    if not {"settings", "ranking"} & set(parts):
        return nullcontext()
    from regiontalk.lab.evaluation.scoring_pool import open_meteor

    return open_meteor(workers=os.cpu_count() or 1, notify=partial(console.message, quiet=quiet))


def _draw(diagram: Path, report: dict[str, Any]) -> None:
    from regiontalk.lab.evaluation.reliability import Bin, draw_reliability

    bins = {}
    for name in ("before", "after"):
        bins[name] = [Bin(**values) for values in report[name]["bins"]]
    with replacing(diagram) as temporary:
        temporary.write_text(draw_reliability(bins), encoding="utf-8")


def _write(folder: ModelFolder, output: Path, fitter: Fitter) -> None:
    info = replace(folder.info, prediction=fitter.settings)
    heads = dict(folder.heads)
    if fitter.of_words:
        head = heads["words"]
        settings = replace(head.info.settings, **fitter.of_words)
        changed = replace(head.info, settings=settings)
        heads["words"] = replace(head, info=changed)
    background = folder.background
    if fitter.background is not None:
        background = fitter.background.to_bytes()
    write_model_folder(
        output,
        info,
        folder.words,
        folder.graphs,
        heads,
        names=fitter.names or folder.names,
        background=background,
        colours=fitter.colours or folder.colours,
    )


def _tables(report: dict[str, Any]) -> Iterator[Table]:
    """What was fitted, a table for each part."""
    percent = ["mAP", "METEOR ≥ 0.1", "boxes alone"]
    if "settings" in report:
        columns = ["score", "final NMS", "proposals", "caption weight", *percent]
        rows = [
            [*(row[name] for name in TRIED), *_percent(row)]
            for row in report["settings"]["tried"][:MAX_TRIED_ROWS]
        ]
        yield "settings, best first", columns, rows
    if "ranking" in report:
        rows = [[name, *_percent(report["ranking"][name])] for name in ("before", "after")]
        yield "ranking, cross-validated", ["", *percent], rows
    if "calibration" in report:
        rows = [[name, *_reliability(report["calibration"][name])] for name in ("before", "after")]
        yield (
            "calibration, cross-validated",
            ["", "expected error", "regions per photo ≥ 0.5", "of them right"],
            rows,
        )
    if "confidence" in report:
        own = report["confidence"]
        rows = [
            [Path(name).name, one["captions"], _share(one["all_right"]), *_reliability(one)]
            for name, one in (own["data"] | {"all": own}).items()
        ]
        columns = [
            "",
            "captions",
            "right",
            "expected error",
            f"per photo ≥ {own['threshold']:g}",
            "of them right",
        ]
        yield "confidence, cross-validated", columns, rows
    if "agreement" in report:
        own = report["agreement"]
        rows = [
            [
                Path(name).name,
                one["captions"],
                _share(one["captions_right"]),
                _share(one["all_right"]),
                *_reliability(one),
            ]
            for name, one in own["data"].items()
        ]
        columns = [
            "",
            "captions",
            "right",
            "with names",
            "expected error",
            f"per photo ≥ {own['threshold']:g}",
            "of them right",
        ]
        yield "captions and names, cross-validated", columns, rows
    if "find" in report:
        own = report["find"]
        rows = [
            [own["phrases"], *(_share(own[name]) for name in ("accuracy", "found", "not_there"))]
        ]
        yield (
            "find",
            [
                "phrases",
                "best region right",
                f"found (≥ {own['likely']:g})",
                "absent phrases rejected",
            ],
            rows,
        )
    if "alignment" in report:
        own = report["alignment"]
        rows = [
            [name, _share(own[name]["accuracy"]), _share(own[name]["chain"])]
            for name in ("before", "after")
        ]
        yield (
            "alignment, cross-validated",
            ["", "phrases on their region", "without knowing the phrases"],
            rows,
        )
    if "search" in report:
        yield _search_table(report["search"])
    if "background" in report:
        own = report["background"]
        yield "background", ["photos", "regions", "kept", "examples"], [[*own.values()]]
    for part in ("names", "colours"):
        if part in report:
            own = report[part]
            row = [own["names"], own["photos"], *(f"{own[name]:.1f} %" for name in NAMED_RIGHT)]
            yield (
                f"{part}, on held-out photos",
                [part, "photos", "right", "among the best five"],
                [row],
            )


def _search_table(own: dict[str, Any]) -> Table:
    rows = []
    for name in ("names", "words", "phrases", "sentences"):
        if name in own:
            checked = own.get("cross_fitted", {}).get(name, {})
            shares = (
                own[name]["right_first"],
                own[name]["right_first_by_fit_alone"],
                checked.get("recall"),
                checked.get("precision"),
                checked.get("nothing_found_of_not_there"),
            )
            error = checked.get("expected_calibration_error")
            last = "–" if error is None else f"{error:.4f}"
            rows.append([name, own[name]["queries"], *map(_share, shares), last])
    columns = [
        "",
        "queries",
        "right photo first",
        "by vectors alone",
        f"shown (≥ {own['likely']:g})",
        "of them right",
        "absent: nothing found",
        "expected error",
    ]
    return "search, last four cross-validated", columns, rows


def _percent(figures: dict[str, float]) -> list[str]:
    return [f"{100 * figures[name]:.2f}" for name in FIGURES]


def _reliability(figures: dict[str, Any]) -> list[str]:
    error = figures["expected_calibration_error"]
    regions = figures["regions_per_photo"]
    return [f"{error:.4f}", f"{regions:.2f}", _share(figures["right"])]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
