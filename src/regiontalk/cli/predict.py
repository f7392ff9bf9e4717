"""`regiontalk predict`: a trained checkpoint's regions and captions for the photos of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regiontalk.cli import console
from regiontalk.data.records import SPLITS, Dataset, Record
from regiontalk.errors import DataError, RegionTalkError, UsageError
from regiontalk.files import json_line, replacing
from regiontalk.types import ImageRegions

if TYPE_CHECKING:
    from regiontalk.training.predictions import DatasetPredictor

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Seen = TypeVar("Seen")


@dataclass(frozen=True)
class NetOptions:
    """Which net runs, where, and how fast it is fed."""

    checkpoint: Path
    device: str
    batch: int
    workers: int


def net_options(command: Decorated) -> Decorated:
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="No messages, no bar."),
        click.option(
            "-j",
            "--workers",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            help="Processes that load photos; 0: the program itself does.",
        ),
        click.option("--batch", type=click.IntRange(min=1), default=8, show_default=True, help="Photos at a time."),
        click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True),
        click.argument("data", type=click.Path(path_type=Path)),
        click.argument("checkpoint", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@click.command()
@net_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="JSON lines, one photo a line.",
)
@click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True)
@click.option("--on-truths", is_flag=True, help="Caption the true boxes instead, merged as the evaluator merges them.")
@click.option("--proposals", type=click.IntRange(min=1), help="Proposals that are recognised and captioned.")
@click.option("--final-nms", type=click.FloatRange(0, 1), help="Of regions that overlap more, the best one stays.")
@click.option("--score", type=click.Choice(["final", "product"]), help="The final score, or times the proposal's.")
@click.option("--caption-weight", type=click.FloatRange(min=0), help="How much an unsure caption lowers the score.")
@click.option(
    "--described",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also keep what the net says of every proposal, as .npz.",
)
@click.option("--codes", type=click.Path(path_type=Path), help="For a checkpoint of kind sentences: the photos' codes.")
@click.option("--beam", type=click.IntRange(1, 100), help="For a checkpoint of kind sentences; default: the recipe's.")
def command(
    *,
    checkpoint: Path,
    data: Path,
    output: Path,
    split: str,
    on_truths: bool,
    described: Path | None,
    codes: Path | None,
    beam: int | None,
    device: str,
    batch: int,
    workers: int,
    quiet: bool,
    **settings: Any,
) -> None:
    """Regions and captions of the photos of DATA, by a trained CHECKPOINT.

    CHECKPOINT is a run's folder (its best checkpoint by the run's metric on dev, else the newest) or one
    step-… folder. Settings that are not given are the recipe's. The output is what `regiontalk evaluate dense`
    takes as predictions, sorted by path.

    A checkpoint of kind sentences needs the photos' --codes, and says a sentence of each photo, for `regiontalk
    evaluate captions`; or --on-truths of each box (codes with --on-truths as well), for `regiontalk evaluate regions`.
    """
    console.need("train", "running a checkpoint", "torch", "safetensors")
    if described is not None:
        _check_described(described, on_truths)
    dataset = open_split(data, split)
    if _kind(checkpoint) == "sentences":
        _predict_sentences(checkpoint, dataset, output, codes, on_truths, beam, device, quiet)
        return
    if codes is not None or beam is not None:
        raise UsageError("--codes and --beam are for checkpoints of kind sentences")
    predictor, name = open_predictor(NetOptions(checkpoint, device, batch, workers), settings, quiet)
    with writing(output) as temporary:
        found = _regions(predictor, dataset, on_truths, described, f"Predicting {data}", quiet)
        lines = {photo.path: json_line(_by_score(photo, name).to_dict()) for photo in found}
        temporary.write_bytes(b"".join(lines[path] for path in sorted(lines)))
    console.message(f"{output}: {len(lines)} photos", quiet)


def _kind(checkpoint: Path) -> str:
    from regiontalk.training.checkpoints import find_checkpoint, read_state

    return str(read_state(find_checkpoint(checkpoint))["kind"])


def _predict_sentences(
    checkpoint: Path,
    dataset: Dataset,
    output: Path,
    codes: Path | None,
    on_truths: bool,
    beam: int | None,
    device: str,
    quiet: bool,
) -> None:
    from regiontalk.training.checkpoints import find_checkpoint
    from regiontalk.training.engine import pick_device
    from regiontalk.training.heads.sentence_decoding import DatasetDescriber

    if codes is None:
        raise UsageError("sentences are said of codes", hint="--codes FILE, which regiontalk data codes writes")
    describer = DatasetDescriber.load(find_checkpoint(checkpoint), codes, pick_device(device))
    with writing(output) as temporary:
        found = (describer.regions if on_truths else describer.photos)(dataset, beam)
        lines = {photo.path: json_line(photo.to_dict()) for photo in found}
        temporary.write_bytes(b"".join(lines[path] for path in sorted(lines)))
    console.message(f"{output}: {len(lines)} photos", quiet)


def _check_described(described: Path, on_truths: bool) -> None:
    if on_truths:
        raise UsageError("--described keeps what is said of proposals: it does not go with --on-truths")
    if described.suffix != ".npz":
        raise UsageError(f"{described}: the name must end in .npz")


def _regions(
    predictor: DatasetPredictor, dataset: Dataset, on_truths: bool, described: Path | None, title: str, quiet: bool
) -> Iterable[ImageRegions]:
    from regiontalk.fitting.settings import save_described
    from regiontalk.training.predictions import ranked_regions

    numbers = range(len(dataset))
    if described is None:
        found = predictor.on_truths(dataset, numbers) if on_truths else predictor.regions(dataset, numbers)
        return console.track(found, title, len(dataset), quiet)
    with writing(described) as temporary:
        photos = list(console.track(predictor.described(dataset, numbers), title, len(dataset), quiet))
        save_described(temporary, photos)
    return (ranked_regions(photo, predictor.words, predictor.config) for photo in photos)


def _by_score(photo: ImageRegions, model: str) -> ImageRegions:
    regions = sorted(photo.regions, key=lambda region: -region.score)
    return replace(photo, model=model, regions=tuple(regions))


def open_split(data: Path, split: str, option: str = "--split") -> Dataset:
    dataset = Dataset(data, split)
    if not len(dataset):
        raise DataError(f"{data}: no image in split {split}", hint=f"{option} names another; data stats counts them")
    return dataset


def fitting_options(command: Decorated) -> Decorated:
    """What `rank` and `calibrate` share: the model, the data it is fitted to, and how."""
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="No messages, no bar."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object."),
        click.option("--photos", type=click.IntRange(min=1), help="Only so many of a split, evenly spread."),
        click.option("--fit", "fit_split", type=click.Choice(["dev", "train"]), default="dev", show_default=True),
        click.option("-o", "--output", type=click.Path(path_type=Path), help="The fitted model's new folder."),
        click.argument("data", type=click.Path(path_type=Path)),
        click.argument("model", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def look_at_photos(
    dataset: Dataset, photos: int | None, look: Callable[[bytes], Seen], quiet: bool
) -> Iterator[tuple[Seen, Record]]:
    """What `look` sees in so many photos, evenly spread (None: in all), each with its record; shows a bar."""
    count = len(dataset) if photos is None else min(photos, len(dataset))
    numbers = (place * len(dataset) // count for place in range(count))
    for number in console.track(numbers, f"Captioning {dataset.folder}", count, quiet):
        record = dataset[number]
        try:
            yield look(dataset.read_photo(record)), record
        except RegionTalkError as error:
            raise DataError(f"{dataset.folder}: {record.image}: {error.message}") from error


def open_predictor(options: NetOptions, settings: dict[str, Any], quiet: bool) -> tuple[DatasetPredictor, str]:
    """The checkpoint's net, ready to run with the recipe's settings or those given, and its name."""
    from regiontalk.training.checkpoints import find_checkpoint
    from regiontalk.training.detector.task import load_net
    from regiontalk.training.engine import pick_device
    from regiontalk.training.predictions import DatasetPredictor

    device = pick_device(options.device)
    checkpoint = find_checkpoint(options.checkpoint)
    net, words, recipe = load_net(checkpoint, device)
    given = {key: value for key, value in settings.items() if value is not None}
    config = replace(recipe.prediction, **given)
    console.message(f"{checkpoint} on {device}", quiet)
    return DatasetPredictor(net, words, config, device, options.batch, options.workers), checkpoint.name


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of `path` in the end; a path that cannot be written fails at once."""
    try:
        with replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error
