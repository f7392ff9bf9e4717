"""The verbs of `regiontalk evaluate` that run a trained alignment net on cached region codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regiontalk.cli import console
from regiontalk.cli.predict import open_split, writing
from regiontalk.data.records import SPLITS

if TYPE_CHECKING:
    from regiontalk.evaluation.ranking import RankingResult

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _run_options(command: Decorated) -> Decorated:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table."),
        click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True),
        click.option("--truth", type=click.Path(path_type=Path), required=True, help="A data set folder."),
        click.option("--codes", type=click.Path(path_type=Path), required=True, help="What `data codes` wrote of it."),
        click.argument("run", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@click.command(name="alignment")
@_run_options
def alignment(run: Path, codes: Path, truth: Path, split: str, as_json: bool) -> None:
    """A run's ranking of images by sentences and back (K&FF table 1).

    RUN is an alignment run's folder: the figures are the mean over the best checkpoints that it kept, as the paper
    has it (`run.keep_best`). Or one step-… folder.
    """
    console.need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.codes.build import CodedPhotos
    from regiontalk.evaluation.ranking import evaluate_ranking
    from regiontalk.training.heads.alignment_model import score_matrices

    records = list(open_split(truth, split))
    coded = CodedPhotos.load(codes, surroundings=False)
    print_ranking(evaluate_ranking(score_matrices(run, coded, records)), as_json)


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


@click.command()
@_run_options
@click.option("--beta", type=click.FloatRange(min=0), help="Choose regions by the chain of eqs. 10–12 with this β.")
def grounding(run: Path, codes: Path, truth: Path, split: str, beta: float | None, as_json: bool) -> None:
    """How often a phrase is aligned with the region that people drew for it: IoU ≥ 0.5, and pointing.

    RUN is an alignment run's folder or one step-… folder. Without --beta the words of a phrase choose together.
    """
    console.need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.codes.build import CodedPhotos
    from regiontalk.evaluation.grounding import evaluate_grounding
    from regiontalk.training.heads.alignment_model import AlignmentModel

    records = list(open_split(truth, split))
    coded = CodedPhotos.load(codes, surroundings=False)
    result = evaluate_grounding(AlignmentModel.load(run, coded).mentions(coded, records), beta)
    if as_json:
        console.print_json(result.to_dict())
        return
    figures = {"aligned region": result.model, **result.baselines}
    figures |= {f"aligned region: {name}": one for name, one in result.types.items()}
    rows = [[name, f"{100 * o.accuracy:.1f}", f"{100 * o.pointing:.1f}", o.mentions] for name, o in figures.items()]
    console.print_table(f"{len(records)} images", ["", "IoU ≥ 0.5", "pointing", "phrases"], rows)


@click.command()
@_run_options
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Draw the words here, as SVG.")
def magnitudes(run: Path, codes: Path, truth: Path, split: str, output: Path | None, as_json: bool) -> None:
    """The words and regions with the longest and shortest vectors (K&FF's analysis).

    RUN is the folder of a run with the score of eq. 8: cosines make all vectors as long.
    """
    console.need("train", "running a checkpoint", "torch", "safetensors")
    from regiontalk.codes.build import CodedPhotos
    from regiontalk.evaluation.vector_lengths import draw_magnitudes
    from regiontalk.evaluation.vector_lengths import magnitudes as measure
    from regiontalk.training.heads.alignment_model import AlignmentModel

    records = list(open_split(truth, split))
    coded = CodedPhotos.load(codes, surroundings=False)
    net = AlignmentModel.load(run, coded)
    sizes = net.word_lengths(records)
    found = measure(sizes, net.region_lengths(coded, records))
    if output is not None:
        with writing(output) as temporary:
            temporary.write_text(draw_magnitudes(sizes), encoding="utf-8")
    if as_json:
        console.print_json(found)
        return
    for title in ("longest", "shortest"):
        rows = [(one["word"], one["length"], one["times"]) for one in found[title]]
        console.print_table(f"{title} of {found['words']} words", ("word", "mean length", "times"), rows)
    for title in ("regions_by_score", "regions_by_area"):
        rows = [(one["from"], one["length"], "") for one in found[title]]
        console.print_table(title.replace("_", " "), ("from", "mean length", ""), rows)
