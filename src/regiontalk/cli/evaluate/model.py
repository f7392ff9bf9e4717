"""The verbs of `regiontalk evaluate` that run a model on the photos of a data set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regiontalk.cli import console, options
from regiontalk.cli.measurement import (
    INPUT,
    Measurement,
    Table,
    intervals_table,
    measured,
    ranking_table,
    share,
    split_option,
    truth_option,
)
from regiontalk.cli.names_option import read_lines_of
from regiontalk.cli.splits import test_split_option
from regiontalk.errors import UsageError, need
from regiontalk.inference.alignment import ALIGNMENT_HEAD
from regiontalk.io.files import replacing
from regiontalk.lab.data.records import Dataset, Record, open_split

if TYPE_CHECKING:
    from regiontalk.lab.codes.store import CodedPhotos
    from regiontalk.lab.data.dataset_model import DatasetModel
    from regiontalk.lab.evaluation.alignment import AlignedPhotos
    from regiontalk.lab.training.towers.evaluation import TowersModel

_on_data = options.with_options(
    click.option(
        "--codes",
        type=options.PLACE,
        help="The file that `regiontalk data codes` wrote; a run needs it.",
    ),
    click.option("--truth", type=options.PLACE, required=True, help="A data set folder."),
    test_split_option,
)

_smallest_option = click.option(
    "--smallest",
    type=click.FloatRange(min=0),
    default=32,
    show_default=True,
    metavar="PX",
    help="Leave out objects smaller than PX × PX pixels of the original photo.",
)


def _longest_side_option(
    condition: str = "",
) -> Callable[[options.Decorated], options.Decorated]:
    return click.option(
        "--longest-side",
        type=click.IntRange(min=16),
        metavar="PX",
        help="Shrink photos to this long side first: do names depend on sharpness?" + condition,
    )


@click.command()
@truth_option
@split_option
@click.option("--predictions", type=INPUT, help="Captions of the objects' boxes, as JSON lines…")
@click.option(
    "--model",
    type=options.ANY_MODEL,
    help="…or the model that writes them; `embedded`: the package's.",
)
@options.device_option
@_smallest_option
@_longest_side_option(" Needs --model.")
@click.option("--classes", is_flag=True, help="Also print a table of the classes.")
@measured("names")
def names(
    *,
    truth: Path,
    split: str | None,
    predictions: Path | None,
    model: options.Place | None,
    device: str,
    smallest: float,
    longest_side: int | None,
    classes: bool,
    measurement: Measurement,
) -> None:
    """How many captions of true boxes name the object in them (docs/phrases.md)."""
    from regiontalk.lab.evaluation.names import caption_objects, evaluate_names

    if (predictions is None) == (model is None):
        raise UsageError("give either --predictions or --model")
    if predictions is not None and longest_side is not None:
        raise UsageError("--longest-side needs --model")
    records = list(measurement.records(truth, split))
    settings = {"boxes": "true", "smallest": smallest, "longest_side": longest_side}
    measurement.record.values["settings"] = settings
    if predictions is not None:
        predicted = measurement.predictions(
            predictions, {entry.image: (entry.width, entry.height) for entry in records}
        )
    else:
        if not truth.is_dir():
            raise UsageError("--model needs photos: --truth must be a data set folder")
        assert model is not None
        dataset_model = measurement.model(model, Dataset(truth), device)
        dataset_model = replace(dataset_model, longest_side=longest_side)
        watched = console.track(records, "photos", len(records), measurement.quiet)
        predicted = caption_objects(dataset_model, watched, smallest)
    figures = evaluate_names(records, predicted, smallest)
    if figures["missing"]:
        measurement.problems.add(
            str(predictions or model),
            f"no caption for {figures['missing']} objects; they count as wrong",
        )
    rows = [
        (name, f"{figures[name]:.2f}") for name in ("right", "right_without_people", "class_mean")
    ]
    tables: list[Table] = [(f"{figures['objects']} objects, named in %", ("", "right"), rows)]
    tables.append(intervals_table(figures["intervals"]))
    if classes:
        by_class = [
            (name, f"{entry['right']:.2f}", entry["objects"])
            for name, entry in figures["classes"].items()
        ]
        tables.append(("", ("class", "right", "objects"), by_class))
    measurement.finish(figures, *tables)


@click.command()
@click.argument("model", type=options.MODEL)
@_on_data
@click.option(
    "--first",
    type=click.IntRange(min=1),
    help="Use only the first photos of the split and their sentences.",
)
@options.device_option
@measured("ranking")
def alignment(
    *,
    model: Path,
    codes: Path | None,
    truth: Path,
    split: str,
    first: int | None,
    device: str,
    measurement: Measurement,
) -> None:
    """Rank images by sentences and sentences by images: R@1/5/10, median rank (K&FF table 1).

    MODEL is a model folder (`embedded`: the one in the package), which looks at the photos as
    `regiontalk align` does, or reads the --codes that it made of them; or an alignment run or one
    of its step-… folders, which need --codes; or a run of two towers, which looks at the photos.
    The figures of an alignment run are the mean over its best checkpoints, as in the paper
    (`run.keep_best`). --device is for runs.
    """
    from regiontalk.lab.evaluation.ranking import evaluate_ranking

    dataset = open_split(truth, split)
    records = itertools.islice(measurement.photos(dataset), first)
    if not options.is_run(model):
        photos = _align_photos(measurement.model(model, dataset), codes, measurement)
        scores = iter([photos.score_matrix(records)])
    elif _is_two_towers(model):
        _rank_by_towers(model, dataset, records, device, measurement)
        return
    else:
        from regiontalk.lab.training.checkpoints import best_checkpoints
        from regiontalk.lab.training.heads.evaluation import score_matrices
        from regiontalk.lab.training.processes import pick_device

        coded = _load_codes(codes, measurement)
        for checkpoint in best_checkpoints(model):
            measurement.uses_model(checkpoint, device)
        scores = score_matrices(model, coded, list(records), pick_device(device))
    figures = evaluate_ranking(scores, intervals=True)
    measurement.finish(figures, ranking_table(figures), intervals_table(figures["intervals"]))


def _align_photos(
    photos: DatasetModel, codes: Path | None, measurement: Measurement
) -> AlignedPhotos:
    """A model's alignments of photos, which it looks at if there are no codes of them."""
    from regiontalk.lab.evaluation.alignment import AlignedPhotos

    if codes is None:
        return AlignedPhotos.of_model(photos)
    coded = _load_codes(codes, measurement)
    runtime = photos.model.runtime
    coded.check_detector(runtime.head(ALIGNMENT_HEAD).info.detector, Path(runtime.name))
    return AlignedPhotos.of_codes(runtime, coded)


