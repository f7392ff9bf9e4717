"""`regiontalk evaluate`: the papers' metrics on files (formats: docs/evaluation.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regiontalk.cli import console
from regiontalk.cli.evaluate_alignment import alignment, grounding, magnitudes, print_ranking
from regiontalk.errors import SkippedInputs

if TYPE_CHECKING:
    from regiontalk.evaluation.dense_ap import DenseEvaluation, DenseResult
    from regiontalk.evaluation.files import Problems
    from regiontalk.evaluation.language import CorpusScorer, SentenceScorer

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
    """The papers' metrics, on files of truth and predictions; those of alignments, on a run."""


for _verb in (alignment, grounding, magnitudes):
    command.add_command(_verb)


@command.command()
@_truth_options
@click.option("--protocol", type=click.Choice(["densecap", "joint"]), default="densecap", show_default=True)
@click.option("--last-truth-slip", is_flag=True, help="Repeat the slip of DenseCap's released evaluator.")
@click.option("--no-box-check", is_flag=True, help="Take the boxes as they are, whatever they look like.")
@click.option("--no-yardsticks", is_flag=True, help="Leave out the constant caption and the left-out person.")
@_meteor_options
@click.option("-j", "--workers", type=click.IntRange(min=1), help="Processes for METEOR; as many as there are cores.")
@click.option("-o", "--output", type=OUTPUT, help="Also write an HTML report here.")
@_output_options
def dense(
    *,
    truth: Path,
    predictions: Path,
    split: str | None,
    protocol: str,
    last_truth_slip: bool,
    no_box_check: bool,
    no_yardsticks: bool,
    meteor: str,
    without: str | None,
    workers: int | None,
    output: Path | None,
    as_json: bool,
    strict: bool,
    quiet: bool,
) -> None:
    """Regions with captions: mean AP over IoU and METEOR thresholds (DenseCap section 4.1)."""
    from regiontalk.evaluation.average_precision import rules_named
    from regiontalk.evaluation.dense_ap import DenseEvaluation
    from regiontalk.evaluation.files import read_predictions, read_truth

    rules = rules_named(protocol, last_truth_slip)
    with _problems(strict, quiet) as problems, _sentence_scorer(meteor, without, workers, quiet) as scorer:
        records = console.track(read_truth(truth, split, problems), "truth", quiet=quiet)
        evaluation = DenseEvaluation(records, scorer, rules, not no_box_check)
        sizes = {name: (one.width, one.height) for name, one in evaluation.truths.items()}
        images = read_predictions(predictions, sizes, problems)
        for image in console.track(images, "images", len(sizes), quiet):
            evaluation.add(image)
        result = evaluation.result(not no_yardsticks)
        if as_json:
            console.print_json(result.to_dict())
        else:
            _print_dense(result)
        if output is not None:
            _write_report(
                output=output,
                evaluation=evaluation,
                result=result,
                truth=truth,
                split=split,
                predictions=predictions,
            )


def _write_report(
    *,
    output: Path,
    evaluation: DenseEvaluation,
    result: DenseResult,
    truth: Path,
    split: str | None,
    predictions: Path,
) -> None:
    from regiontalk import images
    from regiontalk.data.records import TarShards
    from regiontalk.evaluation.files import Problems, read_predictions, read_truth
    from regiontalk.evaluation.report import write_report
    from regiontalk.files import read_file

    folder = truth if truth.is_dir() else truth.parent
    shards = TarShards(folder)
    shard_of = {record.image: record.shard for record in read_truth(truth, split, Problems())}

    def open_photo(name: str) -> Any:
        shard = shard_of[name]
        return images.open_photo(shards.read(shard, name) if shard else read_file(folder / name))

    sizes = {name: (one.width, one.height) for name, one in evaluation.truths.items()}
    write_report(output, evaluation, result, read_predictions(predictions, sizes, Problems()), open_photo)


@command.command()
@_truth_options
@_meteor_options
@click.option("--training", type=FILE, help="Records; says how many sentences stand in their train split.")
@_output_options
def captions(
    *,
    truth: Path,
    predictions: Path,
    split: str | None,
    meteor: str,
    without: str | None,
    training: Path | None,
    as_json: bool,
    strict: bool,
    quiet: bool,
) -> None:
    """One sentence a photo: BLEU-1..4, METEOR, CIDEr, ROUGE-L (K&FF table 2)."""
    from regiontalk.evaluation.captions import evaluate_captions, share_found
    from regiontalk.evaluation.files import read_sentences, read_truth

    with _problems(strict, quiet) as problems, _corpus_scorer(meteor, without, quiet) as scorer:
        records = {one.image: one.sentences for one in read_truth(truth, split, problems) if one.sentences}
        found = read_sentences(predictions, records, problems)
        result = evaluate_captions([(found[path], records[path]) for path in records if path in found], scorer)
        out = result.to_dict()
        if training is not None:
            known = (one for record in read_truth(training, "train", problems) for one in record.sentences)
            out["in_training"] = share_found(found.values(), known)
        _print_figures("Sentences", out, as_json)


