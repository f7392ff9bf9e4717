"""`regiontalk evaluate`: the papers' metrics on files (formats: docs/evaluation.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regiontalk.cli import console
from regiontalk.cli.evaluate_alignment import alignment, grounding, print_ranking, vector_lengths
from regiontalk.cli.measurement import Measurement, measured
from regiontalk.errors import SkippedInputs

if TYPE_CHECKING:
    from regiontalk.data.records import Record
    from regiontalk.evaluation.dense_ap import DenseEvaluation, DenseResult
    from regiontalk.evaluation.files import Problems
    from regiontalk.evaluation.language import CorpusScorer, SentenceScorer
    from regiontalk.types import ImageRegions

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
FILE = click.Path(exists=True, path_type=Path)
OUTPUT = click.Path(dir_okay=False, path_type=Path)


def _output_options(command: Decorated) -> Decorated:
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="No messages, no bars."),
        click.option("--strict", is_flag=True, help="Fail (exit 3) when anything in the input is wrong."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table."),
    ):
        command = option(command)
    return command


def _truth_options(command: Decorated) -> Decorated:
    for option in (
        click.option("--split", help="Only the truth's records of this split, such as test."),
        click.option("--predictions", type=FILE, required=True, help="JSON lines (.jsonl or .jsonl.gz)."),
        click.option("--truth", type=FILE, required=True, help="A file of records or a data set folder."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Compared:
    """The truth and the predictions that a verb compares, and how it answers."""

    truth: Path
    predictions: Path
    split: str | None
    as_json: bool
    strict: bool
    quiet: bool

    def problems(self) -> AbstractContextManager[Problems]:
        return _problems(self.strict, self.quiet)

    def records(self, problems: Problems) -> Iterator[Record]:
        from regiontalk.evaluation.files import read_truth

        return read_truth(self.truth, self.split, problems)

    def images(self, sizes: Mapping[str, tuple[int, int]], problems: Problems) -> Iterator[ImageRegions]:
        """The predictions for the images of the truth, of such sizes."""
        from regiontalk.evaluation.files import read_predictions

        return console.track(read_predictions(self.predictions, sizes, problems), "images", len(sizes), self.quiet)


def _compared(command: Callable[..., None]) -> Callable[..., None]:
    """Hands a verb the options of `_truth_options` and `_output_options` as one `files`; to be the innermost."""

    @wraps(command)
    def comparing(**options: Any) -> None:
        command(files=Compared(**{one.name: options.pop(one.name) for one in fields(Compared)}), **options)

    return comparing


def _meteor_options(command: Decorated) -> Decorated:
    for option in (
        click.option("--without", type=click.Choice(["meteor"]), help="Do without METEOR's tables."),
        click.option(
            "--meteor",
            type=click.Choice(["python", "java"]),
            default="python",
            show_default=True,
            help="Our METEOR, or the original in a Java process.",
        ),
    ):
        command = option(command)
    return command


@click.group()
def command() -> None:
    """The papers' metrics, on files of truth and predictions; those of alignment, on a run.

    --record DIR keeps figures and how they came about. A look at a test split is counted in the model's folder.
    """


for _verb in (alignment, grounding, vector_lengths):
    command.add_command(_verb)


@command.command()
@_truth_options
@click.option("--protocol", type=click.Choice(["densecap", "joint"]), default="densecap", show_default=True)
@click.option("--last-truth-slip", is_flag=True, help="Repeat the slip of DenseCap's released evaluator.")
@click.option("--no-box-check", is_flag=True, help="Take the boxes as they are, whatever they look like.")
@click.option("--no-reference-scores", is_flag=True, help="Leave out the constant caption and the held-out person.")
@_meteor_options
@click.option("-j", "--workers", type=click.IntRange(min=1), help="Processes for METEOR (default: one per core).")
@click.option("-o", "--output", type=OUTPUT, help="Also write an HTML report here.")
@_output_options
@measured("dense")
@_compared
def dense(
    *,
    files: Compared,
    protocol: str,
    last_truth_slip: bool,
    no_box_check: bool,
    no_reference_scores: bool,
    meteor: str,
    without: str | None,
    workers: int | None,
    output: Path | None,
    measurement: Measurement,
) -> None:
    """Regions with captions: mean AP over IoU and METEOR thresholds (DenseCap section 4.1)."""
    from regiontalk.evaluation.average_precision import rules_named
    from regiontalk.evaluation.dense_ap import DenseEvaluation

    rules = rules_named(protocol, last_truth_slip)
    measurement.record.uses("predictions", files.predictions)
    with files.problems() as problems, _sentence_scorer(meteor, without, workers, files.quiet) as scorer:
        records = console.track(measurement.count(files.records(problems)), "truth", quiet=files.quiet)
        evaluation = DenseEvaluation(records, scorer, rules, not no_box_check)
        for image in files.images(evaluation.sizes, problems):
            evaluation.add(image)
        result = evaluation.result(not no_reference_scores)
        if files.as_json:
            console.print_json(result.to_dict())
        else:
            _print_dense(result)
        measurement.finish(files.truth, result.to_dict())
        if output is not None:
            _write_report(output, evaluation, result, files)


def _write_report(output: Path, evaluation: DenseEvaluation, result: DenseResult, files: Compared) -> None:
    from regiontalk import images
    from regiontalk.data.records import TarShards
    from regiontalk.evaluation.files import Problems, read_predictions
    from regiontalk.evaluation.report import write_report

    shards = TarShards(files.truth if files.truth.is_dir() else files.truth.parent)
    records = {record.image: record for record in files.records(Problems())}
    found = read_predictions(files.predictions, evaluation.sizes, Problems())
    write_report(output, evaluation, result, found, lambda name: images.open_photo(shards.photo(records[name])))


@command.command()
@_truth_options
@_meteor_options
@click.option("--training", type=FILE, help="Records; says how many sentences stand in their train split.")
@_output_options
@measured("captions")
@_compared
def captions(
    *, files: Compared, meteor: str, without: str | None, training: Path | None, measurement: Measurement
) -> None:
    """One sentence a photo: BLEU-1..4, METEOR, CIDEr, ROUGE-L (K&FF table 2)."""
    from regiontalk.evaluation.captions import evaluate_captions, share_found
    from regiontalk.evaluation.files import read_sentences, read_truth

    measurement.record.uses("predictions", files.predictions)
    with files.problems() as problems, _corpus_scorer(meteor, without, files.quiet) as scorer:
        records = measurement.count(files.records(problems))
        references = {one.image: one.sentences for one in records if one.sentences}
        found = read_sentences(files.predictions, references, problems)
        pairs = [(found[path], more) for path, more in references.items() if path in found]
        figures = evaluate_captions(pairs, scorer).to_dict()
        if training is not None:
            known = (one for record in read_truth(training, "train", problems) for one in record.sentences)
            figures["in_training"] = share_found(found.values(), known)
        _print_figures("Sentences", figures, files.as_json)
        measurement.finish(files.truth, figures)


@command.command()
@_truth_options
@_meteor_options
@_output_options
@measured("regions")
@_compared
def regions(*, files: Compared, meteor: str, without: str | None, measurement: Measurement) -> None:
    """Captions of given boxes: BLEU-1..4, METEOR, CIDEr, ROUGE-L (K&FF table 3)."""
    from regiontalk.evaluation.regions import evaluate_regions

    measurement.record.uses("predictions", files.predictions)
    with files.problems() as problems, _corpus_scorer(meteor, without, files.quiet) as scorer:
        records = list(measurement.count(files.records(problems)))
        sizes = {record.image: (record.width, record.height) for record in records}
        figures = evaluate_regions(records, files.images(sizes, problems), scorer, problems).to_dict()
        _print_figures("Captions of given regions", figures, files.as_json)
        measurement.finish(files.truth, figures)


@command.command()
@_truth_options
@click.option(
    "--smallest",
    type=click.FloatRange(min=0),
    default=32,
    show_default=True,
    metavar="PX",
    help="Leave out objects of less than PX × PX original pixels.",
)
@click.option("--classes", is_flag=True, help="Also the share of every class.")
@_output_options
@_compared
def names(*, files: Compared, smallest: float, classes: bool) -> None:
    """Captions of given boxes: how many name the object in them (docs/phrases.md)."""
    from regiontalk.evaluation.names import evaluate_names

    with files.problems() as problems:
        records = list(files.records(problems))
        sizes = {record.image: (record.width, record.height) for record in records}
        figures = evaluate_names(records, files.images(sizes, problems), smallest).to_dict()
        if figures["missing"]:
            problems.add(str(files.predictions), f"no caption for {figures['missing']} objects; they count as wrong")
        shares = figures.pop("classes")
        if files.as_json:
            console.print_json(figures | {"classes": shares} if classes else figures)
            return
        console.print_table(
            f"{figures['objects']} objects, named in %",
            ["", "right"],
            [
                ["right", _percent(figures["right"])],
                ["right_without_people", _percent(figures["right_without_people"])],
                ["class_mean", _percent(figures["class_mean"])],
            ],
        )
        if classes:
            rows = [[name, _percent(one["right"]), one["objects"]] for name, one in shares.items()]
            console.print_table("", ["class", "right", "objects"], rows)


@command.command()
@click.argument("scores", type=FILE, nargs=-1, required=True)
@click.option("--first", type=click.IntRange(min=1), help="Only the first images and their sentences.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@measured("ranking")
def ranking(*, scores: tuple[Path, ...], first: int | None, measurement: Measurement, as_json: bool) -> None:
    """Images by sentences and back: R@1/5/10, median rank (K&FF table 1); several files: their mean."""
    from regiontalk.evaluation.ranking import evaluate_ranking, load_scores

    models = []
    for path in scores:
        measurement.record.uses("scores", path)
        model = load_scores(path)
        models.append(model if first is None else model.first(first))
    result = evaluate_ranking(models)
    print_ranking(result, as_json)
    measurement.finish(None, result.to_dict())


@command.command()
@click.option("--queries", type=FILE, required=True, help="A file of `evaluate queries`.")
@click.option("--predictions", type=FILE, required=True, help="Answers, JSON lines.")
@_output_options
@measured("retrieval")
def retrieval(
    *,
    queries: Path,
    predictions: Path,
    measurement: Measurement,
    as_json: bool,
    strict: bool,
    quiet: bool,
) -> None:
    """Photos and regions from four captions: R@k, median rank, IoU@t (DenseCap table 2)."""
    from regiontalk.evaluation.retrieval import evaluate_retrieval, read_answers, read_queries

    measurement.record.uses("queries", queries)
    measurement.record.uses("predictions", predictions)
    with _problems(strict, quiet) as problems:
        asked = read_queries(queries)
        figures = evaluate_retrieval(asked, read_answers(predictions, asked, problems)).to_dict()
        _print_figures("Retrieval", figures, as_json)
        measurement.finish(None, figures)


@command.command()
@click.option("--truth", type=FILE, required=True, help="A file of records or a data set folder.")
@click.option("--split", help="Only the truth's records of this split, such as test.")
@click.option("--images", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--count", type=click.IntRange(min=1), default=100, show_default=True, help="Queries.")
@click.option("--captions", type=click.IntRange(min=1), default=4, show_default=True, help="In a query.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
def queries(*, truth: Path, split: str | None, images: int, count: int, captions: int, seed: int) -> None:
    """Draw queries for `evaluate retrieval` from the truth and print them as JSON."""
    from regiontalk.evaluation.files import read_truth
    from regiontalk.evaluation.retrieval import sample_queries

    with _problems(strict=False, quiet=False) as problems:
        records = list(read_truth(truth, split, problems))
        console.print_json(sample_queries(records, images, count, captions, seed).to_dict())


@contextmanager
def _problems(strict: bool, quiet: bool) -> Iterator[Problems]:
    """Names what is wrong with the input as it is found; with --strict fails in the end."""
    from regiontalk.evaluation.files import Problems

    problems = Problems(tell=lambda text: console.message(text, quiet))
    yield problems
    if problems.hidden:
        console.message(f"… and {problems.hidden} more", quiet)
    if strict and problems.count:
        raise SkippedInputs(f"{problems.count} problem(s) in the input")


def _sentence_scorer(
    meteor: str, without: str | None, workers: int | None, quiet: bool
) -> AbstractContextManager[SentenceScorer]:
    from regiontalk.evaluation.language import UnigramF1
    from regiontalk.evaluation.scoring_pool import open_meteor

    if without is None:
        return open_meteor(meteor, workers or os.cpu_count() or 1, partial(console.message, quiet=quiet))
    console.message("without METEOR: unigram F1 stands in; compare with no published figure", quiet)
    return nullcontext(UnigramF1())


def _corpus_scorer(meteor: str, without: str | None, quiet: bool) -> AbstractContextManager[CorpusScorer | None]:
    from regiontalk.evaluation.scoring_pool import open_meteor

    if without is None:
        return open_meteor(meteor, notify=partial(console.message, quiet=quiet))
    console.message("without METEOR: the other figures alone", quiet)
    return nullcontext(None)


def _print_dense(result: DenseResult) -> None:
    from regiontalk.evaluation.average_precision import IOU_THRESHOLDS, LANGUAGE_THRESHOLDS
    from regiontalk.evaluation.reference_scores import label

    rows: list[list[object]] = [
        ["predictions", _percent(result.map), _percent(result.map_strict), _percent(result.detection_map)]
    ]
    for name, values in result.reference_scores.items():
        rows.append([f"true boxes: {label(name, values)}", _percent(values["map"]), _percent(values["map_strict"]), ""])
    metric = result.metric
    title = f"{result.images} images, protocol {result.protocol}, {metric} {result.language:.3f}"
    console.print_table(title, ["", "mAP", f"{metric} ≥ 0.1", "boxes alone"], rows)
    columns = ["AP", *(f"{metric} > {score:g}" for score in LANGUAGE_THRESHOLDS)]
    cells = zip(IOU_THRESHOLDS, result.ap, strict=True)
    console.print_table("", columns, [[f"IoU {iou:g}", *map(_percent, values)] for iou, values in cells])


def _print_figures(title: str, figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        console.print_json(figures)
        return
    rows = [[name, f"{value:.4f}" if isinstance(value, float) else value] for name, value in figures.items()]
    console.print_table(title, ["", "value"], rows)


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"
