"""Starting or resuming a training run from a recipe; the run's folder gets its record
(`lab.runs`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from regiontalk.errors import DiskFull
from regiontalk.io.files import output_error, writing
from regiontalk.io.malloc import keep_freed_memory
from regiontalk.lab import runs
from regiontalk.lab.codes.true_boxes import MADE_FROM
from regiontalk.lab.training.checkpoints import find_checkpoint
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.engine import Engine, Watcher
from regiontalk.lab.training.heads.alignment import AlignmentTask
from regiontalk.lab.training.heads.joint import JointTask
from regiontalk.lab.training.heads.language import LanguageTask
from regiontalk.lab.training.heads.sentences import SentencesTask
from regiontalk.lab.training.processes import Processes, pick_device
from regiontalk.lab.training.recipe import load_recipe, to_dict
from regiontalk.lab.training.towers.task import ContrastiveTask
from regiontalk.models import packaged
from regiontalk.models.folder import SUMS

TASKS: dict[str, Any] = {
    "fcln": FCLNTask,
    "alignment": AlignmentTask,
    "sentences": SentencesTask,
    "joint": JointTask,
    "language": LanguageTask,
    "contrastive": ContrastiveTask,
}
"""Kind of recipe -> its `task.Task`, which `begin(recipe)` makes."""


def start_run(
    recipe_path: Path,
    changes: tuple[str, ...],
    folder: Path,
    resume: bool,
    minutes: float | None,
    device_name: str,
    watcher: Watcher,
    strict: bool = False,
) -> None:
    """Trains to the end of the recipe, or for `minutes`; with `strict`, a photo that cannot be read
    ends it."""
    recipe = load_recipe(recipe_path, changes)
    device = pick_device(device_name)
    if device.type == "cpu":
        keep_freed_memory()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with Processes.join(device) as processes:
        task = TASKS[recipe.kind].begin(recipe)
        engine = Engine(task, folder, device, watcher, processes, strict)
        resumed = resume and engine.resume()
        if resumed:
            watcher.say(f"resumed at step {engine.step}")
        watcher.say(task.summary())
        _check_space(engine)
        record = (
            _begin_record(recipe_path, changes, recipe, device, folder, resumed)
            if processes.is_first
            else None
        )
        try:
            engine.train(None if minutes is None else minutes * 60)
        except (
            OSError
        ) as error:  # the log or a picture; checkpoints and data have errors of their own
            raise output_error(folder, error, "the last checkpoint is whole") from error
        if skipped := len(engine.skipped):
            watcher.say(
                f"{skipped} {'photo' if skipped == 1 else 'photos'} that cannot be read, skipped"
            )
        if record is not None:
            record.values["skipped_photos"] = len(engine.skipped)
            record.made(find_checkpoint(folder))
            runs.write_record(folder / runs.RECORD, record.finish())


def _begin_record(
    recipe_path: Path,
    changes: tuple[str, ...],
    recipe: Any,
    device: torch.device,
    folder: Path,
    resumed: bool,
) -> runs.RunRecord:
    """Written at the start as well, so that a run that breaks off has one."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    record = runs.RunRecord("train", gpu)
    record.uses_recipe(recipe_path, changes, to_dict(recipe))
    for data in recipe.data if isinstance(recipe.data, tuple) else (recipe.data,):
        record.uses_data(Path(data.path))
        for role in ("codes", "snippets"):
            for place in _places(getattr(data, role, None)):
                record.uses(role, place)
    for role in ("init_from", "teacher"):
        if getattr(recipe, role, None):
            record.uses("model", _model_place(getattr(recipe, role)))
    earlier = runs.find_record(folder) if resumed else None
    if earlier is not None:
        record.resumes(earlier)
    runs.write_record(folder / runs.RECORD, record.values)
    return record


def _places(named: str | tuple[str, ...] | None) -> list[Path]:
    """The files that a key of a recipe names; of a folder of codes, what they were made from."""
    places = [Path(place) for place in ((named,) if isinstance(named, str) else named or ())]
    return [place / MADE_FROM if place.is_dir() else place for place in places]


def _model_place(model: str) -> Path:
    """A model folder, or the checkpoint of a run."""
    folder = packaged.place_of(model)
    return folder if (folder / SUMS).is_file() else find_checkpoint(folder)


def _check_space(engine: Engine) -> None:
    """Better now than at the first checkpoint: room for those that are kept, the best, and one
    being written."""
    there = len(list(engine.checkpoint_folder.glob("step-*")))
    needed = engine.checkpoint_bytes() * max(
        engine.recipe.run.keep + engine.recipe.run.keep_best + 1 - there, 1
    )
    free = shutil.disk_usage(engine.folder).free
    if needed > free:
        raise DiskFull(
            f"{engine.folder}: no room: checkpoints will need {needed / 1e9:.2f} GB, "
            f"{free / 1e9:.2f} GB are free",
            hint="-o names a folder elsewhere, --set run.keep=1 keeps fewer",
        )
