"""A checkpoint into a model folder: its stages as ONNX graphs, its weights stored as small as asked for.

Weights can be stored smaller than they are used: the graph expands them to float32, and ONNX Runtime does so
once, as it loads them. A photo takes as long as with float32, and nothing but the weights is rounded:

- `float32`: as trained.
- `float16`: half the size.
- `int8`: matrices a quarter, every row with a scale of its own; convolutions half, as float16, because
  their depthwise filters suffer from 8 bits.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor, nn

from regiontalk.errors import ModelError
from regiontalk.model_folder import check_free, write_model_folder
from regiontalk.nets.backbones import STRIDE
from regiontalk.nets.fcln import FCLN
from regiontalk.runtime import PORTS
from regiontalk.training.checkpoints import read_state
from regiontalk.training.fcln import load_net
from regiontalk.training.torch_runtime import Propose, Recognize, Step, describe

Stored = tuple[list[onnx.TensorProto], list[onnx.NodeProto]]
"""Small initialisers, and the nodes that make the weight of them."""

OPSET = 18
SMALLEST_STORED = 256  # values; what is smaller is not worth the rounding
CELLS = (6, 8)  # h × w of the feature map that the stages are traced with; any other works as well


def export_model(
    checkpoint: Path, out: Path, name: str, precision: str = "float32", settings: dict[str, Any] | None = None
) -> None:
    """Writes the model folder `out`; `settings` overrule the recipe's prediction settings."""
    check_free(out)
    net, words, recipe = load_net(checkpoint, torch.device("cpu"))
    recipe = replace(recipe, prediction=replace(recipe.prediction, **(settings or {})))
    info = describe(net, recipe, name, precision, {"step": read_state(checkpoint)["step"]})
    graphs = trace(net)
    for graph in graphs.values():
        shrink(graph, precision)
    write_model_folder(out, info, words, {stage: graph.SerializeToString() for stage, graph in graphs.items()})


def trace(net: FCLN) -> dict[str, onnx.ModelProto]:
    """The stages as graphs with float32 weights, for inputs of any height, width and number of rows."""
    propose, recognize, step = Propose(net).eval(), Recognize(net).eval(), Step(net).eval()
    height, width = (cells * STRIDE for cells in CELLS)
    image = torch.full((1, 3, height, width), 127.0)
    size = torch.tensor([[float(width), float(height)]])
    with torch.inference_mode():
        features, boxes, _ = propose(image, size)
        boxes = boxes[:3]
        *_, h, c, seen = recognize(features, size, boxes)
    tokens = torch.tensor([0, 1, 2])
    plane, rows = {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC}
    return {
        "propose": _to_onnx("propose", propose, (image, size), (plane, {})),
        "recognize": _to_onnx("recognize", recognize, (features, size, boxes), (plane, {}, rows)),
        "step": _to_onnx("step", step, (tokens, h, c, seen), (rows, rows, rows, rows)),
    }


def _to_onnx(
    stage: str, module: nn.Module, example: tuple[Tensor, ...], dynamic: tuple[dict[int, Any], ...]
) -> onnx.ModelProto:
    inputs, outputs = PORTS[stage]
    example = tuple(value.clone() for value in example)  # tensors of inference mode cannot be traced
    with _quiet_exporter():
        program = torch.onnx.export(
            module,
            example,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=dynamic,
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program.model_proto


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """The exporter's own deprecations, and its word that torchvision is not there, help nobody."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        log.setLevel(level)


def shrink(graph: onnx.ModelProto, precision: str) -> None:
    """Stores the graph's matrices and filters in `precision`, in place."""
    store = PRECISIONS[precision]
    if store is None:
        return
    initializers, nodes = [], []
    for tensor in graph.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.ndim < 2 or values.size < SMALLEST_STORED:
            initializers.append(tensor)
            continue
        if not np.isfinite(values).all():
            raise ModelError(f"the weight {tensor.name} is not finite")
        stored, expansion = store(tensor.name, values)
        initializers += stored
        nodes += expansion
    nodes += graph.graph.node
    del graph.graph.initializer[:], graph.graph.node[:]
    graph.graph.initializer.extend(initializers)
    graph.graph.node.extend(nodes)


def _as_float16(name: str, values: NDArray[np.float32]) -> Stored:
    largest = np.finfo(np.float16).max
    if np.abs(values).max() > largest:
        raise ModelError(f"the weight {name} does not fit into float16", hint="--precision float32")
    stored = numpy_helper.from_array(values.astype(np.float16), f"{name}.stored")
    return [stored], [helper.make_node("Cast", [stored.name], [name], to=onnx.TensorProto.FLOAT)]


def _as_int8(name: str, values: NDArray[np.float32]) -> Stored:
    """A matrix: value ≈ scale of its row · integer from −127 to 127. Convolutions: float16."""
    if values.ndim > 2:
        return _as_float16(name, values)
    largest = np.abs(values).max(axis=1, keepdims=True)
    scale = (np.maximum(largest, 1e-12) / 127).astype(np.float32)
    stored = numpy_helper.from_array(np.rint(values / scale).astype(np.int8), f"{name}.stored")
    factor = numpy_helper.from_array(scale, f"{name}.scale")
    expansion = [
        helper.make_node("Cast", [stored.name], [f"{name}.integers"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}.integers", factor.name], [name]),
    ]
    return [stored, factor], expansion


PRECISIONS: dict[str, Callable[[str, NDArray[np.float32]], Stored] | None] = {
    "float32": None,
    "float16": _as_float16,
    "int8": _as_int8,
}
