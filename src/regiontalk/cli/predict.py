"""`regiontalk predict`: a model's answers for the photos of a data set, for `regiontalk
evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click

from regiontalk.cli import console, options
from regiontalk.cli.region_sources import edge_model_option, region_source
from regiontalk.cli.splits import test_split_option
from regiontalk.errors import UsageError
from regiontalk.io.files import write_json_lines
from regiontalk.lab.data.dataset_model import DatasetModel, FindRegions
from regiontalk.lab.data.records import Record, open_split
from regiontalk.lab.runs import recording
from regiontalk.results import Description, ImageRegions


@click.command()
@click.argument("model", type=options.ANY_MODEL)
@click.argument("data", type=options.PLACE)
@click.option(
    "-o",
    "--output",
    type=options.FILE,
    required=True,
    help="Output file: JSON lines, one photo per line.",
)
@test_split_option
@click.option(
    "--regions",
    metavar="own|truth|edgeboxes|FILE",
    default="own",
    show_default=True,
    help="Where to look: the model's own proposals, the true boxes (merged as in evaluation), "
    "EdgeBoxes, or a file.",
)
@edge_model_option
@click.option(
    "--sentences", is_flag=True, help="Write one sentence per photo, as `regiontalk describe` does."
)
@click.option(
    "--beam", type=click.IntRange(1, 100), help="Beam width. Default: as in caption and describe."
)
@click.option(
    "--codes",
    type=options.PLACE,
    help="For a run of kind sentences or joint: the codes of the photos.",
)
@options.heads_option
@options.device_option
@options.workers_option
@options.quiet_option
def command(
    *,
    model: options.Place,
    data: Path,
    output: Path,
    split: str,
    regions: str,
    edge_model: Path | None,
    sentences: bool,
    beam: int | None,
    codes: Path | None,
    heads: tuple[Path, ...],
    device: str,
    workers: int,
    quiet: bool,
) -> None:
    """Write MODEL's regions and captions for the photos of DATA, exactly as `regiontalk caption`
    finds them.

    MODEL is a model folder, the folder of a training run (its best checkpoint on dev, else the
    newest), or one step-… folder. The output is sorted by path. It is for `regiontalk evaluate
    dense`, or with --sentences for `regiontalk evaluate captions`.

    --regions FILE is what `regiontalk data proposals` or `regiontalk caption --json` writes, one
    line per photo. Its regions, or EdgeBoxes, replace the model's own proposals: they are refined,
    scored and filtered in the same way. True boxes are kept as they are.

    A run of kind sentences or joint needs --codes. It writes one sentence per photo; with --regions
    truth, and codes made with --on-truths, one per true box, for `regiontalk evaluate regions`.
    """
    if regions != "own" and sentences:
        raise UsageError("--regions cannot be used with --sentences, which describe whole photos")
    dataset = open_split(data, split)
    by_path = sorted(range(len(dataset)), key=lambda number: dataset[number].image)
    boxes, find = {"own": ("own", None), "truth": ("true", None)}.get(regions) or region_source(
        regions, dataset, edge_model
    )
    if options.is_run(model) and _kind(model) in ("sentences", "joint"):
        if find is not None:
            raise UsageError("a run of kind sentences or joint takes --regions own or truth")
        records = [dataset[number] for number in by_path]
        predicted = _from_codes(model, records, codes, regions == "truth", beam, device, heads)
    elif codes is not None:
        raise UsageError("--codes is for runs of kind sentences or joint")
    else:
        dataset_model = DatasetModel(options.load_model(model, device, heads=heads), dataset)
        predicted = dataset_model.each(
            _answer(dataset_model, regions, find, sentences, beam), by_path, workers
        )
    settings = {"sentences": True, "beam": beam} if sentences else {"boxes": boxes, "beam": beam}
    with recording("predict", output, options.device_name(model, device), **settings) as record:
        record.uses("model", options.model_place(model))
        if find is not None and Path(regions).is_file():
            record.uses("regions", Path(regions))
        for head in heads:
            record.uses("head", options.checkpoint_of(head))
        record.uses_data(data, split, len(dataset))
        watched = console.track(predicted, f"Predicting {data}", len(dataset), quiet)
        count = write_json_lines(output, (photo.to_dict() for photo in watched))
    console.message(f"{output}: {console.count(count, 'photo')}", quiet)


def _answer(
    dataset_model: DatasetModel,
    regions: str,
    find: FindRegions | None,
    sentences: bool,
    beam: int | None,
) -> Callable[[Record], ImageRegions | Description]:
    if sentences:
        return lambda record: dataset_model.sentence(record, beam)
    if find is not None:
        return lambda record: dataset_model.regions_among(record, find, beam or 1)
    answer = dataset_model.true_regions if regions == "truth" else dataset_model.regions
    return lambda record: answer(record, beam or 1)


def _kind(run: Path) -> str:
    from regiontalk.lab.training.checkpoints import read_state

    return str(read_state(options.checkpoint_of(run))["kind"])


def _from_codes(
    run: Path,
    records: Sequence[Record],
    codes: Path | None,
    on_truths: bool,
    beam: int | None,
    device: str,
    heads: tuple[Path, ...],
) -> Iterable[ImageRegions | Description]:
    from regiontalk.lab.training.heads.evaluation import open_coded_sentences
    from regiontalk.lab.training.processes import pick_device

    if codes is None:
        raise UsageError(
            "a run of this kind needs codes",
            hint="--codes FILE, which regiontalk data codes writes",
        )
    checkpoint = options.checkpoint_of(run)
    sentences = open_coded_sentences(checkpoint, codes, pick_device(device), heads)
    return (sentences.regions if on_truths else sentences.photos)(records, beam)
