"""Checkpoints: safetensors for every tensor, JSON for the rest, written whole or not at all; and
the nets in them.

A checkpoint is a folder `step-00001000` with `model.safetensors`, `ema.safetensors` (where an
exponential moving average of the weights is kept), `optimizer.safetensors` and `state.json`. It is
written beside its place and renamed into it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regiontalk.errors import DataError, ModelError
from regiontalk.io.files import json_file, new_folder, open_file, output_error, read_json
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.nets.fcln import FCLN, FCLNConfig
from regiontalk.lab.nets.language import LanguageModel
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN
from regiontalk.lab.nets.two_towers import TwoTowers
from regiontalk.lab.training.recipe import KINDS, from_stored
from regiontalk.lab.training.recipe.detector import FCLNRecipe
from regiontalk.lab.training.recipe.heads import AlignmentRecipe, JointRecipe, SentencesRecipe
from regiontalk.lab.training.recipe.language import LanguageRecipe
from regiontalk.lab.training.recipe.shared import Recipe
from regiontalk.lab.training.recipe.towers import ContrastiveRecipe
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.language.wordpiece import WordPieces

FORMAT = 2
# the alignment net beside an FCLN that learns from sentences; only training needs it
COMPANION = "companion"
CPU = torch.device("cpu")

Net = TypeVar("Net", bound=nn.Module)
RecipeOf = TypeVar("RecipeOf", bound=Recipe)


def save_checkpoint(
    folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Writes `tensors` (file name -> named tensors) and `state` as the checkpoint of a step."""
    final = folder / step_name(step)
    with new_folder(final, replace=True) as partial:
        for name, values in tensors.items():
            plain = {key: value.detach().cpu().contiguous() for key, value in values.items()}
            try:
                save_file(plain, partial / f"{name}.safetensors")
            except SafetensorError as error:
                number = re.search(r"\(os error (\d+)\)", str(error))
                raise output_error(
                    final, OSError(int(number[1]) if number else 0, str(error))
                ) from error
        (partial / "state.json").write_bytes(json_file({"format": FORMAT, "step": step, **state}))
    return final


def latest_checkpoint(folder: Path) -> Path | None:
    checkpoints = sorted(folder.glob("step-*")) if folder.is_dir() else []
    return checkpoints[-1] if checkpoints else None


def find_checkpoint(folder: Path) -> Path:
    """`folder` itself, or the best checkpoint of the run in it (no evaluation yet: the newest)."""
    return best_checkpoints(folder)[0]


def best_checkpoints(folder: Path) -> list[Path]:
    """`folder` itself, or the best checkpoints that the run in it has kept, best first (else the
    newest)."""
    if (folder / "state.json").is_file():
        return [folder]
    newest = latest_checkpoint(folder / "checkpoints") or latest_checkpoint(folder)
    if newest is None:
        raise ModelError(
            f"{folder}: no checkpoint here",
            hint="give a run's folder, or one of its step-… folders",
        )
    best = [
        newest.with_name(step_name(kept["step"])) for kept in read_state(newest).get("best", [])
    ]
    return [place for place in best if place.is_dir()] or [newest]


def step_name(step: int) -> str:
    return f"step-{step:08d}"


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
        raise ModelError(
            f"{checkpoint}: a checkpoint of format {state['format']}, this program reads {FORMAT}"
        )
    return state


def read_tensors(checkpoint: Path, name: str) -> dict[str, Tensor]:
    path = checkpoint / f"{name}.safetensors"
    try:
        open_file(path).close()  # neither a pipe nor a device
        return load_file(path)
    except DataError as error:
        raise ModelError(error.message) from error
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error


JOINT_PARTS: dict[type[Recipe], tuple[str, Callable[[JointRecipe], Any]]] = {
    AlignmentRecipe: ("alignment.", JointRecipe.alignment_recipe),
    SentencesRecipe: ("sentence.", JointRecipe.sentences_recipe),
}
"""What the names of a part's weights begin with in a joint net, and the part's recipe."""


@dataclass(frozen=True)
class Trained(Generic[Net, RecipeOf]):
    """A net with the weights of a checkpoint, ready for inference."""

    net: Net
    words: Vocabulary
    recipe: RecipeOf
    state: Mapping[str, Any]
    """`state.json`: of a head also the `detector` whose codes it was trained on, and their size,
    `code`."""


def load_fcln(checkpoint: Path, device: torch.device = CPU) -> Trained[FCLN, FCLNRecipe]:
    state, recipe, words, weights = _read_trained(checkpoint, FCLNRecipe)
    net = FCLN(recipe.net, len(words), words.starts)
    fill_net(
        net,
        {key: weight for key, weight in weights.items() if not key.startswith(f"{COMPANION}.")},
        checkpoint,
    )
    return Trained(net.to(device).eval(), words, recipe, state)


def load_alignment(checkpoint: Path) -> Trained[AlignmentNet, AlignmentRecipe]:
    """The net of an alignment run, or a joint run's part."""
    state, recipe, words, weights = _read_trained(
        checkpoint, AlignmentRecipe, "detector", "code", "relations"
    )
    net = AlignmentNet(recipe.net, state["code"], len(words), len(state["relations"]))
    fill_net(net, weights, checkpoint)
    return Trained(net.eval(), words, recipe, state)


