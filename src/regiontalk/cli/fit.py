"""`regiontalk fit`: what is fitted on dev photos after training, and how much it helps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import regiontalk
from regiontalk.cli import console
from regiontalk.cli.options import FILE, MODEL, PLACE, json_option, quiet_option, workers_option
from regiontalk.data.records import Dataset, Record, evenly_spaced, open_split
from regiontalk.errors import DataError
from regiontalk.files import replacing
from regiontalk.model_folder import check_free, read_model_folder, write_model_folder
from regiontalk.model_settings import PredictionConfig, SearchConfig
from regiontalk.runs import recording

if TYPE_CHECKING:
    from regiontalk.evaluation.dense_ap import DenseResult
    from regiontalk.evaluation.language import SentenceScorer
    from regiontalk.fitting.photos import SeenPhoto
    from regiontalk.model import Model

PARTS = ("settings", "ranking", "calibration", "confidence", "find", "alignment", "search")
ON_THEIR_OWN = ("find", "alignment", "search")  # parts that look at photos in their own way
OF_WORDS = ("alignment", "search")  # parts for models that align words with regions
TRIED = ("score", "final_nms", "proposals", "caption_weight")
FIGURES = ("map", "map_strict", "detection_map")
SHOWN = 5  # of the settings that were tried


@click.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=PLACE, nargs=-1, required=True)
@click.option("-o", "--output", type=PLACE, help="The fitted model's new folder.")
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Fit this alone; may be given more than once.")
@click.option(
    "--split", type=click.Choice(["dev", "train"]), default="dev", show_default=True, help="Photos to fit on."
)
@click.option("--photos", type=click.IntRange(min=1), help="Only so many of each DATA, evenly spaced.")
@click.option("--diagram", type=FILE, help="Reliability before and after, as SVG.")
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
    diagram: Path | None,
    workers: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit MODEL, a model folder, to dev photos of DATA that it was not trained on.

    Seven things, in this order; confidence and search on all DATA, the others on the first:

    \b
    settings     score rule, NMS, number of proposals and caption weight: those of best dense mAP
    ranking      a small net that learns which regions come first
    calibration  what turns a score into the probability that a region is right: that it overlaps a
                 true one by an IoU of 0.5
    confidence   how likely a caption names its region correctly, the confidence from which captions
                 are shown, and when a shorter or longer caption is said
    find         how likely a region shows a phrase, and below which probability `regiontalk find` says
                 that it is not there
    alignment    what `regiontalk align` weighs: places, likelihood, and how much words hold together
    search       how likely a photo shows a phrase, and below which probability `regiontalk search`
                 shows nothing

    The last two are for models that align words with regions. Each photo is looked at once, and figures are
    cross-validated. What is fitted anew drops what was fitted after it, unless that is fitted as well. Dense mAP is
    that of `regiontalk evaluate dense`, with METEOR.
    """
    parts = tuple(part for part in PARTS if part in (only or PARTS))
    if not only and "words" not in read_model_folder(model).heads:
        parts = tuple(part for part in parts if part not in OF_WORDS)
    if output is not None:
        check_free(output)
    if diagram is not None and "calibration" not in parts:
        raise click.UsageError("--diagram shows the calibration, which is not fitted")
    datasets = [open_split(folder, split) for folder in (data if {"confidence", "search"} & set(parts) else data[:1])]
    fitter = Fitter(regiontalk.load(model), parts, workers, photos, quiet)
    with _scorer(parts, quiet) as scorer:
        settings, report = fitter.fit(datasets, scorer)
    of_words: dict[str, Any] = {}
    with _skipped(bool(only), quiet):
        if "find" in parts:
            settings, report["find"] = fitter.fit_find(datasets[0], settings)
    with _skipped(bool(only), quiet):
        if "alignment" in parts:
            of_words, report["alignment"] = fitter.fit_alignment(datasets[0], settings)
    if "search" in parts:
        search, report["search"] = fitter.fit_search(datasets, settings)
        of_words |= {"search": asdict(search)}
        report["photos"] = max(report["photos"], report["search"]["photos"])
    report = {"model": fitter.model.runtime.info.name, "fitted_on": split} | report
    if diagram is not None:
        _draw(diagram, report["calibration"])
    if output is not None:
        with recording("fit", output, parts=parts) as record:
            record.uses("model", model)
            for dataset in datasets:
                record.uses_data(dataset.folder, split, min(len(dataset), photos or len(dataset)))
            _write(model, output, settings, of_words)
        console.message(f"{output}: {model}, {', '.join(parts)} fitted on {report['photos']} {split} photos", quiet)
    if as_json:
        console.print_json(report)
    else:
        _print(report)


