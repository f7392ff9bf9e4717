"""Loads the model of a folder, or one of the package's models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regiontalk.errors import ModelError, UsageError, need
from regiontalk.models.packaged import own_models, place_of
from regiontalk.models.providers import CPU, PROVIDERS

if TYPE_CHECKING:
    from regiontalk.captioners import Captioner
    from regiontalk.model import Model


def is_run(place: Path) -> bool:
    """Whether it is a run's folder or a checkpoint rather than a model folder."""
    return any(
        next(place.glob(name), None) is not None
        for name in ("checkpoints", "state.json", "step-*/state.json")
    )


def load(
    folder: str | Path | None = None,
    *,
    device: str = "auto",
    heads: Iterable[str | Path] = (),
    threads: int | None = None,
    lazily: bool = False,
    words_book: str | Path | bool = True,
    captioner: Captioner | None = None,
    tell: Callable[[str], object] | None = None,
) -> Model:
    """Loads a model folder (default: the package's strong model; `"fast"`: its fast one), a
    training run (its best checkpoint on dev) or a checkpoint.

    `device`: `auto` runs a model folder in ONNX Runtime on the CPU, and a training run in torch, on
    the GPU if there is one; `cuda` runs either on the GPU, in torch; `openvino`, `coreml` and
    `directml` run a model folder in that provider of ONNX Runtime. What such a provider cannot do,
    the CPU does, and `tell` gets a sentence about it (default: a Python warning). `heads`: training
    runs of heads, used instead of the model's own, in torch. `threads`: how many cores a call may
    use (default: the environment's REGIONTALK_THREADS, else all). `lazily`: graphs are opened when
    they are first run, so that a program that only searches an index starts sooner. `words_book`:
    the file of the words that it was taught and is to be taught (default: the user's own for this
    model, if there is one); False: no taught words. `captioner`: regions and captions are those of
    this other model (docs/another-model.md); the model folder then makes the vectors of an index.
    """
    from regiontalk.captioners.adapted import AdaptedModel
    from regiontalk.model import Model
    from regiontalk.models.onnx_runtime import OnnxRuntime

    if device not in ("auto", CPU, *PROVIDERS):
        raise UsageError(f"no device {device!r}", hint=", ".join(["auto", CPU, *PROVIDERS]))
    place = place_of(folder)
    if place in own_models().values() and not place.is_dir():
        raise ModelError(
            f"this regiontalk package has no model{'' if folder is None else f' {folder}'}",
            hint=(
                "regiontalk export CHECKPOINT FOLDER makes one; caption --model FOLDER and "
                "load(FOLDER) take it"
            ),
        )
    runs_on = CPU if device == "auto" else device
    say = tell or warnings.warn
    if captioner is not None:
        runtime = OnnxRuntime(place, threads, lazily=True)
        return with_book(AdaptedModel(runtime, captioner=captioner), words_book)
    if device == "cuda" or heads or is_run(place):
        if runs_on not in (CPU, "cuda"):
            raise UsageError(f"{device} is for model folders alone", hint="cpu or cuda")
        return with_book(_load_in_torch(place, device, map(Path, heads)), words_book)
    return with_book(Model(OnnxRuntime(place, threads, lazily, runs_on, say)), words_book)


def _load_in_torch(place: Path, device: str, heads: Iterable[Path]) -> Model:
    need("train", "running a model in torch", "torch", "safetensors", "onnx")
    from regiontalk.lab.training.processes import pick_device
    from regiontalk.model import Model
    from regiontalk.models.torch_loading import open_torch_runtime

    return Model(open_torch_runtime(place, pick_device(device), heads))


def with_book(model: Model, words_book: str | Path | bool) -> Model:
    """The model with a word book, as in `load`; a training run, which has no codes of its own to
    keep, only with a given one."""
    from regiontalk.inference.teaching import Taught

    if words_book is False or (words_book is True and not model.runtime.detector):
        return model
    taught = Taught.of(model.runtime, None if words_book is True else Path(words_book))
    taught.file.read()  # a damaged book is told before a photo is opened
    return replace(model, taught=taught)
