"""`regiontalk predict`: a model's answers for the photos of a data set, for `regiontalk evaluate`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regiontalk.cli import console
from regiontalk.cli.options import device_name, device_option, heads_option, is_run, load_model, open_split
from regiontalk.data.records import SPLITS, Dataset
from regiontalk.errors import UsageError
from regiontalk.files import json_line, replacing
from regiontalk.runs import recording
from regiontalk.types import Description, ImageRegions

if TYPE_CHECKING:
    from regiontalk.model import Model


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="JSON lines, one photo a line.",
)
@click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True)
@click.option("--on-truths", is_flag=True, help="Caption the true boxes instead, merged as the evaluation merges them.")
@click.option("--sentences", is_flag=True, help="A sentence for each whole photo, as describe says it.")
@click.option("--beam", type=click.IntRange(1, 100), help="Beam width; default: as caption and describe have it.")
@click.option(
    "--codes", type=click.Path(path_type=Path), help="For a run of kind sentences or joint: the photos' codes."
)
@heads_option
@device_option
@click.option("-j", "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Photos at a time.")
@click.option("-q", "--quiet", is_flag=True, help="No messages, no bar.")
def command(
    *,
    model: Path,
    data: Path,
    output: Path,
    split: str,
    on_truths: bool,
    sentences: bool,
    beam: int | None,
    codes: Path | None,
    heads: tuple[Path, ...],
    device: str,
    workers: int,
    quiet: bool,
) -> None:
    """Regions and captions of the photos of DATA by MODEL, exactly as `regiontalk caption` finds them.

    MODEL is a model folder, a run's folder (its best checkpoint by the run's metric on dev, else the newest) or one
    step-… folder. The output is sorted by path, for `regiontalk evaluate dense`; with --sentences for `regiontalk
    evaluate captions`.

    A run of kind sentences or joint needs the photos' --codes, and says a sentence of each photo; or --on-truths of
    each true box (codes with --on-truths as well), for `regiontalk evaluate regions`.
    """
    if on_truths and sentences:
        raise UsageError("--on-truths is about boxes, --sentences about whole photos: give one")
    dataset = open_split(data, split)
    if is_run(model) and _kind(model) in ("sentences", "joint"):
        found = _from_codes(model, dataset, codes, on_truths, beam, device)
    elif codes is not None:
        raise UsageError("--codes is for runs of kind sentences or joint")
    else:
        found = _from_photos(load_model(model, device, heads=heads), dataset, on_truths, sentences, beam, workers)
    boxes = "true" if on_truths else "own"
    settings = {"sentences": True, "beam": beam} if sentences else {"boxes": boxes, "beam": beam}
    with recording("predict", output, device_name(model, device), **settings) as record, replacing(output) as temporary:
        record.uses("model", _checkpoint(model) if is_run(model) else model)
        for head in heads:
            record.uses("head", _checkpoint(head))
        record.uses_data(data, split, len(dataset))
        watched = console.track(found, f"Predicting {data}", len(dataset), quiet)
        lines = {photo.path: json_line(photo.to_dict()) for photo in watched}
        temporary.write_bytes(b"".join(lines[path] for path in sorted(lines)))
    console.message(f"{output}: {console.count(len(lines), 'photo')}", quiet)


def _from_photos(
    model: Model, dataset: Dataset, on_truths: bool, sentences: bool, beam: int | None, workers: int
) -> Iterable[ImageRegions | Description]:
    from regiontalk.data.dataset_model import DatasetModel

    asked = DatasetModel(model, dataset)
    if sentences:
        return asked.each(lambda record: asked.sentence(record, beam), workers=workers)
    answer = asked.true_regions if on_truths else asked.regions
    return asked.each(lambda record: answer(record, beam or 1), workers=workers)


def _checkpoint(run: Path) -> Path:
    console.need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.training.checkpoints import find_checkpoint

    return find_checkpoint(run)


def _kind(run: Path) -> str:
    from regiontalk.training.checkpoints import read_state

    return str(read_state(_checkpoint(run))["kind"])


def _from_codes(
    run: Path, dataset: Dataset, codes: Path | None, on_truths: bool, beam: int | None, device: str
) -> Iterable[ImageRegions | Description]:
    from regiontalk.training.engine import pick_device
    from regiontalk.training.heads.sentence_decoding import DatasetDescriber

    if codes is None:
        raise UsageError("sentences are said of codes", hint="--codes FILE, which regiontalk data codes writes")
    describer = DatasetDescriber.load(_checkpoint(run), codes, pick_device(device))
    return (describer.regions if on_truths else describer.photos)(dataset, beam)