@dataclass(frozen=True)
class Fitter:
    """Looks at photos once and fits the parts to what was seen."""

    model: Model
    parts: tuple[str, ...]
    workers: int
    photos: int | None
    quiet: bool

    def fit(self, datasets: Sequence[Dataset], scorer: SentenceScorer) -> tuple[PredictionConfig, dict[str, Any]]:
        """The settings with everything fitted, and the figures."""
        settings = _without(self.model.runtime.info.prediction, self.parts)
        first, *others = datasets
        if set(self.parts) <= set(ON_THEIR_OWN):
            return settings, {"photos": len(evenly_spaced(len(first), self.photos or len(first)))}
        seen = self.look(first, settings)
        report: dict[str, Any] = {"photos": len(seen)}
        if "settings" in self.parts:
            settings, report["settings"] = self.fit_settings(seen, settings, scorer)
        if "ranking" in self.parts:
            settings, report["ranking"] = self.fit_ranking(seen, settings, scorer)
        if "calibration" in self.parts:
            settings, report["calibration"] = self.fit_calibration(seen, settings)
        if "confidence" in self.parts:
            named = {str(first.folder): seen}
            named |= {str(other.folder): self.look(other, settings, ("confidence",)) for other in others}
            settings, report["confidence"] = self.fit_confidence(named, settings)
            report["photos"] = sum(map(len, named.values()))
        return settings, report

    def look(
        self, dataset: Dataset, settings: PredictionConfig, parts: tuple[str, ...] | None = None
    ) -> list[SeenPhoto]:
        """The photos, with what the `parts` (default: all) need to know of them."""
        from regiontalk.data.dataset_model import DatasetModel
        from regiontalk.fitting.photos import look_at
        from regiontalk.fitting.settings import settings_to_try

        parts = parts or self.parts
        tried = list(settings_to_try(settings)) if "settings" in parts else [settings]
        asked, numbers = DatasetModel(self.model, dataset), evenly_spaced(len(dataset), self.photos or len(dataset))
        found = asked.each(lambda record: look_at(asked, record, tried, "confidence" in parts), numbers, self.workers)
        return list(console.track(found, f"Looking at {dataset.folder}", len(numbers), self.quiet))

    def fit_settings(
        self, seen: list[SeenPhoto], base: PredictionConfig, scorer: SentenceScorer
    ) -> tuple[PredictionConfig, dict[str, Any]]:
        from regiontalk.fitting.settings import choose, settings_to_try, try_settings

        tried = list(settings_to_try(base))
        watched = console.track(tried, "Comparing settings", len(tried), self.quiet)
        results = try_settings(seen, self.model.runtime.words, watched, scorer)
        rows = [{name: getattr(one, name) for name in TRIED} | _figures(result) for one, result in results]
        return choose(results), {"tried": rows}

    def fit_ranking(
        self, seen: list[SeenPhoto], settings: PredictionConfig, scorer: SentenceScorer
    ) -> tuple[PredictionConfig, dict[str, Any]]:
        from regiontalk.fitting.cross_validation import cross_validated
        from regiontalk.fitting.ranking import fit_photos, judge, targets, to_ranked

        words = self.model.runtime.words
        photos = [to_ranked(photo, settings, words) for photo in seen]
        pairs = list(zip(photos, targets(photos, scorer), strict=True))
        rankings = cross_validated(pairs, fit_photos)
        before = judge(photos, [None] * len(photos), settings, words, scorer)
        after = judge(photos, rankings, settings, words, scorer)
        regions = sum(len(photo.captions) for photo in photos)
        report = {"regions": regions, "before": _figures(before), "after": _figures(after)}
        return replace(settings, ranking=fit_photos(pairs)), report

    def fit_calibration(
        self, seen: list[SeenPhoto], settings: PredictionConfig
    ) -> tuple[PredictionConfig, dict[str, Any]]:
        import numpy as np

        from regiontalk.calibration import calibrated
        from regiontalk.evaluation.reliability import RIGHT_IOU, Judged, joined, judge, summary
        from regiontalk.fitting.calibration import fit
        from regiontalk.fitting.cross_validation import cross_validated

        def fit_photos(photos: list[Judged]) -> tuple[float, float, float]:
            every = joined(photos)
            return fit(every.scores, every.right)

        photos = [judge([(photo.regions(settings, self.model.runtime.words), photo.record)]) for photo in seen]
        others, found, every = cross_validated(photos, fit_photos), fit_photos(photos), joined(photos)
        after = np.concatenate([calibrated(one.scores, other) for one, other in zip(photos, others, strict=True)])
        report = {
            "calibration": list(found),
            "right_iou": RIGHT_IOU,
            "regions": len(every.scores),
            "before": summary(every, every.scores),
            "after": summary(every, after),
        }
        return replace(settings, calibration=found), report

    def fit_confidence(
        self, named: dict[str, list[SeenPhoto]], settings: PredictionConfig
    ) -> tuple[PredictionConfig, dict[str, Any]]:
        from regiontalk.fitting.confidence import fit_and_check, report

        words = self.model.runtime.words
        photos = [photo.judged_captions(settings, words) for seen in named.values() for photo in seen]
        found, sure = fit_and_check(photos)
        figures, first = {}, 0
        for name, seen in named.items():
            own = slice(first, first + len(seen))
            figures[name] = report(photos[own], sure[own], found)
            first += len(seen)
        every = report(photos, sure, found)
        return replace(settings, confidence=found), {
            "longer": found.longer,
            "data": figures,
        } | every

    def fit_find(self, dataset: Dataset, settings: PredictionConfig) -> tuple[PredictionConfig, dict[str, Any]]:
        from regiontalk.aligner import HEAD
        from regiontalk.data.dataset_model import DatasetModel
        from regiontalk.evaluation.find import Sought, evaluate_find, phrases_of_others, seek
        from regiontalk.fitting.find import fit
        from regiontalk.model import BEST_REGIONS

        self.model.runtime.info = replace(self.model.runtime.info, prediction=settings)
        asked, numbers = DatasetModel(self.model, dataset), evenly_spaced(len(dataset), self.photos or len(dataset))
        absent = phrases_of_others([dataset[number] for number in numbers])

        def look(record: Record) -> tuple[list[Sought], list[Sought]]:
            seen, others = asked.candidates(record), absent[record.image]
            stored = seek(self.model, record, seen.first(1 + BEST_REGIONS), others, by_likelihood=False)
            return seek(self.model, record, seen, others), stored

        found = asked.each(look, numbers, self.workers)
        photos = list(console.track(found, "Looking for phrases", len(numbers), self.quiet))
        sought, stored = ([one for photo in part for one in photo] for part in zip(*photos, strict=True))
        config, indexed = fit(sought), fit(stored) if HEAD in self.model.runtime.heads else None
        report = {"likely": config.likely} | evaluate_find(sought, config)
        if indexed is not None:
            report["indexed"] = {"likely": indexed.likely} | evaluate_find(stored, indexed)
        return replace(settings, find=config, find_indexed=indexed), report

    def fit_alignment(self, dataset: Dataset, settings: PredictionConfig) -> tuple[dict[str, float], dict[str, Any]]:
        """The weights, by name."""
        from regiontalk.aligner import AlignmentHead
        from regiontalk.data.dataset_model import DatasetModel
        from regiontalk.evaluation.alignment import AlignedPhotos
        from regiontalk.fitting.alignment import fit

        self.model.runtime.info = replace(self.model.runtime.info, prediction=settings)
        aligned, numbers = AlignedPhotos(self.model, dataset), evenly_spaced(len(dataset), self.photos or len(dataset))
        found = DatasetModel(self.model, dataset).each(aligned.sentences, numbers, self.workers)
        photos = list(console.track(found, "Aligning phrases", len(numbers), self.quiet))
        report = fit(photos, AlignmentHead(self.model.runtime).settings)
        return report["fitted"], report

    def fit_search(
        self, datasets: Sequence[Dataset], settings: PredictionConfig
    ) -> tuple[SearchConfig, dict[str, Any]]:
        """On what is stored of photos if the model has these settings."""
        from regiontalk.data.dataset_model import DatasetModel
        from regiontalk.fitting.search import fit
        from regiontalk.search.build import to_entry
        from regiontalk.search.store import Entry, PhotoFile

        self.model.runtime.info = replace(self.model.runtime.info, prediction=settings)
        photos: list[tuple[Record, Entry]] = []
        for dataset in datasets:
            asked = DatasetModel(self.model, dataset)

            def look(record: Record, asked: DatasetModel = asked) -> tuple[Record, Entry]:
                file = PhotoFile(f"{asked.dataset.folder}/{record.image}", 0, 0)
                return record, to_entry(self.model, asked.look(record), file, b"")

            numbers = evenly_spaced(len(dataset), self.photos or len(dataset))
            found = asked.each(look, numbers, self.workers)
            photos += console.track(found, f"Looking at {dataset.folder} for search", len(numbers), self.quiet)
        return fit(self.model, photos)


