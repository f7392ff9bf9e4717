"""The network's stages, numpy in and numpy out: the `Runtime` protocol, and its ONNX Runtime form.

Shapes: C channels, A those of the deep map, h × w feature cells, K proposals, B regions, D the size of a code, R rows
of decoding, H the size of the LSTM's state, E of what it sees, V tokens. Boxes are pixels of the network's input.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import ModelError, UsageError
from regiontalk.model_folder import Head, ModelInfo, read_model_folder
from regiontalk.vocabulary import Vocabulary

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]
State = tuple[Floats, ...]
"""The language model's h (R, H), c (R, H) and what it sees of the region (R, E)."""

THREADS = "REGIONTALK_THREADS"

# What each graph takes and gives, in order.
PORTS = {
    "propose": (("image", "size"), ("features", "deep", "boxes_xyxy", "logits")),
    "recognize": (
        ("features", "size", "boxes_xyxy"),
        ("refined_xyxy", "logits", "codes", "h", "c", "seen"),
    ),
    "step": (("tokens", "h", "c", "seen"), ("logprobs", "next_h", "next_c")),
    "appear": (("deep", "boxes_xyxy"), ("appearance",)),
}
# The same for the graphs of heads (`model_folder.HEADS`).
HEAD_PORTS = {
    "vectors": (("codes",), ("vectors",)),
    "words": (("tokens", "mask"), ("vectors",)),
    "sentence_begin": (("views", "regions", "places"), ("h", "c", "bias", "memory", "absent")),
    "sentence_step": (
        ("tokens", "h", "c", "bias", "memory", "absent"),
        ("logprobs", "next_h", "next_c", "next_bias"),
    ),
}


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


class Runtime(Protocol):
    """What `captioner` drives. `image` is (1, 3, H, W) as `images.to_input` makes it, `size` its photo's
    (width, height) without the padding.
    """

    info: ModelInfo
    words: Vocabulary

    def propose(self, image: Floats, size: tuple[int, int]) -> Proposed: ...

    def recognize(self, features: Any, size: tuple[int, int], boxes_xyxy: Floats) -> Recognized: ...

    def appear(self, deep: Any, boxes_xyxy: Floats) -> Floats:
        """What regions (B, 4) look like, (B, A): for heads, which see it beside the codes."""
        ...

    def step(self, tokens: Tokens, state: State) -> tuple[Floats, State]:
        """One word on: tokens (R,) -> log-probabilities of what follows (R, V), and the new state."""
        ...

    def head(self, name: str) -> Head:
        """A head of the model; `ModelError` where it has none of that name."""
        ...

    def run_head(self, graph: str, *inputs: NDArray[Any]) -> Sequence[Any]:
        """A graph of a head: arrays in the order of `HEAD_PORTS` in, arrays out."""
        ...


class OnnxRuntime:
    """A model folder in ONNX Runtime on the CPU. `threads`: how many cores a stage may use (default: the
    environment's REGIONTALK_THREADS, else all).
    """

    def __init__(self, folder: Path, threads: int | None = None) -> None:
        count = _threads(threads)
        model = read_model_folder(folder)  # before onnxruntime sees a byte
        self.info, self.words = model.info, model.words
        self._model, self._threads = model, count
        self._sessions: dict[str, Any] = {}
        for name in ("propose", "recognize", "step"):
            self._open(name, model.graphs[name], PORTS[name])
        tokens = self._sessions["step"].get_outputs()[0].shape[1]
        if tokens != len(self.words):
            raise ModelError(f"{folder}: step.onnx knows {tokens} tokens, the vocabulary {len(self.words)}")

    def propose(self, image: Floats, size: tuple[int, int]) -> Proposed:
        return Proposed(*self._run("propose", image, _size(size)))

    def recognize(self, features: Any, size: tuple[int, int], boxes_xyxy: Floats) -> Recognized:
        boxes, logits, codes, *state = self._run("recognize", features, _size(size), boxes_xyxy)
        return Recognized(boxes, logits, codes, tuple(state))

    def appear(self, deep: Any, boxes_xyxy: Floats) -> Floats:
        if "appear" not in self._sessions:  # nor does a caption need it
            self._open("appear", self._model.graphs["appear"], PORTS["appear"])
        appearance: Floats = self._run("appear", deep, boxes_xyxy)[0]
        return appearance

    def step(self, tokens: Tokens, state: State) -> tuple[Floats, State]:
        logprobs, h, c = self._run("step", tokens, *state)
        return logprobs, (h, c, state[2])

    def head(self, name: str) -> Head:
        return named_head(self._model.heads, name, self.info.name)

    def run_head(self, graph: str, *inputs: NDArray[Any]) -> Sequence[Any]:
        if graph not in self._sessions:  # captions do without heads: none is opened before it is asked for
            data = next(head.graphs[graph] for head in self._model.heads.values() if graph in head.graphs)
            self._open(graph, data, HEAD_PORTS[graph])
        given = dict(zip(HEAD_PORTS[graph][0], inputs, strict=True))
        outputs: Sequence[Any] = self._sessions[graph].run(None, given)
        return outputs

    def _open(self, name: str, graph: bytes, ports: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        self._sessions[name] = _open_session(self._model.path, name, graph, ports, self._threads)

    def _run(self, name: str, *inputs: NDArray[Any]) -> Sequence[Any]:
        given = dict(zip(PORTS[name][0], inputs, strict=True))
        outputs: Sequence[Any] = self._sessions[name].run(None, given)
        return outputs


def named_head(heads: Mapping[str, Head], name: str, model: str) -> Head:
    if name not in heads:
        purpose = {"words": "align sentences with regions", "sentence": "describe whole photos"}[name]
        raise ModelError(
            f"the model {model!r} has no head {name!r}: it cannot {purpose}",
            hint="regiontalk export MODEL OUT --add HEAD_CHECKPOINT adds one",
        )
    return heads[name]


def _open_session(
    folder: Path, name: str, graph: bytes, ports: tuple[tuple[str, ...], tuple[str, ...]], threads: int
) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The stages take turns: threads of one that spin while they wait take cores from the next one's.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # what goes wrong is raised; stderr is not onnxruntime's
    place = folder / f"{name}.onnx"
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception class for each status, with no base of their own
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{place}: onnxruntime cannot load it: {reason}") from error
    # An input that a model has no use for is still there in its graph.
    found = tuple(tuple(port.name for port in ports) for ports in (session.get_inputs(), session.get_outputs()))
    if found != ports:
        raise ModelError(f"{place}: not the graph {name!r}: it takes {found[0]} and gives {found[1]}")
    return session


def _size(size: tuple[int, int]) -> Floats:
    return np.array([size], dtype=np.float32)


def _threads(given: int | None) -> int:
    """0 is onnxruntime's word for as many as there are cores."""
    text = os.environ.get(THREADS, "0") if given is None else str(given)
    if not text.isdecimal():
        raise UsageError(f"threads must be a whole number of 0 (all cores) or more, not {text!r}")
    return int(text)
