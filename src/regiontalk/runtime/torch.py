"""The FCLN's stages as modules, in the shapes that are exported, and the torch form of `runtime.Runtime`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regiontalk.model_folder import INFO, Head, ModelInfo, read_model_folder
from regiontalk.nets.fcln import FCLN
from regiontalk.nets.localization import clip_boxes
from regiontalk.runtime import Floats, Proposed, Recognized, State, Tokens, named_head
from regiontalk.training.checkpoints import find_checkpoint, load_fcln
from regiontalk.training.recipe import FCLNRecipe, to_dict
from regiontalk.vocabulary import Vocabulary


class Propose(nn.Module):
    """image (1, 3, H, W), size (1, 2) -> features (1, C, h, w), deep (1, A, h, w), boxes (K, 4), logits (K,)."""

    def __init__(self, net: FCLN) -> None:
        super().__init__()
        self.net = net

    def forward(self, image: Tensor, size: Tensor) -> tuple[Tensor, ...]:
        features, deep = self.net.backbone.maps(image)
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

    def forward(self, deep: Tensor, boxes_xyxy: Tensor) -> Tensor:
        return self.net.appear(deep, boxes_xyxy[None])


class Step(nn.Module):
    """tokens (R,), h, c, seen -> log-probabilities (R, V), h, c."""

    def __init__(self, net: FCLN) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, h: Tensor, c: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        return self.net.language.step(tokens, h, c, seen)


class TorchRuntime:
    """A network in torch, on any device: for evaluation, CUDA, and to compare an export with.

    `place` is a run's folder, a checkpoint, or a model folder.
    """

    def __init__(self, place: Path, device: str = "cpu") -> None:
        self.device = torch.device(device)
        opened = _open_model_folder(place) if (place / INFO).exists() else _open_checkpoint(find_checkpoint(place))
        net, self.words, self.info = opened
        net.to(self.device)
        self._propose, self._recognize, self._step = Propose(net).eval(), Recognize(net).eval(), Step(net).eval()
        self._appear = Appear(net).eval()

    def propose(self, image: Floats, size: tuple[int, int]) -> Proposed:
        features, deep, boxes, logits = self._run(self._propose, image, np.array([size], np.float32))
        return Proposed(features, deep, boxes.cpu().numpy(), logits.cpu().numpy())

    def recognize(self, features: Any, size: tuple[int, int], boxes_xyxy: Floats) -> Recognized:
        outputs = self._run(self._recognize, features, np.array([size], np.float32), boxes_xyxy)
        boxes, logits, codes, *state = (output.cpu().numpy() for output in outputs)
        return Recognized(boxes, logits, codes, tuple(state))

    def appear(self, deep: Any, boxes_xyxy: Floats) -> Floats:
        appearance: Floats = self._run(self._appear, deep, boxes_xyxy).cpu().numpy()
        return appearance

    def step(self, tokens: Tokens, state: State) -> tuple[Floats, State]:
        logprobs, h, c = (output.cpu().numpy() for output in self._run(self._step, tokens, *state))
        return logprobs, (h, c, state[2])

    def head(self, name: str) -> Head:
        """A checkpoint of the network carries none."""
        return named_head({}, name, self.info.name)

    def run_head(self, graph: str, *_: NDArray[Any]) -> Sequence[Any]:
        raise AssertionError(f"{graph}: `head` was not asked first")

    @torch.inference_mode()
    def _run(self, stage: nn.Module, *inputs: NDArray[Any] | Tensor) -> Any:
        return stage(*(torch.as_tensor(value).to(self.device) for value in inputs))


def _open_checkpoint(checkpoint: Path) -> tuple[FCLN, Vocabulary, ModelInfo]:
    trained = load_fcln(checkpoint)
    info = describe(trained.net, trained.recipe, checkpoint.name, "float32", {"step": trained.state["step"]})
    return trained.net, trained.words, info


def _open_model_folder(folder: Path) -> tuple[FCLN, Vocabulary, ModelInfo]:
    from regiontalk.export.pretrained import load_pretrained  # which needs onnx, and a checkpoint does not

    pretrained = load_pretrained(str(folder))
    return pretrained.net, pretrained.words, read_model_folder(folder).info


def describe(net: FCLN, recipe: FCLNRecipe, name: str, precision: str, training: dict[str, Any]) -> ModelInfo:
    """A network as `model.json` describes it."""
    return ModelInfo(
        name=name,
        kind="fcln",
        precision=precision,
        input_size=net.config.input_size,
        pad_to=net.pad_to,
        prediction=recipe.prediction,
        net=to_dict(net.config),
        training=training,
    )