def _without(settings: PredictionConfig, parts: tuple[str, ...]) -> PredictionConfig:
    """The settings before the first of the parts is fitted: nothing is fitted on top of what it replaces."""
    from regiontalk.calibration import UNCHANGED

    before = {"ranking": None, "calibration": UNCHANGED, "confidence": None}
    if "settings" in parts:
        settings = replace(settings, find=None, find_indexed=None)
    again = PARTS[PARTS.index(parts[0]) :]
    return replace(settings, **{name: value for name, value in before.items() if name in again})  # type: ignore[arg-type]


@contextmanager
def _skipped(asked: bool, quiet: bool) -> Iterator[None]:
    """A part that was not asked for by name is left out, with a message, where the records have nothing for it."""
    try:
        yield
    except DataError as error:
        if asked:
            raise
        console.message(error.message, quiet)


def _scorer(parts: tuple[str, ...], quiet: bool) -> AbstractContextManager[Any]:
    """METEOR, for those that need it."""
    if not {"settings", "ranking"} & set(parts):
        return nullcontext()
    from regiontalk.evaluation.scoring_pool import open_meteor

    return open_meteor(workers=os.cpu_count() or 1, notify=partial(console.message, quiet=quiet))


def _figures(result: DenseResult) -> dict[str, float]:
    return {name: getattr(result, name) for name in FIGURES}


