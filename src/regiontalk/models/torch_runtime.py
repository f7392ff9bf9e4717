"""The graphs of a model as modules, in the shapes that are exported, and a runtime that runs them
in torch.

Shapes: those of `models.runtime`; T words that are read at a time, h the size of the common space,
N nested views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.nets.fcln import FCLN
from regiontalk.lab.nets.localization import Suppression, clip_boxes
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN, State
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.folder import DETECTOR, GRAPHS, HEADS, Head, ModelFolder, ModelInfo
from regiontalk.models.onnx_runtime import OnnxGraphs, head_graphs
from regiontalk.models.runtime import Floats, Runtime, Tokens
from regiontalk.models.settings import PredictionConfig

SENTENCES_AT_ONCE = 500  # that are read together
ON_DEVICE = ("features", "deep")  # outputs that only other graphs read


class Stage(nn.Module):
    """A graph of a net, named as in `models.folder.GRAPHS`."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net


class Propose(Stage):
    """image (1, 3, H, W), size (1, 2) -> features (1, C, h, w), deep (1, A, h, w), boxes (K, 4),
    logits (K,)."""

    net: FCLN

    def forward(self, image: Tensor, size: Tensor) -> tuple[Tensor, ...]:
        features, deep, proposals = self.net.propose(image, size)
        if proposals is None:
            return features, deep, features.new_zeros(0, 4), features.new_zeros(0)
        return features, deep, clip_boxes(proposals.boxes_xyxy, size)[0], proposals.logits[0]


class Recognize(Stage):
    """features, size, boxes (B, 4) -> refined boxes (B, 4), logits (B,), codes (B, D), h and c (B,
    H), seen (B, E)."""

    net: FCLN

    def forward(self, features: Tensor, size: Tensor, boxes_xyxy: Tensor) -> tuple[Tensor, ...]:
        recognized = self.net.recognize(features, size, boxes_xyxy[None])
        visual_inputs = self.net.visual_inputs(recognized, size, boxes_xyxy[None])
        refined = clip_boxes(recognized.boxes_xyxy, size)[0]
        return (
            refined,
            recognized.logits[0],
            recognized.codes[0],
            *self.net.language.begin(visual_inputs),
            visual_inputs,
        )


class Appear(Stage):
    """deep (1, A, h, w), boxes (B, 4) -> appearance (B, A)."""

    net: FCLN

    def forward(self, deep: Tensor, boxes_xyxy: Tensor) -> tuple[Tensor]:
        return (self.net.pooled_features(deep, boxes_xyxy[None]),)


class Step(Stage):
    """tokens (R,), h, c, seen -> log-probabilities (R, V), h, c."""

    net: FCLN

    def forward(self, tokens: Tensor, h: Tensor, c: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        return self.net.language.step(tokens, h, c, seen)


class Vectors(Stage):
    """codes (B, D) -> vectors (B, h)."""

    net: AlignmentNet

    def forward(self, codes: Tensor) -> tuple[Tensor]:
        return (self.net.regions(codes),)


class Words(Stage):
    """tokens (1, T), mask (1, T) -> vectors (T, h)."""

    net: AlignmentNet

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor]:
        return (self.net.words(tokens, mask)[0],)


class SentenceBegin(Stage):
    """views (R, N, D), regions (R, K, D), places (R, K, 5) -> the state before START."""

    net: MultimodalRNN

    def forward(self, views: Tensor, regions: Tensor, places: Tensor) -> State:
        return self.net.begin(self.net.look(views, regions, places))


class SentenceStep(Stage):
    """tokens (R,) and the state -> log-probabilities (R, V), and the parts of the state that
    change."""

    net: MultimodalRNN

    def forward(
        self, tokens: Tensor, h: Tensor, c: Tensor, bias: Tensor, memory: Tensor, absent: Tensor
    ) -> tuple[Tensor, ...]:
        logprobs, state = self.net.step(tokens, State(h, c, bias, memory, absent))
        return logprobs, state.h, state.c, state.bias


