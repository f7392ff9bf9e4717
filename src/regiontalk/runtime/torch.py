"""The FCLN's graphs as modules, in the shapes that are exported, and a runtime that runs them in torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regiontalk.model_folder import GRAPHS, Head, ModelFolder, ModelInfo, PredictionConfig
from regiontalk.nets.fcln import FCLN
from regiontalk.nets.localization import Suppression, clip_boxes
from regiontalk.runtime import Floats, Runtime
from regiontalk.runtime.onnx import OnnxGraphs, head_graphs
from regiontalk.vocabulary import Vocabulary

ON_DEVICE = ("features", "deep")  # outputs that only other graphs read


class Propose(nn.Module):
    """image (1, 3, H, W), size (1, 2) -> features (1, C, h, w), deep (1, A, h, w), boxes (K, 4), logits (K,)."""

    def __init__(self, net: FCLN) -> None:
        super().__init__()
        self.net = net

    def forward(self, image: Tensor, size: Tensor) -> tuple[Tensor, ...]:
        features, deep = self.net.backbone.maps(image, size)
        proposals = self.net.localization(features)
        return features, deep, clip_boxes(proposals.boxes_xyxy, size)[0], proposals.logits[0]


class Recognize(nn.Module):
    """features, size, boxes (B, 4) -> refined boxes (B, 4), logits (B,), codes (B, D), h and c (B, H), seen (B, E)."""

    def __init__(self, net: FCLN) -> None:
        super().__init__()
        self.net = net

    def forward(self, features: Tensor, size: Tensor, boxes_xyxy: Tensor) -> tuple[Tensor, ...]:
        recognized = self.net.recognize(features, size, boxes_xyxy[None])
        seen = self.net.see(recognized, size, boxes_xyxy[None])
        refined = clip_boxes(recognized.boxes_xyxy, size)[0]
        return refined, recognized.logits[0], recognized.codes[0], *self.net.language.begin(seen), seen


class Appear(nn.Module):
    """deep (1, A, h, w), boxes (B, 4) -> appearance (B, A)."""

    def __init__(self, net: FCLN) -> None:
        super().__init__()
        self.net = net

    def forward(self, deep: Tensor, boxes_xyxy: Tensor) -> tuple[Tensor]:
        return (self.net.appear(deep, boxes_xyxy[None]),)


class Step(nn.Module):
    """tokens (R,), h, c, seen -> log-probabilities (R, V), h, c."""

    def __init__(self, net: FCLN) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, h: Tensor, c: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        return self.net.language.step(tokens, h, c, seen)


STAGES: dict[str, type[nn.Module]] = {"propose": Propose, "recognize": Recognize, "step": Step, "appear": Appear}


class TorchRuntime(Runtime):
    """A network in torch, on the device it is on: for checkpoints, CUDA, and to compare an export with.

    Heads of a model `folder` run in ONNX Runtime on the CPU beside it: they take a few milliseconds, and exporting
    folds their weights, so that their nets cannot be filled from the folder again.
    """

    def __init__(self, net: FCLN, words: Vocabulary, info: ModelInfo, folder: ModelFolder | None = None) -> None:
        self.words, self.info = words, info
        self.heads: Mapping[str, Head] = {} if folder is None else folder.heads
        self.device = next(net.parameters()).device
        self._stages = {name: stage(net).eval() for name, stage in STAGES.items()}
        self._head_graphs = None if folder is None else OnnxGraphs(folder.path, head_graphs(folder))

    @torch.inference_mode()
    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        if graph not in self._stages:
            assert self._head_graphs is not None, f"{graph}: `head` was not asked first"
            return self._head_graphs.run(graph, *inputs)
        outputs = self._stages[graph](*(torch.as_tensor(value).to(self.device) for value in inputs))
        return [
            output if name in ON_DEVICE else output.cpu().numpy()
            for name, output in zip(GRAPHS[graph].outputs, outputs, strict=True)
        ]

    def nms(self, ranked_xyxy: Floats, threshold: float, limit: int) -> NDArray[np.intp]:
        if self.device.type == "cpu":
            return super().nms(ranked_xyxy, threshold, limit)
        places, counts = Suppression(threshold, limit)(torch.as_tensor(ranked_xyxy).to(self.device)[None])
        return places[0, : int(counts[0])].cpu().numpy()


def model_info(
    net: FCLN, prediction: PredictionConfig, name: str, precision: str, training: dict[str, Any]
) -> ModelInfo:
    """A network as `model.json` describes it."""
    return ModelInfo(
        name=name,
        kind="fcln",
        precision=precision,
        input_size=net.config.input_size,
        pad_to=net.pad_to,
        prediction=prediction,
        net=asdict(net.config),
        training=training,
    )