@command.command()
@_truth_options
@_meteor_options
@_output_options
def regions(
    *,
    truth: Path,
    predictions: Path,
    split: str | None,
    meteor: str,
    without: str | None,
    as_json: bool,
    strict: bool,
    quiet: bool,
) -> None:
    """Captions of given boxes: BLEU-1..4, METEOR, CIDEr, ROUGE-L (K&FF table 3)."""
    from regiontalk.evaluation.files import read_predictions, read_truth
    from regiontalk.evaluation.regions import evaluate_regions

    with _problems(strict, quiet) as problems, _corpus_scorer(meteor, without, quiet) as scorer:
        records = list(read_truth(truth, split, problems))
        sizes = {record.image: (record.width, record.height) for record in records}
        images = console.track(read_predictions(predictions, sizes, problems), "images", len(sizes), quiet)
        result = evaluate_regions(records, images, scorer, problems)
        _print_figures("Captions of given regions", result.to_dict(), as_json)


@command.command()
@click.argument("scores", type=FILE, nargs=-1, required=True)
@click.option("--first", type=click.IntRange(min=1), help="Only the first images and their sentences.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def ranking(scores: tuple[Path, ...], first: int | None, as_json: bool) -> None:
    """Images by sentences and back: R@1/5/10, median rank (K&FF table 1); several files: their mean."""
    from regiontalk.evaluation.ranking import evaluate_ranking, load_scores

    models = (load_scores(path) for path in scores)
    print_ranking(evaluate_ranking(model if first is None else model.first(first) for model in models), as_json)


@command.command()
@click.option("--queries", type=FILE, required=True, help="A file of `evaluate queries`.")
@click.option("--predictions", type=FILE, required=True, help="Answers, JSON lines.")
@_output_options
def retrieval(queries: Path, predictions: Path, as_json: bool, strict: bool, quiet: bool) -> None:
    """Photos and regions from four captions: R@k, median rank, IoU@t (DenseCap table 2)."""
    from regiontalk.evaluation.retrieval import evaluate_retrieval, read_answers, read_queries

    with _problems(strict, quiet) as problems:
        asked = read_queries(queries)
        result = evaluate_retrieval(asked, read_answers(predictions, asked, problems))
        _print_figures("Retrieval", result.to_dict(), as_json)


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


@command.command()
@click.argument("runs", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("page", type=OUTPUT)
@click.option("--check", is_flag=True, help="Write nothing; fail (exit 4) when the page is out of date.")
def tables(runs: Path, page: Path, check: bool) -> None:
    """Write the results page from the runs kept under a folder (NAME/metrics.json)."""
    from regiontalk.evaluation.tables import update_page

    update_page(runs, page, check)


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
    from regiontalk.evaluation.language import UnigramF1, open_meteor

    if without is None:
        return open_meteor(meteor, workers or os.cpu_count() or 1, partial(console.message, quiet=quiet))
    console.message("without METEOR: unigram F1 stands in; compare with no published figure", quiet)
    return nullcontext(UnigramF1())


def _corpus_scorer(meteor: str, without: str | None, quiet: bool) -> AbstractContextManager[CorpusScorer | None]:
    from regiontalk.evaluation.language import open_meteor

    if without is None:
        return open_meteor(meteor, notify=partial(console.message, quiet=quiet))
    console.message("without METEOR: the other figures alone", quiet)
    return nullcontext(None)


def _print_dense(result: DenseResult) -> None:
    from regiontalk.evaluation.average_precision import IOU_THRESHOLDS, LANGUAGE_THRESHOLDS

    rows: list[list[object]] = [
        ["predictions", _percent(result.map), _percent(result.map_strict), _percent(result.detection_map)]
    ]
    names = {"constant": "yardstick: best constant caption", "human": "yardstick: left-out person"}
    for name, values in result.yardsticks.items():
        said = f" “{values['caption']}”" if "caption" in values else ""
        rows.append([names[name] + said, _percent(values["map"]), _percent(values["map_strict"]), ""])
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