STAGES: dict[str, type[Stage]] = {
    "propose": Propose,
    "recognize": Recognize,
    "step": Step,
    "appear": Appear,
    "vectors": Vectors,
    "words": Words,
    "sentence_begin": SentenceBegin,
    "sentence_step": SentenceStep,
}


class TorchHead(NamedTuple):
    """A head as a net; `head` has no graphs."""

    head: Head
    net: nn.Module
    code: int
    """The size of the codes that it reads."""


class TorchHeads(Runtime):
    """Heads in torch on a device, without a detector: they read region codes from a file."""

    def __init__(
        self, heads: Mapping[str, TorchHead], device: torch.device, called: str = ""
    ) -> None:
        self.device = device
        self.heads = {name: torch_head.head for name, torch_head in heads.items()}
        self._called = called
        self._code_size = max((torch_head.code for torch_head in heads.values()), default=0)
        self._stages: dict[str, nn.Module] = {}
        for name, torch_head in heads.items():
            net = torch_head.net.to(device)
            self._stages |= {graph: STAGES[graph](net).eval() for graph in HEADS[name]}

    @property
    def name(self) -> str:
        return self._called

    @torch.inference_mode()
    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        outputs = self._stages[graph](*(torch.as_tensor(value).to(self.device) for value in inputs))
        return [
            output if name in ON_DEVICE else output.cpu().numpy()
            for name, output in zip(GRAPHS[graph].outputs, outputs, strict=True)
        ]

    @torch.inference_mode()
    def read_words(self, tokens: Tokens, mask: Floats) -> Floats:
        if "words" not in self._stages:  # a folder's head
            return super().read_words(tokens, mask)
        net = self._stages["words"].net
        assert isinstance(net, AlignmentNet)
        parts = []
        for some_tokens, some_mask in zip(_parts(tokens), _parts(mask), strict=True):
            device_tokens = torch.as_tensor(some_tokens).to(self.device)
            device_mask = torch.as_tensor(some_mask).to(self.device)
            parts.append(net.words(device_tokens, device_mask))
        vectors: Floats = torch.cat(parts).cpu().numpy()
        return vectors

    def code_size(self) -> int:
        return self._code_size


def _parts(rows: NDArray[Any]) -> list[NDArray[Any]]:
    return [
        rows[start : start + SENTENCES_AT_ONCE] for start in range(0, len(rows), SENTENCES_AT_ONCE)
    ]


class TorchRuntime(TorchHeads):
    """A network in torch, on the device it is on: for checkpoints, CUDA, and to compare an export
    with.

    `heads` run in torch as well. Those of a model `folder` run in ONNX Runtime on the CPU, in a few
    milliseconds: exporting folds their weights, so the nets cannot be restored from the folder.
    """

    def __init__(
        self,
        net: FCLN,
        words: Vocabulary,
        info: ModelInfo,
        heads: Mapping[str, TorchHead] | None = None,
        folder: ModelFolder | None = None,
    ) -> None:
        super().__init__(heads or {}, next(net.parameters()).device)
        self.words = words
        self.info = info
        self._stages |= {name: STAGES[name](net).eval() for name in DETECTOR}
        self._code_size = net.config.recognition.code + net.backbone.deep_channels
        self._folder_graphs: OnnxGraphs | None = None
        if folder is not None:
            self.names = folder.names
            self.colours = folder.colours
            self.background = folder.background
            self.detector = folder.detector
            self.heads = {**folder.heads, **self.heads}
            self._folder_graphs = OnnxGraphs(folder.path, head_graphs(folder))

    @property
    def name(self) -> str:
        return self.info.name

    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        if graph in self._stages:
            return super().run(graph, *inputs)
        assert self._folder_graphs is not None, f"{graph}: call `head` first"
        return self._folder_graphs.run(graph, *inputs)

    def nms(self, ranked_xyxy: Floats, threshold: float, limit: int) -> NDArray[np.intp]:
        if self.device.type == "cpu":
            return super().nms(ranked_xyxy, threshold, limit)
        places, counts = Suppression(threshold, limit)(
            torch.as_tensor(ranked_xyxy).to(self.device)[None]
        )
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
