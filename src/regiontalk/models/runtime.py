"""Runtimes run a model's graphs, numpy in and numpy out.

`onnx_runtime.OnnxRuntime` runs a model folder and is the default; `torch_runtime.TorchRuntime` runs
a network in torch, on any device. They differ only in how a graph is run. The code that uses the
results is in `inference`.

Shapes: C channels, A those of the deep map, h × w feature cells, K proposals, B regions, D the size
of a code, R rows of decoding, H the size of the LSTM's state, E of its region input, V tokens.
Boxes are pixels of the network's input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes
from regiontalk.errors import ModelError
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.folder import Head, ModelInfo
from regiontalk.models.name_table import NameTable

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]
State = tuple[Floats, ...]
"""The language model's h (R, H), c (R, H) and its input for the region (R, E)."""

PURPOSES = {"words": "align sentences with regions", "sentence": "describe whole photos"}


class Proposed(NamedTuple):
    features: Any
    """(1, C, h, w), in the runtime's own format; an argument of `recognize`."""
    deep: Any
    """(1, A, h, w), in the runtime's own format; an argument of `pooled_features`."""
    boxes_xyxy: Floats
    """(K, 4) all proposals' boxes, clipped to the photo; eqs. 1–2."""
    logits: Floats
    """(K,) the localization layer's logits."""


class Recognized(NamedTuple):
    boxes_xyxy: Floats
    """(B, 4) the refined boxes, clipped to the photo."""
    logits: Floats
    """(B,) the recognition network's logits."""
    codes: Floats
    """(B, D) the recognition network's codes."""
    state: State
    """The language model's state before START."""


class Runtime(ABC):
    """Runs graphs by name (`folder.GRAPHS`). `image` is (1, 3, H, W) as `images.photo.to_input`
    makes it, `size` its photo's (width, height) without the padding.
    """

    info: ModelInfo
    words: Vocabulary
    heads: Mapping[str, Head]
    names: NameTable | None = None
    """What it can call things; None where no names were fitted."""
    colours: NameTable | None = None
    """Tells which colours a region has; None where it was not fitted."""
    detector: str = ""
    """`folder.detector_fingerprint` of the graphs that compute its region codes."""
    background: bytes | None = None
    """The model folder's file of what taught words must differ from."""

    @abstractmethod
    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        """A graph's outputs, in the order of the table."""

    @abstractmethod
    def code_size(self) -> int:
        """D + A: the size of a region's code for the head `sentence`."""

    @property
    def name(self) -> str:
        """The model's name, for messages."""
        return self.info.name

    def head(self, name: str) -> Head:
        """A head of the model; raises `ModelError` if it has no head of that name."""
        if name not in self.heads:
            raise ModelError(
                f"the model {self.name!r} has no head {name!r}: it cannot {PURPOSES[name]}",
                hint="regiontalk export MODEL OUT --add HEAD_CHECKPOINT adds one",
            )
        return self.heads[name]

    def propose(self, image: Floats, size: tuple[int, int]) -> Proposed:
        return Proposed(*self.run("propose", image, _size(size)))

    def recognize(self, features: Any, size: tuple[int, int], boxes_xyxy: Floats) -> Recognized:
        refined, logits, codes, *state = self.run("recognize", features, _size(size), boxes_xyxy)
        return Recognized(refined, logits, codes, tuple(state))

    def pooled_features(self, deep: Any, boxes_xyxy: Floats) -> Floats:
        """The appearance (B, A) of regions (B, 4), a part of the heads' input."""
        (appearance,) = self.run("appear", deep, boxes_xyxy)
        return np.asarray(appearance)

    def step(self, tokens: Tokens, state: State) -> tuple[Floats, State]:
        """One decoding step: tokens (R,) -> log-probabilities of what follows (R, V), and the new
        state."""
        logprobs, h, c = self.run("step", tokens, *state)
        return logprobs, (h, c, state[2])

    def read_words(self, tokens: Tokens, mask: Floats) -> Floats:
        """The alignment head's vectors (L, T, h) of L sentences: tokens (L, T), mask (L, T). A
        runtime may read them together."""
        vectors = [
            self.run("words", tokens[row : row + 1], mask[row : row + 1])[0]
            for row in range(len(tokens))
        ]
        return np.stack(vectors)

    def nms(self, ranked_xyxy: Floats, threshold: float, limit: int) -> NDArray[np.intp]:
        """The indices of boxes (K, 4), best first, that survive NMS; a runtime may have a faster
        implementation."""
        return boxes.nms(ranked_xyxy, -np.arange(len(ranked_xyxy)), threshold, limit)


def _size(size: tuple[int, int]) -> Floats:
    return np.array([size], dtype=np.float32)
