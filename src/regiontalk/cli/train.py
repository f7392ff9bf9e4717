"""`regiontalk train`: a recipe in, a run's folder out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from regiontalk.cli import console
from regiontalk.cli.options import PLACE, quiet_option
from regiontalk.errors import UsageError, need


class ProgressWatcher:
    """A bar with losses, photos per second and the time left; plain lines when stderr is no
    terminal."""

    def __init__(self, quiet: bool) -> None:
        terminal = console.err()
        self.quiet = quiet
        self.bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[speed]:.1f} photos/s"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[losses]}"),
            console=terminal,
            disable=quiet or not terminal.is_terminal,
        )
        self.task = self.bar.add_task("", total=None, speed=0.0, losses="")

    def step(
        self, done: int, total: int, losses: Mapping[str, float] | None, photos_per_second: float
    ) -> None:
        self.bar.update(self.task, completed=done, total=total, speed=photos_per_second)
        if losses is None:
            return
        text = " ".join(f"{name} {value:.3f}" for name, value in losses.items())
        self.bar.update(self.task, losses=text)
        if self.bar.disable:
            console.message(
                f"step {done}/{total} {photos_per_second:.1f} photos/s {text}", self.quiet
            )

    def say(self, text: str) -> None:
        console.message(text, self.quiet)


@click.command()
@click.argument("recipe", type=PLACE)
@click.option("-o", "--output", type=PLACE, help="The run's folder (default: runs/RECIPE).")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key: --set run.steps=500.",
)
@click.option(
    "--from",
    "init_from",
    metavar="MODEL",
    help="Start from these weights: embedded or fast (the package's models), a model folder, or "
    "another run. A head "
    "starts from another run.",
)
@click.option(
    "--resume", is_flag=True, help="Resume from the run's newest checkpoint, if there is one."
)
@click.option(
    "--minutes", type=float, help="Stop with a checkpoint after this time; --resume continues."
)
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True
)
@click.option(
    "--strict", is_flag=True, help="Stop at a photo that cannot be read, instead of skipping it."
)
@quiet_option
def command(
    recipe: Path,
    output: Path | None,
    changes: tuple[str, ...],
    init_from: str | None,
    resume: bool,
    minutes: float | None,
    device: str,
    strict: bool,
    quiet: bool,
) -> None:
    """Train a model from RECIPE, a TOML file (see recipes/).

    The run's folder gets checkpoints, a log, and run.json: the recipe as used, data, commit, device
    and seed. A photo that cannot be read is named, and another one takes its place. Under torchrun,
    every process takes its share of each batch.
    """
    need("train", "training", "torch", "safetensors", "tensorboard")
    from regiontalk.lab.training.run import start_run

    folder = output if output is not None else Path("runs") / recipe.stem
    if not resume and (folder / "checkpoints").exists():
        raise UsageError(
            f"{folder} already has a run", hint="--resume continues it, -o names another folder"
        )
    if init_from is not None:
        need("train", "--from", "onnx")
        changes = (*changes, f"init_from={json.dumps(init_from)}")
    watcher = ProgressWatcher(quiet)
    with watcher.bar:
        start_run(recipe, changes, folder, resume, minutes, device, watcher, strict)
