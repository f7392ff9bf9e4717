"""What runs a model's graphs, numpy in and numpy out.

`onnx.OnnxRuntime` runs a model folder and is what ships; `torch.TorchRuntime` runs a network in torch, on any device.
They differ in how a graph is run and in nothing else: what is done with the results is in `regions`.

Shapes: C channels, A those of the deep map, h × w feature cells, K proposals, B regions, D the size of a code, R rows
of decoding, H the size of the LSTM's state, E of what it sees, V tokens. Boxes are pixels of the network's input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes
from regiontalk.errors import ModelError
from regiontalk.model_folder import Head, ModelInfo
from regiontalk.vocabulary import Vocabulary

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]
State = tuple[Floats, ...]
"""The language model's h (R, H), c (R, H) and what it sees of the region (R, E)."""

PURPOSES = {"words": "align sentences with regions", "sentence": "describe whole photos"}


class Proposed(NamedTuple):
    features: Any
    """(1, C, h, w), in whatever form the runtime keeps it; to be handed back to `recognize`."""
    deep: Any
    """(1, A, h, w), the same; to be handed back to `appear`."""
    boxes_xyxy: Floats
    """(K, 4) every proposal, cut to the photo; eqs. 1–2."""
    logits: Floats
    """(K,)"""


class Recognized(NamedTuple):
    boxes_xyxy: Floats
    """(B, 4) refined, cut to the photo."""
    logits: Floats
    """(B,)"""
    codes: Floats
    """(B, D)"""
    state: State
    """The language model's state before START."""


class Runtime(ABC):
    """Runs graphs by name (`model_folder.GRAPHS`). `image` is (1, 3, H, W) as `images.to_input` makes it, `size` its
    photo's (width, height) without the padding.
    """

    info: ModelInfo
    words: Vocabulary
    heads: Mapping[str, Head]

    @abstractmethod
    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        """A graph's outputs, in the order of the table."""

    @abstractmethod
    def code_size(self) -> int:
        """D + A: what the head `sentence` reads of a region."""

    def head(self, name: str) -> Head:
        """A head of the model; `ModelError` where it has none of that name."""
        if name not in self.heads:
            raise ModelError(
                f"the model {self.info.name!r} has no head {name!r}: it cannot {PURPOSES[name]}",
                hint="regiontalk export MODEL OUT --add HEAD_CHECKPOINT adds one",
            )
        return self.heads[name]

    def propose(self, image: Floats, size: tuple[int, int]) -> Proposed:
        return Proposed(*self.run("propose", image, _size(size)))

    def recognize(self, features: Any, size: tuple[int, int], boxes_xyxy: Floats) -> Recognized:
        refined, logits, codes, *state = self.run("recognize", features, _size(size), boxes_xyxy)
        return Recognized(refined, logits, codes, tuple(state))

    def appear(self, deep: Any, boxes_xyxy: Floats) -> Floats:
        """What regions (B, 4) look like, (B, A): heads see it beside the codes."""
        (appearance,) = self.run("appear", deep, boxes_xyxy)
        return np.asarray(appearance)

    def step(self, tokens: Tokens, state: State) -> tuple[Floats, State]:
        """One word on: tokens (R,) -> log-probabilities of what follows (R, V), and the new state."""
        logprobs, h, c = self.run("step", tokens, *state)
        return logprobs, (h, c, state[2])

    def nms(self, ranked_xyxy: Floats, threshold: float, limit: int) -> NDArray[np.intp]:
        """The places of boxes (K, 4), best first, that survive NMS; a runtime may know a faster way."""
        return boxes.nms(ranked_xyxy, -np.arange(len(ranked_xyxy)), threshold, limit)


def _size(size: tuple[int, int]) -> Floats:
    return np.array([size], dtype=np.float32)
