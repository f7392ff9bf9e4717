"""A run, a checkpoint or a model folder as a runtime in torch."""

from __future__ import annotations

from pathlib import Path

import torch

from regiontalk.model_folder import INFO, read_model_folder
from regiontalk.runtime.torch import TorchRuntime, model_info
from regiontalk.training.checkpoints import find_checkpoint, read_state
from regiontalk.training.detector.task import load_net


def open_torch_runtime(place: Path, device: str | torch.device = "cpu") -> TorchRuntime:
    """`place` is a run's folder (its best checkpoint), a checkpoint, or a model folder."""
    if (place / INFO).exists():
        from regiontalk.export.pretrained import load_learned  # which needs onnx, and a checkpoint does not

        folder = read_model_folder(place)
        learned = load_learned(str(place))
        return TorchRuntime(learned.net.to(device), learned.words, folder.info, folder)
    checkpoint = find_checkpoint(place)
    net, words, recipe = load_net(checkpoint, torch.device(device))
    training = {"step": read_state(checkpoint)["step"]}
    return TorchRuntime(net, words, model_info(net, recipe.prediction, checkpoint.name, "float32", training))
