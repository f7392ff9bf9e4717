"""Starting or resuming a run from a recipe."""

from __future__ import annotations

import json
import signal
import types
from pathlib import Path

from regiontalk.errors import UsageError
from regiontalk.training.engine import Engine, Processes, Watcher, pick_device
from regiontalk.training.fcln import FCLNTask
from regiontalk.training.recipe import load_recipe, to_dict


def start_run(
    recipe_path: Path,
    changes: tuple[str, ...],
    folder: Path,
    resume: bool,
    minutes: float | None,
    device_name: str,
    watcher: Watcher,
) -> None:
    """Trains to the end of the recipe, or for `minutes`."""
    recipe = load_recipe(recipe_path, changes)
    device = pick_device(device_name)
    _make_folder(folder)
    with Processes.join(device) as processes:
        task = FCLNTask.begin(recipe)
        engine = Engine(task, folder, device, watcher, processes)
        if resume and engine.resume():
            watcher.say(f"resumed at step {engine.step}")
        if processes.is_first:
            (folder / "recipe.json").write_text(json.dumps(to_dict(recipe), indent=1) + "\n", encoding="utf-8")
        weights = sum(parameter.numel() for parameter in task.net.parameters())
        photos = ", ".join(f"{len(source)} photos of {source.config.path}" for source in task.sources)
        watcher.say(f"{weights / 1e6:.1f} M weights, {len(task.words)} words, {photos}")
        _checkpoint_when_told_to_end()
        engine.train(None if minutes is None else minutes * 60)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror or error}") from error


def _checkpoint_when_told_to_end() -> None:
    """SIGTERM, as a cluster sends it, is treated like Ctrl-C: a checkpoint is written first."""

    def interrupt(_signal: int, _frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
