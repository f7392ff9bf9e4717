"""`regiontalk evaluate dense|captions|regions|ranking|calibration`: metrics on files (formats:
docs/evaluation.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain, starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli.measurement import (
    INPUT,
    Measurement,
    Table,
    compared,
    figures_table,
    intervals_table,
    measured,
    photo_opener,
    ranking_table,
)
from regiontalk.cli.options import FILE

if TYPE_CHECKING:
    from regiontalk.lab.evaluation.dense_ap import DenseResult
    from regiontalk.lab.evaluation.language import UnigramF1

without_option = click.option(
    "--without", type=click.Choice(["meteor"]), help="Leave out METEOR and its tables."
)


@click.command()
@compared
@click.option(
    "--protocol", type=click.Choice(["densecap", "joint"]), default="densecap", show_default=True
)
@click.option(
    "--last-truth-slip", is_flag=True, help="Repeat a bug of DenseCap's released evaluator."
)
@click.option(
    "--no-box-check", is_flag=True, help="Do not check whether the boxes have the right format."
)
@click.option(
    "--no-reference-scores",
    is_flag=True,
    help="Leave out the constant caption and the held-out person.",
)
@without_option
@click.option(
    "-j",
    "--workers",
    type=click.IntRange(min=1),
    help="Processes for METEOR. Default: one per core.",
)
@click.option("-o", "--output", type=FILE, help="Also write an HTML report.")
@measured("dense")
def dense(
    *,
    truth: Path,
    predictions: Path,
    split: str | None,
    protocol: str,
    last_truth_slip: bool,
    no_box_check: bool,
    no_reference_scores: bool,
    without: str | None,
    workers: int | None,
    output: Path | None,
    measurement: Measurement,
) -> None:
    """Regions with captions: mean AP over IoU and METEOR thresholds (DenseCap section 4.1)."""
    from regiontalk.lab.evaluation.average_precision import RULES
    from regiontalk.lab.evaluation.dense_ap import DenseEvaluation
    from regiontalk.lab.evaluation.files import Problems, read_predictions, read_truth
    from regiontalk.lab.evaluation.language import UnigramF1
    from regiontalk.lab.evaluation.report import write_report

    rules = replace(RULES[protocol], last_truth_slip=last_truth_slip)
    with _scorer(without, measurement, workers or os.cpu_count() or 1, UnigramF1()) as scorer:
        evaluation = DenseEvaluation(
            measurement.records(truth, split), scorer, rules, not no_box_check
        )
        for image in measurement.predictions(predictions, evaluation.sizes):
            evaluation.add(image)
        result = evaluation.result(not no_reference_scores, intervals=True)
        measurement.finish(result.to_dict(), *_dense_tables(result))
        if output is not None:
            predicted = read_predictions(predictions, evaluation.sizes, Problems())
            opener = photo_opener(truth, read_truth(truth, None, Problems()))
            write_report(output, evaluation, result, predicted, opener)


@click.command()
@compared
@without_option
@click.option(
    "--training",
    type=INPUT,
    help="Records: count the sentences that are also in their train split.",
)
@measured("captions")
def captions(
    *,
    truth: Path,
    predictions: Path,
    split: str | None,
    without: str | None,
    training: Path | None,
    measurement: Measurement,
) -> None:
    """One sentence per photo: BLEU-1..4, METEOR, CIDEr, ROUGE-L (K&FF table 2)."""
    from regiontalk.lab.evaluation.captions import evaluate_captions, share_found
    from regiontalk.lab.evaluation.files import read_sentences, read_truth

    with _scorer(without, measurement) as scorer:
        references = {
            record.image: record.sentences
            for record in measurement.records(truth, split)
            if record.sentences
        }
        measurement.record.uses("predictions", predictions)
        sentences = read_sentences(predictions, references, measurement.problems)
        photos = [path for path in references if path in sentences]
        figures = evaluate_captions(
            [(sentences[path], references[path]) for path in photos], scorer, photos
        )
    if training is not None:
        records = read_truth(training, "train", measurement.problems)
        figures["in_training"] = share_found(
            sentences.values(), chain.from_iterable(record.sentences for record in records)
        )
    measurement.finish(figures, *_sentence_tables("Sentences", figures))


@click.command()
@compared
@without_option
@measured("regions")
def regions(
    *,
    truth: Path,
    predictions: Path,
    split: str | None,
    without: str | None,
    measurement: Measurement,
) -> None:
    """Captions of given boxes: BLEU-1..4, METEOR, CIDEr, ROUGE-L (K&FF table 3)."""
    from regiontalk.lab.evaluation.regions import evaluate_regions

    with _scorer(without, measurement) as scorer:
        records = list(measurement.records(truth, split))
        predicted = measurement.predictions(
            predictions, {record.image: (record.width, record.height) for record in records}
        )
        figures = evaluate_regions(records, predicted, scorer, measurement.problems)
    measurement.finish(figures, *_sentence_tables("Captions of given regions", figures))


@click.command()
@compared
@measured("calibration")
def calibration(
    *, truth: Path, predictions: Path, split: str | None, measurement: Measurement
) -> None:
    """How well scores (of regions) and confidences (of captions) are calibrated."""
    from regiontalk.lab.evaluation.reliability import joined, judge, judge_words, summary

    records = {record.image: record for record in measurement.records(truth, split)}
    predicted = measurement.predictions(
        predictions,
        {name: (record.width, record.height) for name, record in records.items()},
    )
    pairs = [(photo, records[photo.path]) for photo in predicted]
    judged = {
        "score": joined(list(starmap(judge, pairs))),
        "confidence": joined(list(starmap(judge_words, pairs))),
    }
    figures = {
        name: {"regions": len(regions.scores)} | summary(regions, regions.scores)
        for name, regions in judged.items()
    }
    measurement.finish(
        figures,
        *(
            figures_table(name, {**values, "bins": len(values["bins"])})
            for name, values in figures.items()
        ),
    )


@click.command()
@click.argument("scores", type=INPUT, nargs=-1, required=True)
@click.option(
    "--first", type=click.IntRange(min=1), help="Use only the first images and their sentences."
)
@measured("ranking")
def ranking(*, scores: tuple[Path, ...], first: int | None, measurement: Measurement) -> None:
    """Rank images by sentences and sentences by images: R@1/5/10, median rank (K&FF table 1).

    SCORES are files of scores (docs/evaluation.md). With several files, the mean of their figures
    is printed.
    """
    from regiontalk.lab.evaluation.ranking import evaluate_ranking, load_scores

    models = []
    for path in scores:
        measurement.record.uses("scores", path)
        model = load_scores(path)
        models.append(model if first is None else model.first(first))
    figures = evaluate_ranking(models, intervals=True)
    measurement.finish(figures, ranking_table(figures), intervals_table(figures["intervals"]))


def _scorer(
    without: str | None,
    measurement: Measurement,
    workers: int = 1,
    stand_in: UnigramF1 | None = None,
) -> AbstractContextManager[Any]:
    """METEOR, or without it the stand-in, if there is one."""
    if without is None:
        from regiontalk.lab.evaluation.scoring_pool import open_meteor

        return open_meteor(workers, measurement.message)
    by_words = "captions are scored by unigram F1; do not compare with published figures"
    measurement.message(f"without METEOR: {by_words if stand_in else 'only the other figures'}")
    return nullcontext(stand_in)


def _sentence_tables(title: str, figures: Mapping[str, Any]) -> tuple[Table, Table]:
    single = {name: value for name, value in figures.items() if name != "intervals"}
    return figures_table(title, single), intervals_table(figures["intervals"], digits=4)


def _dense_tables(result: DenseResult) -> Iterator[Table]:
    from regiontalk.lab.evaluation.average_precision import IOU_THRESHOLDS, LANGUAGE_THRESHOLDS
    from regiontalk.lab.evaluation.reference_scores import label

    rows = [
        [
            "predictions",
            _percent(result.map),
            _percent(result.map_strict),
            _percent(result.detection_map),
        ]
    ]
    for name, values in result.reference_scores.items():
        rows.append(
            [
                f"true boxes: {label(name, values)}",
                _percent(values["map"]),
                _percent(values["map_strict"]),
                "",
            ]
        )
    metric = result.metric
    title = f"{result.images} images, protocol {result.protocol}, {metric} {result.language:.3f}"
    yield title, ("", "mAP", f"{metric} ≥ 0.1", "boxes alone"), rows
    cells = zip(IOU_THRESHOLDS, result.ap, strict=True)
    columns = ["AP", *(f"{metric} > {score:g}" for score in LANGUAGE_THRESHOLDS)]
    yield "", columns, [[f"IoU {iou:g}", *map(_percent, values)] for iou, values in cells]
    yield intervals_table(result.intervals, digits=4)


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"
