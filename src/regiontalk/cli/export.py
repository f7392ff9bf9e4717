"""`regiontalk export`: a trained checkpoint into a model folder."""

from __future__ import annotations

from pathlib import Path

import click

from regiontalk.cli import console
from regiontalk.cli.options import MODEL, PLACE, quiet_option
from regiontalk.errors import UsageError, need
from regiontalk.lab.runs import recording
from regiontalk.models.folder import INFO, PRECISIONS, check_free, read_model_folder


@click.command()
@click.argument("checkpoint", type=MODEL)
@click.argument("out", type=PLACE)
@click.option("--name", help="The model's name in results. Default: the name of OUT.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="float32 (the default); float16 halves the size; int8-stored stores matrices in 8 bits, "
    "int8 also "
    "multiplies them in 8 bits.",
)
@click.option(
    "--add",
    "heads",
    type=PLACE,
    multiple=True,
    metavar="HEAD",
    help="A head's checkpoint, trained on this network's region codes. Can be repeated.",
)
@click.option(
    "--teacher",
    type=MODEL,
    metavar="MODEL",
    help="For a student: its teacher's model folder, from which all but the backbone is taken.",
)
@click.option(
    "--share",
    type=MODEL,
    metavar="MODEL",
    help="For a copy: leave out the files that this model folder, in the same folder as OUT, has "
    "too.",
)
@click.option(
    "--beta",
    type=click.FloatRange(min=0),
    help="β of eq. 12, for an alignment net: larger values give longer segments.",
)
@click.option(
    "--texts-of",
    type=PLACE,
    multiple=True,
    metavar="DATA",
    help="For two towers: keep only the pieces of words that occur in the texts of this data set. "
    "Can be repeated.",
)
@quiet_option
def command(
    *,
    checkpoint: Path,
    out: Path,
    name: str | None,
    precision: str | None,
    heads: tuple[Path, ...],
    teacher: Path | None,
    share: Path | None,
    beta: float | None,
    texts_of: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Turn a trained CHECKPOINT into the model folder OUT, which runs without torch.

    CHECKPOINT is a run's folder (its best checkpoint by the run's metric on dev, else the newest)
    or one step-… folder. Its prediction settings are the recipe's; `regiontalk fit` finds good
    ones.

    The checkpoint of a language model (a recipe of kind "language") gives a copy of the model that
    its run started from, with the new captions. `regiontalk fit` should follow.

    The checkpoint of two towers (kind "contrastive") gives the graphs of both towers and the text
    tower's vocabulary.

    CHECKPOINT may also be a model folder: OUT is then a copy of it with the heads that --add names.

    For a student (a run whose recipe names a teacher), --teacher also copies the teacher's heads,
    which can read the student's codes.
    """
    need("train", "exporting", "torch", "safetensors", "onnx", "onnxscript")
    check_free(out)
    from regiontalk.lab.export.detector import add_heads, export_model, export_student
    from regiontalk.lab.export.heads import load_heads
    from regiontalk.lab.export.language import export_language
    from regiontalk.lab.training.checkpoints import find_checkpoint, read_state

    name = name or out.resolve().name
    is_folder = (checkpoint / INFO).is_file()
    if is_folder and precision is not None:
        raise UsageError(f"{checkpoint}: a model folder, whose precision stays as it is")
    if teacher is not None and (is_folder or heads or precision):
        raise UsageError(
            "--teacher needs a checkpoint, and cannot be used with --add or --precision"
        )
    trained = checkpoint if is_folder else find_checkpoint(checkpoint)
    kind = None if is_folder else read_state(trained)["kind"]
    is_language = kind == "language"
    is_towers = kind == "contrastive"
    if is_towers and (teacher or heads):
        raise UsageError("two towers have neither heads nor a teacher")
    if texts_of and not is_towers:
        raise UsageError("--texts-of is for two towers")
    if is_language and (teacher or heads or precision):
        raise UsageError(
            "a language model takes heads and precision from the model it started from"
        )
    if share is not None and not (is_folder or is_language):
        raise UsageError("--share is for a copy of a model folder")
    with recording("export", out) as record:
        record.uses("model", trained)
        for head in heads:
            record.uses("head", find_checkpoint(head))
        if is_folder:
            precision = read_model_folder(checkpoint).info.precision
            add_heads(trained, out, name, load_heads(heads, precision, beta), share)
        elif is_language:
            export_language(trained, out, name, share)
            precision = read_model_folder(out).info.precision
        elif is_towers:
            from regiontalk.lab.export.towers import export_towers

            precision = precision or PRECISIONS[0]
            export_towers(trained, out, precision, texts_of)
        elif teacher is not None:
            record.uses("teacher", teacher)
            precision = read_model_folder(teacher).info.precision
            export_student(trained, out, name, teacher)
        else:
            precision = precision or PRECISIONS[0]
            export_model(trained, out, name, precision, load_heads(heads, precision, beta))
    size = sum(file.stat().st_size for file in out.iterdir())
    console.message(f"{out}: {trained} as {precision}, {size / 1e6:.1f} MB", quiet)
