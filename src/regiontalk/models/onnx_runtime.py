"""A model folder in ONNX Runtime: on the CPU, or with another of its providers."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from regiontalk.errors import ModelError, UsageError
from regiontalk.models.folder import GRAPHS, ModelFolder, read_model_folder
from regiontalk.models.providers import (
    CPU,
    CPU_PROVIDER,
    PROVIDERS,
    available,
    why_not,
    why_not_graph,
)
from regiontalk.models.runtime import Floats, Proposed, Runtime

THREADS = "REGIONTALK_THREADS"
TRIED_SIZE = (64, 64)  # pixels of a photo that a provider is tried with
GREY_INPUT = 127.0
MOST_OF_A_REASON = 120  # letters; some providers write pages
_NO_MEMORY = re.compile(
    "bad_alloc|bad allocation|[Ff]ailed to allocate memory|pthread_create failed"
)


class OnnxGraphs:
    """Graphs of a model folder; each is opened when it is run for the first time."""

    def __init__(
        self,
        folder: Path,
        graphs: Mapping[str, bytes],
        threads: int | None = None,
        device: str = CPU,
        tell: Callable[[str], object] = warnings.warn,
    ) -> None:
        self._folder = folder
        self._graphs = graphs
        self._threads = _threads(threads)
        self._tell = tell
        problem = None if device == CPU else why_not(device, available())
        if problem is not None:
            tell(problem)
        self._device = CPU if problem else device
        self._sessions: dict[str, Any] = {}

    def open(self, name: str) -> Any:
        if name not in self._sessions:
            self._sessions[name] = self._opened(name)
        return self._sessions[name]

    def _opened(self, name: str) -> Any:
        path = self._folder / f"{name}.onnx"
        graph = self._graphs[name]
        if self._device != CPU:
            try:
                providers = [PROVIDERS[self._device], CPU_PROVIDER]
                return _open_session(path, graph, self._threads, providers)
            except ModelError as error:
                reason = error.message.partition(": onnxruntime cannot load it: ")[2]
                if not reason:  # not the provider's fault
                    raise
                self._tell(why_not_graph(self._device, name, _shortened(reason)))
        return _open_session(path, graph, self._threads, [CPU_PROVIDER])

    def check(self, name: str, *inputs: Any) -> None:
        """Lets the CPU run a graph for which the provider gives answers of other shapes than the
        CPU, or answers that are no numbers."""
        if self._device == CPU:
            return
        outputs = self.run(name, *inputs)
        by_provider = self._sessions[name]
        path = self._folder / f"{name}.onnx"
        by_cpu = _open_session(path, self._graphs[name], self._threads, [CPU_PROVIDER])
        self._sessions[name] = by_cpu
        expected = self.run(name, *inputs)
        shapes = [part.shape for part in outputs] == [part.shape for part in expected]
        if shapes and all(np.isfinite(part).all() for part in outputs):
            self._sessions[name] = by_provider
        else:
            self._tell(why_not_graph(self._device, name, "its answers are not those of the CPU"))

    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        session = self._sessions.get(graph)
        if session is None:
            session = self.open(graph)
        try:
            outputs: Sequence[Any] = session.run(
                None, dict(zip(GRAPHS[graph].inputs, inputs, strict=True))
            )
        except Exception as error:
            raise _refused(self._folder / f"{graph}.onnx", "run", error) from error
        return outputs


class OnnxRuntime(OnnxGraphs, Runtime):
    """`threads`: how many cores a graph may use (default: the environment's REGIONTALK_THREADS,
    else all). `device`: one of `providers.PROVIDERS`, or the CPU; what it cannot run, the CPU does,
    and `tell` gets a sentence about it.

    `lazily`: also open the detector's graphs when they are first run, like the heads'. Some
    programs need none of them.
    """

    def __init__(
        self,
        folder: Path,
        threads: int | None = None,
        lazily: bool = False,
        device: str = CPU,
        tell: Callable[[str], object] = warnings.warn,
    ) -> None:
        model = read_model_folder(folder)  # before onnxruntime sees a byte
        self.info = model.info
        self.words = model.words
        self.heads = model.heads
        self.names = model.names
        self.colours = model.colours
        self.background = model.background
        self.detector = model.detector
        graphs = {**model.graphs, **head_graphs(model)}
        super().__init__(folder, graphs, threads, device, tell)
        self._is_checked = False
        if not lazily:
            self._open_detector()

    def _open_detector(self) -> None:
        for name in ("propose", "recognize", "step"):
            self.open(name)
        grey = np.full((1, 3, *TRIED_SIZE), GREY_INPUT, dtype=np.float32)
        self.check("propose", grey, np.array([TRIED_SIZE], dtype=np.float32))
        tokens = self.open("step").get_outputs()[0].shape[1]
        if tokens != len(self.words):
            raise ModelError(
                f"{self._folder}: step.onnx knows {tokens} tokens, the vocabulary {len(self.words)}"
            )
        self._is_checked = True

    def propose(self, image: Floats, size: tuple[int, int]) -> Proposed:
        if not self._is_checked:
            self._open_detector()
        return super().propose(image, size)

    def code_size(self) -> int:
        return int(self.open("sentence_begin").get_inputs()[0].shape[-1])


def head_graphs(model: ModelFolder) -> dict[str, bytes]:
    """The graphs of all heads by name."""
    return dict(chain.from_iterable(head.graphs.items() for head in model.heads.values()))


def _open_session(path: Path, graph: bytes, threads: int, providers: Sequence[str]) -> Any:
    os.environ["ORT_DISABLE_TELEMETRY"] = (
        "1"  # since 1.29 it would send usage data over the network
    )
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The graphs run in turns: spinning threads of one would take cores from the next.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 3  # errors are raised; nothing should be printed to stderr
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=list(providers))
    except Exception as error:
        raise _refused(path, "load", error) from error
    # An input that a model does not use is still in its graph.
    takes = tuple(port.name for port in session.get_inputs())
    gives = tuple(port.name for port in session.get_outputs())
    if (takes, gives) != GRAPHS[path.stem]:
        raise ModelError(f"{path}: not the graph {path.stem!r}: it takes {takes} and gives {gives}")
    return session


def _refused(path: Path, what: str, error: Exception) -> ModelError | MemoryError:
    """onnxruntime's exception classes have no common base class, and none for a lack of memory."""
    reason = str(error).strip().partition("\n")[0]
    if isinstance(error, MemoryError) or _NO_MEMORY.search(reason):
        return MemoryError(reason)
    return ModelError(f"{path}: onnxruntime cannot {what} it: {reason}")


def _shortened(reason: str) -> str:
    return reason if len(reason) <= MOST_OF_A_REASON else f"{reason[:MOST_OF_A_REASON]} ..."


def _threads(given: int | None) -> int:
    """How many threads to use; for onnxruntime, 0 means all cores."""
    text = os.environ.get(THREADS, "0") if given is None else str(given)
    if not text.isdecimal():
        raise UsageError(f"threads must be an integer from 0 (all cores), not {text!r}")
    return int(text)