def _draw(diagram: Path, report: dict[str, Any]) -> None:
    from regiontalk.evaluation.reliability import Bin, draw_reliability

    bins = {name: [Bin(**one) for one in report[name]["bins"]] for name in ("before", "after")}
    with replacing(diagram) as temporary:
        temporary.write_text(draw_reliability(bins), encoding="utf-8")


def _write(model: Path, output: Path, settings: PredictionConfig, of_words: dict[str, Any]) -> None:
    folder = read_model_folder(model)
    info, heads = replace(folder.info, prediction=settings), dict(folder.heads)
    if of_words:
        head = heads["words"]
        changed = replace(head.info, settings=head.info.settings | of_words)
        heads["words"] = replace(head, info=changed)
    write_model_folder(output, info, folder.words, folder.graphs, heads)


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
        rows = [[name, *_reliability(report["calibration"][name])] for name in ("before", "after")]
        columns = ["", "expected error", "regions a photo ≥ 0.5", "of them right"]
        console.print_table(f"calibration: {title}, cross-validated", columns, rows)
    if "confidence" in report:
        own = report["confidence"]
        rows = [
            [Path(name).name, one["captions"], _share(one["all_right"]), *_reliability(one)]
            for name, one in (own["data"] | {"all": own}).items()
        ]
        columns = ["", "captions", "right", "expected error", f"a photo ≥ {own['threshold']:g}", "of them right"]
        console.print_table(f"confidence: {title}, cross-validated", columns, rows)
    if "find" in report:
        own = report["find"]
        rows = [[own["phrases"], *(_share(own[name]) for name in ("accuracy", "found", "not_there"))]]
        columns = ["phrases", "best region right", f"found (≥ {own['likely']:g})", "not there: not found"]
        console.print_table(f"find: {title}", columns, rows)
    if "alignment" in report:
        own = report["alignment"]
        rows = [[name, _share(own[name]["accuracy"]), _share(own[name]["chain"])] for name in ("before", "after")]
        columns = ["", "phrases on their region", "without knowing the phrases"]
        console.print_table(f"alignment: {title}, cross-validated", columns, rows)
    if "search" in report:
        own = report["search"]
        names = {
            "right_first": "right photo first",
            "right_first_by_fit_alone": "by vectors alone",
            "right_first_and_shown": f"shown (≥ {own['likely']:g})",
            "nothing_found_of_not_there": "not there: nothing",
            "sentences_right_first": "sentences",
            "sentences_right_first_by_fit_alone": "by vectors alone",
        }
        error = f"{own['expected_calibration_error']:.4f}"
        rows = [[own["phrases"], *(_share(own[name]) for name in names), error]]
        columns = ["phrases", *names.values(), "expected error"]
        console.print_table(f"search: {title}", columns, rows)


def _percent(figures: dict[str, float]) -> list[str]:
    return [f"{100 * figures[name]:.2f}" for name in FIGURES]


def _reliability(figures: dict[str, Any]) -> list[str]:
    error, regions = figures["expected_calibration_error"], figures["regions_per_photo"]
    return [f"{error:.4f}", f"{regions:.2f}", _share(figures["right"])]


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
