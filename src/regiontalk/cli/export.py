"""`regiontalk export`: a trained checkpoint into a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from regiontalk.cli import console
from regiontalk.errors import UsageError
from regiontalk.model_folder import INFO, PRECISIONS, SCORES, check_free, read_model_folder
from regiontalk.runs import recording


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--name", help="What the model calls itself in results; OUT's name if not given.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="float32 (the default); float16 halves the size; int8-stored stores matrices in 8 bits, int8 also "
    "multiplies them so.",
)
@click.option("--proposals", type=click.IntRange(min=1), help="Proposals that are recognised.")
@click.option("--final-nms", type=click.FloatRange(0, 1), help="Of regions that overlap more, the best one stays.")
@click.option("--score", type=click.Choice(SCORES), help="The final score, or times the proposal's.")
@click.option("--caption-weight", type=click.FloatRange(min=0), help="How much an unsure caption lowers the score.")
@click.option(
    "--add",
    "heads",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="HEAD",
    help="A head's checkpoint, trained on this network's region codes; may be given more than once.",
)
@click.option("--beta", type=click.FloatRange(min=0), help="How much words hold together; of an alignment net.")
@click.option("-q", "--quiet", is_flag=True, help="No messages.")
def command(
    *,
    checkpoint: Path,
    out: Path,
    name: str | None,
    precision: str | None,
    heads: tuple[Path, ...],
    beta: float | None,
    quiet: bool,
    **settings: Any,
) -> None:
    """Turn a trained CHECKPOINT into the model folder OUT, which runs without torch.

    CHECKPOINT is a run's folder (its best checkpoint by the run's metric on dev, else the newest) or one
    step-… folder. Settings that are not given are the recipe's; `regiontalk fit` finds good ones.

    CHECKPOINT may also be a model folder: OUT is then a copy of it with the heads that --add names.
    """
    console.need("train", "exporting", "torch", "safetensors", "onnx", "onnxscript")
    check_free(out)
    from regiontalk.export.detector import export_model
    from regiontalk.export.heads import load_heads
    from regiontalk.training.checkpoints import find_checkpoint

    name = name or out.resolve().name
    given = {key: value for key, value in settings.items() if value is not None}
    is_folder = (checkpoint / INFO).is_file()
    if is_folder and (given or precision is not None):
        raise UsageError(f"{checkpoint}: a model folder: only --name, --add and --beta go with it")
    found = checkpoint if is_folder else find_checkpoint(checkpoint)
    with recording("export", out) as record:
        record.uses("model", found)
        for head in heads:
            record.uses("head", find_checkpoint(head))
        if is_folder:
            precision = _add_heads(checkpoint, out, name, heads, beta)
        else:
            precision = precision or PRECISIONS[0]
            export_model(found, out, name, precision, given, load_heads(heads, precision, beta))
    size = sum(file.stat().st_size for file in out.iterdir())
    console.message(f"{out}: {found} as {precision}, {size / 1e6:.1f} MB", quiet)


def _add_heads(folder: Path, out: Path, name: str, heads: tuple[Path, ...], beta: float | None) -> str:
    """Copies the model folder with the heads in its own precision; that precision."""
    from regiontalk.export.detector import add_heads
    from regiontalk.export.heads import load_heads

    precision = read_model_folder(folder).info.precision
    add_heads(folder, out, name, load_heads(heads, precision, beta))
    return precision