def _rank_by_towers(
    run: Path, dataset: Dataset, records: Iterable[Record], device: str, measurement: Measurement
) -> None:
    """The figures of both scores of two towers, and of each."""
    from regiontalk.lab.evaluation.ranking import evaluate_ranking

    towers = _load_towers(run, device, measurement)
    matrices = towers.score_matrices(dataset, records, measurement.skip)
    by_score = {name: evaluate_ranking([matrix]) for name, matrix in matrices.items()}
    both = by_score.pop("both")
    titles = {"global": "by the vectors of photo and sentence", "words": "by words and patches"}
    tables = [(titles[name], *ranking_table(figures)[1:]) for name, figures in by_score.items()]
    measurement.finish({**both, **by_score}, ranking_table(both), *tables)


@click.command()
@click.argument("run", type=options.PLACE)
@click.option("--truth", type=options.PLACE, required=True, help="A data set folder.")
@test_split_option
@click.option(
    "--names",
    "names_file",
    type=options.FILE,
    help="A text file with a name on each line. Default: all names of the split.",
)
@_smallest_option
@_longest_side_option()
@options.device_option
@measured("naming")
def naming(
    *,
    run: Path,
    truth: Path,
    split: str,
    names_file: Path | None,
    smallest: float,
    longest_side: int | None,
    device: str,
    measurement: Measurement,
) -> None:
    """Name boxes and whole photos among a list of names: the nearest name, and the best five.

    RUN is a run of two towers or one of its step-… folders. Regions of type `object` and `whole`
    have a name.
    """
    from regiontalk.lab.evaluation.naming import named_regions, names_in

    dataset = open_split(truth, split)
    towers = replace(_load_towers(run, device, measurement), longest_side=longest_side)
    names = names_in(dataset) if names_file is None else _listed_names(names_file)
    from regiontalk.lab.training.towers.evaluation import RegionsOfPhoto, name_photos

    settings = {"names": len(names), "smallest": smallest, "longest_side": longest_side}
    measurement.record.values["settings"] = settings
    photos = (
        RegionsOfPhoto(record, regions)
        for record in measurement.photos(dataset)
        if (regions := named_regions(record, smallest))
    )
    figures = name_photos(towers, dataset, photos, names, measurement.skip)
    rows = [
        (title, f"{figures[name]:.2f}")
        for name, title in {
            "right": "right",
            "among_best_five": "among the best five",
            "name_mean": "mean over the names",
        }.items()
    ]
    title = f"{figures['regions']} regions among {figures['names']} names, in %"
    measurement.finish(figures, (title, ("", ""), rows))


