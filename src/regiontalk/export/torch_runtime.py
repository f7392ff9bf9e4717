"""A run, a checkpoint or a model folder as a runtime in torch."""

from __future__ import annotations

from pathlib import Path

import torch

from regiontalk.model_folder import INFO, read_model_folder
from regiontalk.runtime.torch import TorchRuntime, model_info
from regiontalk.training.checkpoints import find_checkpoint, load_fcln


def open_torch_runtime(place: Path, device: str | torch.device = "cpu") -> TorchRuntime:
    """`place` is a run's folder (its best checkpoint), a checkpoint, or a model folder."""
    if (place / INFO).exists():
        from regiontalk.export.pretrained import load_pretrained  # which needs onnx, and a checkpoint does not

        folder = read_model_folder(place)
        pretrained = load_pretrained(str(place))
        return TorchRuntime(pretrained.net.to(device), pretrained.words, folder.info, folder)
    checkpoint = find_checkpoint(place)
    trained = load_fcln(checkpoint, torch.device(device))
    info = model_info(
        trained.net, trained.recipe.prediction, checkpoint.name, "float32", {"step": trained.state["step"]}
    )
    return TorchRuntime(trained.net, trained.words, info)