def load_sentence_net(
    checkpoint: Path, device: torch.device = CPU
) -> Trained[MultimodalRNN, SentencesRecipe]:
    """The net of a sentences run, or a joint run's part."""
    state, recipe, words, weights = _read_trained(checkpoint, SentencesRecipe, "detector", "code")
    net = MultimodalRNN(state["code"], len(words), len(words.styles), recipe.net)
    fill_net(net, weights, checkpoint)
    return Trained(net.to(device).eval(), words, recipe, state)


def load_language(checkpoint: Path) -> Trained[LanguageModel, LanguageRecipe]:
    """The language model of a run that trained it alone."""
    state, recipe, words, weights = _read_trained(checkpoint, LanguageRecipe, "detector", "net")
    config = from_stored(FCLNConfig, state["net"], str(checkpoint))
    net = LanguageModel(config.recognition.code, len(words), words.starts, config.language)
    fill_net(net, weights, checkpoint)
    return Trained(net.eval(), words, recipe, state)


@dataclass(frozen=True)
class TrainedTowers:
    """Two towers with the weights of a checkpoint, ready for inference."""

    net: TwoTowers
    pieces: WordPieces
    recipe: ContrastiveRecipe


def load_towers(checkpoint: Path, device: torch.device = CPU) -> TrainedTowers:
    state, recipe, weights = _read_weights(checkpoint, ContrastiveRecipe)
    pieces = WordPieces.from_dict(state["vocabulary"])
    net = TwoTowers(recipe.net, len(pieces))
    fill_net(net, weights, checkpoint)
    return TrainedTowers(net.to(device).eval(), pieces, recipe)


def _read_trained(
    checkpoint: Path, kind: type[RecipeOf], *keys: str
) -> tuple[dict[str, Any], RecipeOf, Vocabulary, dict[str, Tensor]]:
    """What `_read_weights` reads, and the vocabulary."""
    state, recipe, weights = _read_weights(checkpoint, kind, *keys)
    return state, recipe, Vocabulary.from_dict(state["vocabulary"]), weights


def _read_weights(
    checkpoint: Path, kind: type[RecipeOf], *keys: str
) -> tuple[dict[str, Any], RecipeOf, dict[str, Tensor]]:
    """State, recipe, and the moving average of the weights where there is one, else the
    weights as they were trained; of a joint run, recipe and weights are those of the part of this
    kind."""
    state = read_state(checkpoint)
    recipe_kind = KINDS.get(state["kind"])
    prefix, part = JOINT_PARTS.get(kind, ("", None)) if recipe_kind is JointRecipe else ("", None)
    if part is None and recipe_kind is not kind:
        wanted = next(name for name, recipe in KINDS.items() if recipe is kind)
        raise ModelError(f"{checkpoint}: a checkpoint of kind {state['kind']!r}, not {wanted}")
    for key in ("recipe", "vocabulary", *keys):
        if key not in state:
            raise ModelError(f"{checkpoint}: not a checkpoint: state.json lacks {key}")
    stored: Any = from_stored(JointRecipe if part else kind, state["recipe"], str(checkpoint))
    weights = read_tensors(
        checkpoint, "ema" if (checkpoint / "ema.safetensors").exists() else "model"
    )
    part_weights = {
        key.removeprefix(prefix): weight
        for key, weight in weights.items()
        if key.startswith(prefix)
    }
    return state, part(stored) if part else stored, part_weights


def fill_net(net: nn.Module, values: Mapping[str, Tensor], place: Path) -> None:
    """Loads weights, or says in one line that they belong to another net."""
    expected = net.state_dict()
    missing = sorted(set(expected) - set(values))
    extra = sorted(set(values) - set(expected))
    wrong = [key for key in expected if key in values and expected[key].shape != values[key].shape]
    if missing or extra or wrong:
        raise ModelError(
            f"{place}: weights of another architecture ({len(missing)} missing, {len(extra)} "
            "unknown, "
            f"{len(wrong)} of another shape, the first: {(missing + extra + wrong)[0]})"
        )
    net.load_state_dict(dict(values))


def optimizer_tensors(
    optimizers: Mapping[str, torch.optim.Optimizer],
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The optimisers' state as named tensors and plain numbers (step counts)."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, float] = {}
    for name, optimizer in optimizers.items():
        for index, moments in optimizer.state_dict()["state"].items():
            for key, value in moments.items():
                if isinstance(value, Tensor) and value.dim():
                    tensors[f"{name}/{index}/{key}"] = value
                elif value is not None:
                    numbers[f"{name}/{index}/{key}"] = float(value)
    return tensors, numbers


def restore_optimizers(
    optimizers: Mapping[str, torch.optim.Optimizer],
    tensors: Mapping[str, Tensor],
    numbers: Mapping[str, float],
) -> None:
    for name, optimizer in optimizers.items():
        state = optimizer.state_dict()
        parameters = list(chain.from_iterable(group["params"] for group in optimizer.param_groups))
        moments: dict[int, dict[str, Any]] = {}
        for key, value in [*tensors.items(), *((k, torch.tensor(v)) for k, v in numbers.items())]:
            owner, index, field = key.split("/")
            if owner == name:
                # in the weight's own layout (channels last, say), as fused optimisers need it
                laid_out = (
                    torch.empty_like(parameters[int(index)]).copy_(value) if value.dim() else value
                )
                moments.setdefault(int(index), {})[field] = laid_out
        state["state"] = moments
        optimizer.load_state_dict(state)
