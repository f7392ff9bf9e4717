"""`regiontalk export`: a trained checkpoint into a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console
from regiontalk.model_folder import PRECISIONS, SCORES, check_free


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--name", help="What the model calls itself in results; OUT's name if not given.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="float32",
    show_default=True,
    help="float16 halves the size; int8-stored stores matrices in 8 bits, int8 also multiplies them so.",
)
@click.option("--proposals", type=click.IntRange(min=1), help="Proposals that are recognised.")
@click.option("--final-nms", type=click.FloatRange(0, 1), help="Of regions that overlap more, the best one stays.")
@click.option("--score", type=click.Choice(SCORES), help="The final score, or times the proposal's.")
@click.option("--caption-weight", type=click.FloatRange(min=0), help="How much an unsure caption lowers the score.")
@click.option("-q", "--quiet", is_flag=True, help="No messages.")
def command(*, checkpoint: Path, out: Path, name: str | None, precision: str, quiet: bool, **settings: Any) -> None:
    """Turn a trained CHECKPOINT into the model folder OUT, which runs without torch.

    CHECKPOINT is a run's folder (its best checkpoint by the run's metric on dev, else the newest) or one
    step-… folder. Settings that are not given are the recipe's; `regiontalk tune` finds good ones.
    """
    console.need("train", "exporting", "torch", "safetensors", "onnx", "onnxscript")
    check_free(out)
    from regiontalk.training.checkpoints import find_checkpoint
    from regiontalk.training.export import export_model

    found = find_checkpoint(checkpoint)
    given = {key: value for key, value in settings.items() if value is not None}
    export_model(found, out, name or out.resolve().name, precision, given)
    size = sum(file.stat().st_size for file in out.iterdir())
    console.message(f"{out}: {found} as {precision}, {size / 1e6:.1f} MB", quiet)
