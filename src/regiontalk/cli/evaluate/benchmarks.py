"""`regiontalk evaluate objects|chair|diversity|context|shown`: benchmarks of today's models."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from regiontalk.cli import options
from regiontalk.cli.measurement import (
    INPUT,
    Measurement,
    Table,
    compared,
    intervals_table,
    measured,
    one_decimal,
)
from regiontalk.cli.splits import test_split_option
from regiontalk.lab.data.records import Record, open_split

_data_option = click.option("--truth", type=options.PLACE, required=True, help="A data set folder.")


@click.command()
@click.argument("model", type=options.MODEL)
@_data_option
@test_split_option
@options.device_option
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Draws the questions whether an object is there.",
)
@measured("objects")
def objects(
    *, model: Path, truth: Path, split: str, device: str, seed: int, measurement: Measurement
) -> None:
    """Ask `find` for every object class in every photo: COCO's AP, POPE's figures, SAM 3's cgF1.

    MODEL is a model folder (`embedded`: the one in the package) or a run of a detector. The classes
    are the phrases of the regions of type `object`; all objects of these classes must be marked.
    """
    from regiontalk.inference.phrases import read_phrases
    from regiontalk.lab.evaluation.objects import classes_in, evaluate_objects, find_classes

    dataset = open_split(truth, split)
    names = classes_in(dataset)
    dataset_model = measurement.model(model, dataset, device)
    phrases = read_phrases(dataset_model.model.runtime, names)
    findings = [
        find_classes(dataset_model.model, record, dataset_model.candidates(record), phrases)
        for record in measurement.photos(dataset)
    ]
    measurement.record.values["settings"] = {"seed": seed}
    measurement.finish(*_objects_report(evaluate_objects(findings, seed)))


def _objects_report(figures: dict[str, Any]) -> tuple[Any, ...]:
    title = f"{figures['classes']} classes in {figures['photos']} photos, in %"
    names = ("cgf1", "cgf1_50", "mcc", "positive_f1")
    both = [(name, f"{figures[name]:.1f}") for name in names]
    where = [(name, f"{figures['detection'][name]:.1f}") for name in ("ap", "ap50", "ap75")]
    measures = ("accuracy", "precision", "recall", "f1", "yes")
    questions = [
        (way, *one_decimal(itemgetter(*measures)(answers)), answers["questions"])
        for way, answers in figures["presence"].items()
    ]
    columns = ("is it there? absent ones:", *measures, "questions")
    return (
        figures,
        (title, ("", ""), [*where, *both]),
        ("", columns, questions),
        intervals_table(figures["intervals"]),
    )


@click.command()
@compared
@measured("chair")
def chair(*, truth: Path, predictions: Path, split: str | None, measurement: Measurement) -> None:
    """CHAIR: how many of the objects that sentences mention are not in the photo."""
    from regiontalk.lab.evaluation.chair import evaluate_chair
    from regiontalk.lab.evaluation.files import read_sentences

    records = list(measurement.records(truth, split))
    measurement.record.uses("predictions", predictions)
    images = {record.image: None for record in records}
    sentences = read_sentences(predictions, images, measurement.problems)
    figures = evaluate_chair(records, sentences)
    rows = [(name, f"{figures[name]:.1f}") for name in figures["intervals"]]
    title = f"{figures['sentences']} sentences, {figures['mentions']} mentions of objects, in %"
    invented = ("not there", ("noun", "times"), figures["invented"].items())
    measurement.finish(
        figures, (title, ("", ""), rows), intervals_table(figures["intervals"]), invented
    )


@click.command()
@compared
@click.option(
    "--training",
    type=INPUT,
    help="Records: count the captions that are also in their train split.",
)
@measured("diversity")
def diversity(
    *,
    truth: Path,
    predictions: Path,
    split: str | None,
    training: Path | None,
    measurement: Measurement,
) -> None:
    """How much captions or sentences differ from each other, beside those that people wrote."""
    from regiontalk.lab.evaluation.diversity import evaluate_diversity
    from regiontalk.lab.evaluation.files import read_truth
    from regiontalk.lab.evaluation.judging import read_captioned

    records = list(measurement.records(truth, split))
    measurement.record.uses("predictions", predictions)
    sizes = {record.image: (record.width, record.height) for record in records}
    photos = list(read_captioned(predictions, sizes, measurement.problems))
    regions = chain.from_iterable(photo.regions for photo in photos)
    captions = [region.caption for region in regions]
    of_sentences = all(len(photo.regions) == 1 for photo in photos)
    known = [] if training is None else list(read_truth(training, "train", measurement.problems))
    learned = list(chain.from_iterable(_texts(record, of_sentences) for record in known))
    written = list(chain.from_iterable(_texts(record, of_sentences) for record in records))
    figures = evaluate_diversity(captions, learned)
    figures["people"] = evaluate_diversity(written, learned)
    measurement.finish(figures, _diversity_table(figures))


def _texts(record: Record, of_sentences: bool) -> list[str]:
    """What people wrote: a sentence of the photo, or a phrase of each region."""
    if of_sentences:
        return list(record.sentences[:1])
    return [region.references[0] for region in record.regions if region.references]


def _diversity_table(figures: Mapping[str, Any]) -> Table:
    people = figures["people"]
    rows = [(name, _as_text(figures[name]), _as_text(value)) for name, value in people.items()]
    return "Captions", ("", "the model's", "people's"), rows


def _as_text(value: Any) -> Any:
    return f"{value:.1f}" if isinstance(value, float) else value


@click.command()
@click.argument("model", type=options.MODEL)
@_data_option
@test_split_option
@options.device_option
@click.option(
    "--photos",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many photos, evenly spaced in the split.",
)
@measured("context")
def context(
    *, model: Path, truth: Path, split: str, device: str, photos: int, measurement: Measurement
) -> None:
    """Caption each true region among the photo's others, as the only one, and cut out of the photo.

    MODEL is a model folder (`embedded`: the one in the package) or a run of a detector.
    """
    from regiontalk.lab.data.records import evenly_spaced
    from regiontalk.lab.evaluation.context import WAYS, caption_each_way, evaluate_context

    dataset = open_split(truth, split)
    dataset_model = measurement.model(model, dataset, device)
    chosen = evenly_spaced(len(dataset), photos)
    measurement.record.values["settings"] = {"photos": len(chosen)}
    records = measurement.photos(dataset, chosen)
    figures = evaluate_context(
        chain.from_iterable(caption_each_way(dataset_model, record) for record in records)
    )
    columns = ("right", "same_as_together", "different_captions")
    rows = [(way, *one_decimal(itemgetter(*columns)(figures[way]))) for way in WAYS]
    title = f"{figures['regions']} regions, in %"
    headings = ("captioned", "right", "same as together", "different captions")
    measurement.finish(figures, (title, headings, rows))


@click.command()
@click.argument("model", type=options.MODEL)
@_data_option
@test_split_option
@options.device_option
@click.option(
    "--photos",
    type=click.IntRange(min=1),
    help="How many photos, evenly spaced in the split. Default: all.",
)
@measured("shown")
def shown(
    *,
    model: Path,
    truth: Path,
    split: str,
    device: str,
    photos: int | None,
    measurement: Measurement,
) -> None:
    """The captions that are shown by default: which are right, which colours in them are, and how
    often they name the first thing of people's sentences.

    MODEL is a model folder (`embedded`: the one in the package) or a run of a detector.
    """
    from regiontalk.lab.data.records import evenly_spaced
    from regiontalk.lab.evaluation.shown import count_shown, evaluate_shown

    dataset = open_split(truth, split)
    dataset_model = measurement.model(model, dataset, device)
    chosen = evenly_spaced(len(dataset), photos or len(dataset))
    measurement.record.values["settings"] = {"photos": len(chosen)}
    records = measurement.photos(dataset, chosen)
    figures = evaluate_shown(count_shown(dataset_model.regions(one), one) for one in records)
    rows = [(name, f"{figures[name]:.1f}") for name in figures["intervals"]]
    title = (
        f"{figures['photos']} photos, {figures['captions_per_photo']:.2f} captions and "
        f"{figures['colours_per_photo']:.2f} colours of each, in %"
    )
    measurement.finish(figures, (title, ("", ""), rows), intervals_table(figures["intervals"]))