@click.command()
@click.argument("model", type=options.MODEL)
@_on_data
@click.option(
    "--beta",
    type=click.FloatRange(min=0),
    help="Choose regions by the chain of eqs. 10–12, with this β.",
)
@options.place_weight_option
@measured("grounding")
def grounding(
    *,
    model: Path,
    codes: Path | None,
    truth: Path,
    split: str,
    beta: float | None,
    place_weight: float,
    measurement: Measurement,
) -> None:
    """How often a phrase is aligned with the box that people drew for it: IoU ≥ 0.5, and pointing.

    MODEL is a model folder (`embedded`: the one in the package), or an alignment run or one of its
    step-… folders, which need --codes. Without --beta, the words of a phrase choose a region
    together. --place-weight is for runs; a model folder has its own.
    """
    from regiontalk.lab.evaluation.alignment import AlignedPhotos
    from regiontalk.lab.evaluation.grounding import evaluate_grounding

    dataset = open_split(truth, split)
    records = measurement.photos(dataset)
    if not options.is_run(model):
        photos = AlignedPhotos.of_model(measurement.model(model, dataset))
    else:
        coded = _load_codes(codes, measurement)
        photos = _load_run(model, coded, measurement, place_weight)
        measurement.record.values["settings"] = {"place_weight": place_weight}
    figures = evaluate_grounding(photos.mentions(records), beta)
    by_chain = {"… without knowing the phrases": figures["chain"]}
    shares = {"aligned region": figures, **by_chain, **figures["baselines"]}
    shares |= {f"aligned region: {name}": type_ for name, type_ in figures["types"].items()}
    rows = [
        [name, share(row["accuracy"]), share(row["pointing"]), row["mentions"]]
        for name, row in shares.items()
    ]
    measurement.finish(
        figures,
        (f"{len(dataset)} images", ("", "IoU ≥ 0.5", "pointing", "phrases"), rows),
        intervals_table(figures["intervals"], digits=3),
    )


@click.command()
@click.argument("model", type=options.MODEL)
@truth_option
@test_split_option
@options.device_option
@measured("find")
def find(*, model: Path, truth: Path, split: str, device: str, measurement: Measurement) -> None:
    """How often the best region of `regiontalk find` is right (IoU ≥ 0.5), and how often absent
    phrases are rejected.

    MODEL is a model folder (`embedded`: the one in the package) or a run of a detector. For each
    photo, as many phrases of other photos are tried too. They share no content word with what
    people wrote about the photo, so they should not be found.
    """
    from regiontalk.lab.evaluation.find import (
        evaluate_find,
        phrases_of_others,
        phrases_to_ask,
        seek,
    )
    from regiontalk.models.settings import FindConfig

    dataset = open_split(truth, split)
    dataset_model = measurement.model(model, dataset, device)
    absent = phrases_of_others(list(dataset))
    sought = itertools.chain.from_iterable(
        seek(
            dataset_model.model,
            record.image,
            phrases_to_ask(record, absent[record.image]),
            dataset_model.candidates(record),
        )
        for record in measurement.photos(dataset)
    )
    figures = evaluate_find(
        sought, dataset_model.model.runtime.info.prediction.find or FindConfig()
    )
    names = {
        "accuracy": "best region right",
        "found": "reported as present",
        "not_there": "absent phrases rejected",
    }
    rows = [(text, share(figures[name])) for name, text in names.items()]
    rows += [
        (f"best region right: {name}", share(figures_of_type["accuracy"]))
        for name, figures_of_type in figures["types"].items()
    ]
    measurement.finish(
        figures,
        (f"{figures['phrases']} phrases in %", ("", ""), rows),
        intervals_table(figures["intervals"], digits=3),
    )


