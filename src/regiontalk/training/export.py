"""A checkpoint into a model folder: its stages as ONNX graphs, its weights stored as small as asked for.

Precisions:

- `float32`: as trained.
- `float16`: weights stored as float16, half the size. The graph expands them to float32, and ONNX Runtime
  does so once, as it loads them: a photo takes as long as with float32, and nothing but weights is rounded.
- `int8-stored`: in the same way, but large matrices as 8-bit integers with a scale for every row.
- `int8`: large matrices are multiplied in 8-bit integers too, which is faster. Their inputs are rounded as
  well, with one scale for all regions at hand, so that a region's words may depend on the others'.

Convolutions are float16 in both of the latter: their depthwise filters suffer from 8 bits.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
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
from regiontalk.model_folder import Head, check_free, check_head, read_model_folder, write_model_folder
from regiontalk.nets.backbones import STRIDE
from regiontalk.nets.fcln import FCLN
from regiontalk.runtime import PORTS
from regiontalk.training.checkpoints import read_state
from regiontalk.training.fcln import load_net
from regiontalk.training.torch_runtime import Propose, Recognize, Step, describe

Stored = tuple[list[onnx.TensorProto], list[onnx.NodeProto]]
"""Small initialisers, and the nodes that make the weight of them."""

OPSET = 18
SMALLEST_HALF = 256  # values; what is smaller is not worth the rounding
SMALLEST_INT8 = 8  # rows and columns; the few rows that make scores and boxes need more than 8 bits
CELLS = (6, 8)  # h × w of the feature map that the stages are traced with; any other works as well


def export_model(
    checkpoint: Path,
    out: Path,
    name: str,
    precision: str = "float32",
    settings: dict[str, Any] | None = None,
    heads: Mapping[str, Head] | None = None,
) -> None:
    """Writes the model folder `out`; `settings` overrule the recipe's prediction settings."""
    check_free(out)
    net, words, recipe = load_net(checkpoint, torch.device("cpu"))
    recipe = replace(recipe, prediction=replace(recipe.prediction, **(settings or {})))
    info = describe(net, recipe, name, precision, {"step": read_state(checkpoint)["step"]})
    graphs = {stage: shrink(graph, precision).SerializeToString() for stage, graph in trace(net).items()}
    for head, added in (heads or {}).items():
        check_head(head, added.info, graphs, str(out))
    write_model_folder(out, info, words, graphs, heads)


def add_heads(folder: Path, out: Path, name: str, heads: Mapping[str, Head]) -> None:
    """Writes a copy of the model `folder` with `heads` beside those it has, or in their place."""
    check_free(out)
    model = read_model_folder(folder)
    for head, added in heads.items():
        check_head(head, added.info, model.graphs, str(folder))
    info = replace(model.info, name=name)
    write_model_folder(out, info, model.words, model.graphs, {**model.heads, **heads})


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
        "propose": to_onnx(PORTS["propose"], propose, (image, size), (plane, {})),
        "recognize": to_onnx(PORTS["recognize"], recognize, (features, size, boxes), (plane, {}, rows)),
        "step": to_onnx(PORTS["step"], step, (tokens, h, c, seen), (rows, rows, rows, rows)),
    }


def to_onnx(
    ports: tuple[tuple[str, ...], tuple[str, ...]],
    module: nn.Module,
    example: tuple[Tensor, ...],
    dynamic: tuple[dict[int, Any], ...],
) -> onnx.ModelProto:
    """A module as a graph; `ports` name what it takes and gives, `dynamic` the axes of each input that may change."""
    inputs, outputs = ports
    example = tuple(value.clone() for value in example)  # tensors of inference mode cannot be traced
    with _quiet("torch.onnx"):  # it misses torchvision, and uses what torch has deprecated
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
    return _without_traces(program.model_proto)


def _without_traces(graph: onnx.ModelProto) -> onnx.ModelProto:
    """Without what the exporter notes of where each node came from: source lines and folders of this machine."""
    inner = graph.graph
    for part in (graph, inner, *inner.node, *inner.initializer, *inner.input, *inner.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    del inner.value_info[:]
    return graph


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without warnings about other people's code."""
    log = logging.getLogger(name)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        log.setLevel(level)


def shrink(graph: onnx.ModelProto, precision: str) -> onnx.ModelProto:
    """The graph with its matrices and filters in `precision`."""
    if precision == "float32":
        return graph
    if precision == "int8":
        graph = _multiply_in_int8(graph)
    initializers, nodes = [], []
    for tensor in graph.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.ndim < 2 or values.size < SMALLEST_HALF:
            initializers.append(tensor)
            continue
        if not np.isfinite(values).all():
            raise ModelError(f"the weight {tensor.name} is not finite")
        as_integers = precision == "int8-stored" and _is_large_matrix(tensor)
        stored, expansion = (_as_int8 if as_integers else _as_float16)(tensor.name, values)
        initializers += stored
        nodes += expansion
    nodes += graph.graph.node
    del graph.graph.initializer[:], graph.graph.node[:]
    graph.graph.initializer.extend(initializers)
    graph.graph.node.extend(nodes)
    return graph


def _is_large_matrix(tensor: onnx.TensorProto) -> bool:
    return len(tensor.dims) == 2 and min(tensor.dims) >= SMALLEST_INT8


def _as_float16(name: str, values: NDArray[np.float32]) -> Stored:
    if np.abs(values).max() > np.finfo(np.float16).max:
        raise ModelError(f"the weight {name} does not fit into float16", hint="--precision float32")
    stored = numpy_helper.from_array(values.astype(np.float16), f"{name}.stored")
    return [stored], [helper.make_node("Cast", [stored.name], [name], to=onnx.TensorProto.FLOAT)]


def _as_int8(name: str, values: NDArray[np.float32]) -> Stored:
    """Value ≈ scale of its row · integer from −127 to 127."""
    largest = np.abs(values).max(axis=1, keepdims=True)
    scale = (np.maximum(largest, 1e-12) / 127).astype(np.float32)
    stored = numpy_helper.from_array(np.rint(values / scale).astype(np.int8), f"{name}.stored")
    factor = numpy_helper.from_array(scale, f"{name}.scale")
    expansion = [
        helper.make_node("Cast", [stored.name], [f"{name}.integers"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}.integers", factor.name], [name]),
    ]
    return [stored, factor], expansion


def _multiply_in_int8(graph: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with products of large matrices in integers, their inputs scaled as they come."""
    from onnxruntime.quantization import quantize_dynamic

    kinds = ("MatMul", "Gemm")
    large = {tensor.name for tensor in graph.graph.initializer if _is_large_matrix(tensor)}
    products = [node for node in graph.graph.node if node.op_type in kinds]
    spared = [node.name for node in products if large.isdisjoint(node.input)]
    if len(spared) == len(products):
        return graph
    with tempfile.TemporaryDirectory() as folder, _quiet("root"):  # it recommends a tool of its own
        path = Path(folder) / "graph.onnx"
        quantize_dynamic(
            graph,
            path,
            op_types_to_quantize=list(kinds),
            nodes_to_exclude=[*spared, *(f"{name}_MatMul" for name in spared)],  # as it renames a Gemm
            per_channel=True,
            reduce_range=True,  # 7-bit weights: with 8, sums overflow on processors without VNNI
        )
        return onnx.load(path)
