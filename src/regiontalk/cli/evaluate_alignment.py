"""The verbs of `regiontalk evaluate` that run an alignment model on the photos of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regiontalk.cli import console
from regiontalk.cli.measurement import Measurement, measured
from regiontalk.cli.options import open_split
from regiontalk.data.records import SPLITS, Dataset, Record
from regiontalk.errors import UsageError
from regiontalk.files import replacing

if TYPE_CHECKING:
    from regiontalk.codes.store import CodedPhotos
    from regiontalk.evaluation.alignment import AlignedPhotos
    from regiontalk.evaluation.grounding import GroundingResult
    from regiontalk.evaluation.ranking import RankingResult

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _data_options(command: Decorated) -> Decorated:
    for option in (
        click.option("-q", "--quiet", is_flag=True, help="No messages, no bar."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table."),
        click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True),
        click.option("--truth", type=click.Path(path_type=Path), required=True, help="A data set folder."),
        click.option("--codes", type=click.Path(path_type=Path), help="For a run: what `data codes` wrote."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@_data_options
@measured("ranking")
def alignment(
    *,
    model: Path,
    codes: Path | None,
    truth: Path,
    split: str,
    measurement: Measurement,
    as_json: bool,
    quiet: bool,
) -> None:
    """Ranks images by sentences and back: R@1/5/10, median rank (K&FF table 1).

    MODEL is a model folder (`embedded`: the one in the package), which looks at the photos as `regiontalk align` does;
    or an alignment run, which needs --codes: then the figures are the mean over the best checkpoints that it kept, as
    in the paper (`run.keep_best`); or one step-… folder of it.
    """
    from regiontalk.evaluation.ranking import evaluate_ranking

    dataset = open_split(truth, split)
    records = measurement.count(console.track(dataset, "photos", len(dataset), quiet))
    folder = _model_folder(model)
    if folder is not None:
        measurement.record.uses("model", folder)
        scores = iter([_aligned(folder, dataset).score_matrix(records)])
    else:
        from regiontalk.training.checkpoints import best_checkpoints
        from regiontalk.training.heads.alignment_model import score_matrices

        coded = _load_codes(codes, measurement)
        for checkpoint in best_checkpoints(model):
            measurement.record.uses("model", checkpoint)
        scores = score_matrices(model, coded, list(records))
    result = evaluate_ranking(scores)
    print_ranking(result, as_json)
    measurement.finish(truth, result.to_dict())


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@_data_options
@click.option("--beta", type=click.FloatRange(min=0), help="Choose regions by the chain of eqs. 10–12 with this β.")
@measured("grounding")
def grounding(
    *,
    model: Path,
    codes: Path | None,
    truth: Path,
    split: str,
    beta: float | None,
    measurement: Measurement,
    as_json: bool,
    quiet: bool,
) -> None:
    """How often a phrase is aligned with the region that people drew for it: IoU ≥ 0.5, and pointing.

    MODEL is a model folder (`embedded`: the one in the package), or an alignment run or one of its step-… folders,
    which need --codes. Without --beta the words of a phrase choose together.
    """
    from regiontalk.evaluation.grounding import evaluate_grounding

    dataset = open_split(truth, split)
    records = measurement.count(console.track(dataset, "photos", len(dataset), quiet))
    folder = _model_folder(model)
    if folder is not None:
        measurement.record.uses("model", folder)
        mentions: Iterable[Any] = _aligned(folder, dataset).mentions(records)
    else:
        coded = _load_codes(codes, measurement)
        mentions = _load_run(model, coded, measurement).mentions(coded, list(records))
    result = evaluate_grounding(mentions, beta)
    _print_grounding(result, len(dataset), as_json)
    measurement.finish(truth, result.to_dict())


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@_data_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Draw the words here, as SVG.")
def vector_lengths(
    *, run: Path, codes: Path | None, truth: Path, split: str, output: Path | None, as_json: bool, quiet: bool
) -> None:
    """The words and regions with the longest and shortest vectors (K&FF's analysis of magnitudes).

    RUN is an alignment run with the score of eq. 8, where length counts; a cosine ignores it.
    """
    from regiontalk.evaluation.vector_lengths import draw_word_lengths, vector_lengths

    coded = _load_codes(codes, None)
    net = _load_run(run, coded, None)
    records: list[Record] = list(console.track(open_split(truth, split), "records", quiet=quiet))
    words = net.word_lengths(records)
    found = vector_lengths(words, net.region_lengths(coded, records))
    if output is not None:
        with replacing(output) as temporary:
            temporary.write_text(draw_word_lengths(words), encoding="utf-8")
    if as_json:
        console.print_json(found)
        return
    for title in ("longest", "shortest"):
        rows = [(one["word"], one["length"], one["times"]) for one in found[title]]
        console.print_table(f"{title} of {found['words']} words", ("word", "mean length", "times"), rows)
    for title in ("regions_by_score", "regions_by_area"):
        bands = [(one["from"], one["length"]) for one in found[title]]
        console.print_table(title.replace("_", " "), ("from", "mean length"), bands)


def _model_folder(model: Path) -> Path | None:
    """The folder of a model, or None for a run."""
    import regiontalk
    from regiontalk.model_folder import SUMS

    folder = regiontalk.EMBEDDED if str(model) == "embedded" else model
    return folder if (folder / SUMS).is_file() else None


def _aligned(folder: Path, dataset: Dataset) -> AlignedPhotos:
    import regiontalk
    from regiontalk.evaluation.alignment import AlignedPhotos

    return AlignedPhotos(regiontalk.load(folder), dataset)


def _load_codes(codes: Path | None, measurement: Measurement | None) -> CodedPhotos:
    console.need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.codes.store import CodedPhotos

    if codes is None:
        raise UsageError("a run reads region codes", hint="--codes FILE, which regiontalk data codes writes")
    loaded = CodedPhotos.load(codes, surroundings=False)
    if measurement is not None:
        measurement.record.uses("codes", codes)
    return loaded


def _load_run(run: Path, coded: CodedPhotos, measurement: Measurement | None) -> Any:
    from regiontalk.training.checkpoints import find_checkpoint
    from regiontalk.training.heads.alignment_model import AlignmentModel

    net = AlignmentModel.load(run, coded)
    if measurement is not None:
        measurement.record.uses("model", find_checkpoint(run))
    return net


def print_ranking(result: RankingResult, as_json: bool) -> None:
    if as_json:
        console.print_json(result.to_dict())
        return
    rows = [
        [name, *(f"{value:.1f}" for value in direction.to_dict().values())]
        for name, direction in (
            ("image → sentence", result.image_to_text),
            ("sentence → image", result.text_to_image),
        )
    ]
    title = f"{result.images} images, {result.sentences} sentences, {result.models} model(s)"
    console.print_table(title, ["", "R@1", "R@5", "R@10", "median rank"], rows)


def _print_grounding(result: GroundingResult, images: int, as_json: bool) -> None:
    if as_json:
        console.print_json(result.to_dict())
        return
    figures = {"aligned region": result.model, **result.baselines}
    figures |= {f"aligned region: {name}": one for name, one in result.types.items()}
    rows = [[name, f"{100 * o.accuracy:.1f}", f"{100 * o.pointing:.1f}", o.mentions] for name, o in figures.items()]
    console.print_table(f"{images} images", ["", "IoU ≥ 0.5", "pointing", "phrases"], rows)
