"""Starting or resuming a run from a recipe."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from regiontalk.errors import RegionTalkError, UsageError
from regiontalk.training.detector.task import FCLNTask
from regiontalk.training.engine import Engine, Processes, Watcher, pick_device
from regiontalk.training.heads.alignment import AlignmentTask
from regiontalk.training.heads.sentences import SentencesTask
from regiontalk.training.malloc import keep_freed_memory
from regiontalk.training.recipe import load_recipe, to_dict

TASKS: dict[str, Any] = {"fcln": FCLNTask, "alignment": AlignmentTask, "sentences": SentencesTask}
"""Kind of recipe -> its `engine.Task`, which `begin(recipe)` makes."""


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
    if device.type == "cpu":
        keep_freed_memory()
    _make_folder(folder)
    with Processes.join(device) as processes:
        task = TASKS[recipe.kind].begin(recipe)
        engine = Engine(task, folder, device, watcher, processes)
        if resume and engine.resume():
            watcher.say(f"resumed at step {engine.step}")
        if processes.is_first:
            (folder / "recipe.json").write_text(json.dumps(to_dict(task.recipe), indent=1) + "\n", encoding="utf-8")
        watcher.say(task.summary())
        _check_space(engine)
        try:
            engine.train(None if minutes is None else minutes * 60)
        except OSError as error:  # the log or a picture; checkpoints and data have errors of their own
            raise RegionTalkError(f"{folder}: {error}", hint="the last checkpoint is whole") from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror or error}") from error


def _check_space(engine: Engine) -> None:
    """Better now than at the first checkpoint: room for those that are kept, the best, and one being written."""
    there = len(list(engine.checkpoint_folder.glob("step-*")))
    needed = engine.checkpoint_bytes() * max(engine.recipe.run.keep + engine.recipe.run.keep_best + 1 - there, 1)
    free = shutil.disk_usage(engine.folder).free
    if needed > free:
        raise UsageError(
            f"{engine.folder}: no room: checkpoints will need {needed / 1e9:.2f} GB, {free / 1e9:.2f} GB are free",
            hint="-o names a folder elsewhere, --set run.keep=1 keeps fewer",
        )