@click.command()
@click.argument("run", type=options.PLACE)
@_on_data
@click.option("-o", "--output", type=options.FILE, help="Draw the words as SVG.")
@measured("vector-lengths")
def vector_lengths(
    *,
    run: Path,
    codes: Path | None,
    truth: Path,
    split: str,
    output: Path | None,
    measurement: Measurement,
) -> None:
    """List the words and regions with the longest and shortest vectors (K&FF's analysis of
    magnitudes).

    RUN is an alignment run with the score of eq. 8, in which lengths count. Cosines ignore them.
    """
    from regiontalk.lab.evaluation.vector_lengths import (
        draw_word_lengths,
        region_lengths,
        vector_lengths,
        word_lengths,
    )

    photos = _load_run(run, _load_codes(codes, measurement), measurement)
    records = list(measurement.photos(open_split(truth, split)))
    words = word_lengths(photos.head, records)
    figures = vector_lengths(words, region_lengths(photos, records))
    if output is not None:
        with replacing(output) as temporary:
            temporary.write_text(draw_word_lengths(words), encoding="utf-8")
    ends = [
        (
            f"{end} of {figures['words']} words",
            ("word", "mean length", "times"),
            map(dict.values, figures[end]),
        )
        for end in ("longest", "shortest")
    ]
    bands = [
        (name.replace("_", " "), ("from", "mean length"), map(dict.values, figures[name]))
        for name in ("regions_by_score", "regions_by_area")
    ]
    measurement.finish(figures, *ends, *bands)


def _listed_names(file: Path) -> list[str]:
    """The names in a file, each once."""
    names = list(dict.fromkeys(filter(None, map(str.strip, read_lines_of(file)))))
    if not names:
        raise UsageError(f"{file}: no names in it", hint="one name per line")
    return names


def _is_two_towers(run: Path) -> bool:
    from regiontalk.lab.training.checkpoints import read_state

    return bool(read_state(options.checkpoint_of(run))["kind"] == "contrastive")


def _load_towers(run: Path, device: str, measurement: Measurement) -> TowersModel:
    """The best checkpoint of a run of two towers."""
    checkpoint = options.checkpoint_of(run)
    from regiontalk.lab.training.checkpoints import load_towers
    from regiontalk.lab.training.processes import pick_device
    from regiontalk.lab.training.towers.evaluation import TowersModel

    on = pick_device(device)
    trained = load_towers(checkpoint, on)
    measurement.uses_model(checkpoint, device)
    return TowersModel(trained.net, trained.pieces, on)


def _load_codes(codes: Path | None, measurement: Measurement) -> CodedPhotos:
    need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.lab.codes.store import CodedPhotos

    if codes is None:
        raise UsageError(
            "a run reads region codes", hint="--codes FILE, which regiontalk data codes writes"
        )
    loaded = CodedPhotos.load(codes, surroundings=False)
    measurement.record.uses("codes", codes)
    return loaded


def _load_run(
    run: Path, coded: CodedPhotos, measurement: Measurement, place_weight: float = 0.0
) -> AlignedPhotos:
    from regiontalk.lab.training.heads.evaluation import open_aligned_photos

    photos = open_aligned_photos(run, coded, place_weight)
    measurement.record.uses("model", options.checkpoint_of(run))
    return photos
