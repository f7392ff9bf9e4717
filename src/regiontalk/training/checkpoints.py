"""Checkpoints: safetensors for every tensor, JSON for the rest, written whole or not at all.

A checkpoint is a folder `step-00001000` with `model.safetensors`, `mean.safetensors` (where a running mean
is kept), `optimizer.safetensors` and `state.json`. It is written beside its place and renamed into it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regiontalk.errors import DataError, ModelError, OutputError
from regiontalk.files import new_folder, read_json

FORMAT = 1


def save_checkpoint(
    folder: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
) -> Path:
    """Writes `tensors` (file name -> named tensors) and `state` as the checkpoint of a step."""
    final = folder / f"step-{step:08d}"
    with new_folder(final, replace=True) as partial:
        for name, values in tensors.items():
            plain = {key: value.detach().cpu().contiguous() for key, value in values.items()}
            try:
                save_file(plain, partial / f"{name}.safetensors")
            except SafetensorError as error:
                raise OutputError(f"{final}: cannot be written: {error}", hint="earlier ones are whole") from error
        text = json.dumps({"format": FORMAT, "step": step, **state}, indent=1)
        (partial / "state.json").write_text(text + "\n", encoding="utf-8")
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    found = sorted(folder.glob("step-*")) if folder.is_dir() else []
    return found[-1] if found else None


def find_checkpoint(folder: Path) -> Path:
    """`folder` itself, or the best checkpoint of the run in it (no evaluation yet: the newest)."""
    if (folder / "state.json").is_file():
        return folder
    newest = latest_checkpoint(folder / "checkpoints") or latest_checkpoint(folder)
    if newest is None:
        raise ModelError(f"{folder}: no checkpoint here", hint="give a run's folder, or one of its step-… folders")
    best = read_state(newest).get("best")
    place = newest.with_name(f"step-{best['step']:08d}") if best else newest
    return place if place.is_dir() else newest


def drop_old(folder: Path, keep: int, spared: Collection[Path]) -> None:
    """Deletes all but the newest `keep` checkpoints and the `spared` ones."""
    for old in sorted(folder.glob("step-*"))[:-keep]:
        if old not in spared:
            shutil.rmtree(old)


def read_state(checkpoint: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = read_json(checkpoint / "state.json")
    except DataError as error:
        raise ModelError(f"{checkpoint}: not a checkpoint: {error.message}") from error
    if not isinstance(state, dict) or not {"format", "step", "kind"} <= set(state):
        raise ModelError(f"{checkpoint}: not a checkpoint: state.json lacks format, step or kind")
    if state["format"] != FORMAT:
        raise ModelError(f"{checkpoint}: a checkpoint of format {state['format']}, this program reads {FORMAT}")
    return state


def read_tensors(checkpoint: Path, name: str) -> dict[str, Tensor]:
    path = checkpoint / f"{name}.safetensors"
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error


def fill_net(net: nn.Module, values: Mapping[str, Tensor], place: Path) -> None:
    """Loads weights, or says in one line that they belong to another net."""
    own = net.state_dict()
    missing, extra = sorted(set(own) - set(values)), sorted(set(values) - set(own))
    wrong = [key for key in own if key in values and own[key].shape != values[key].shape]
    if missing or extra or wrong:
        raise ModelError(
            f"{place}: weights of another architecture ({len(missing)} missing, {len(extra)} unknown, "
            f"{len(wrong)} of another shape, the first: {(missing + extra + wrong)[0]})"
        )
    net.load_state_dict(dict(values))


def optimizer_tensors(optimizers: Mapping[str, torch.optim.Optimizer]) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The optimisers' memory as named tensors and plain numbers (step counts)."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, float] = {}
    for name, optimizer in optimizers.items():
        for index, memory in optimizer.state_dict()["state"].items():
            for key, value in memory.items():
                if isinstance(value, Tensor) and value.dim():
                    tensors[f"{name}/{index}/{key}"] = value
                elif value is not None:
                    numbers[f"{name}/{index}/{key}"] = float(value)
    return tensors, numbers


def restore_optimizers(
    optimizers: Mapping[str, torch.optim.Optimizer], tensors: Mapping[str, Tensor], numbers: Mapping[str, float]
) -> None:
    for name, optimizer in optimizers.items():
        state = optimizer.state_dict()
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        memory: dict[int, dict[str, Any]] = {}
        for key, value in [*tensors.items(), *((k, torch.tensor(v)) for k, v in numbers.items())]:
            owner, index, field = key.split("/")
            if owner == name:
                memory.setdefault(int(index), {})[field] = _laid_out_like(parameters[int(index)], value)
        state["state"] = memory
        optimizer.load_state_dict(state)


def _laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """Memory of a weight in the weight's own layout (channels last, say), as fused optimisers want it."""
    return torch.empty_like(parameter).copy_(value) if value.dim() else value
