"""Exports torch modules as ONNX graphs, with weights stored in a given precision.

Precisions:

- `float32`: as trained.
- `float16`: weights stored as float16, half the size. ONNX Runtime converts them to float32 once,
  when it loads the graph: a photo takes as long as with float32, and only weights are rounded.
- `int8-stored`: in the same way, but large matrices as 8-bit integers with a scale for every row.
- `int8`: the same matrices are also multiplied in integers, which is faster. Inputs of a product
  are rounded to 7 bits with a range for every row, so that a region's caption does not depend on
  the other regions.

In the last two, 1 × 1 convolutions are stored like matrices, and others as float16: depthwise
filters lose too much in 8 bits. Convolutions are never multiplied in integers.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import onnx.parser
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor, nn

from regiontalk.errors import ModelError

Stored = tuple[list[onnx.TensorProto], list[onnx.NodeProto]]
"""Small initialisers, and the nodes that make the weight of them."""

OPSET = 18
SMALLEST_HALF = 256  # values; smaller tensors stay float32
SMALLEST_INT8 = (
    8  # rows and columns; the few rows that make scores and boxes need more than 8 bits,
)
MORE_THAN_INT8 = (
    "score",
    "transform",
)  # and so does the layer before the score: in the names of weights
DOMAIN = "regiontalk"
LINEAR = "LinearInIntegers"
# x (R, in) ≈ low + step · integer from 0 to 127, low and step those of its row. With 8 bits instead
# of 7, sums overflow on processors without VNNI.
_LINEAR_IN_INTEGERS = f"""
<domain: "{DOMAIN}", opset_import: ["": {OPSET}]>
{LINEAR} (x, weight, bias, scale) => (y)
{{
    axis = Constant <value_ints = [1]> ()
    levels = Constant <value_float = 127.0> ()
    smallest = Constant <value_float = 1e-30> ()
    low = ReduceMin (x, axis)
    high = ReduceMax (x, axis)
    range = Sub (high, low)
    steps = Div (range, levels)
    step = Max (steps, smallest)
    above = Sub (x, low)
    row_step = Squeeze (step, axis)
    integers = QuantizeLinear <axis = 0> (above, row_step)
    turned = Transpose <perm = [1, 0]> (weight)
    products = MatMulInteger (integers, turned)
    sums = Cast <to = 1> (products)
    row_scale = Squeeze (scale, axis)
    weighted = Mul (sums, row_scale)
    scaled = Mul (weighted, step)
    whole = Cast <to = 1> (weight)
    row_sums = ReduceSum <keepdims = 0> (whole, axis)
    weight_sums = Mul (row_sums, row_scale)
    offset = Mul (low, weight_sums)
    unbiased = Add (scaled, offset)
    y = Add (unbiased, bias)
}}
"""


def to_onnx(
    ports: tuple[tuple[str, ...], tuple[str, ...]],
    module: nn.Module,
    example: tuple[Tensor, ...],
    dynamic: tuple[dict[int, Any], ...],
) -> onnx.ModelProto:
    """A module as a graph; `ports`: names of inputs and outputs; `dynamic`: the axes of each input
    that may change."""
    inputs, outputs = ports
    example = tuple(
        value.clone() for value in example
    )  # tensors of inference mode cannot be traced
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
    """The graph without the exporter's notes on where each node came from: source lines and folders
    of this machine."""
    inner = graph.graph
    for part in (graph, inner, *inner.node, *inner.initializer, *inner.input, *inner.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    del inner.value_info[:]
    return graph


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silences the warnings and log lines of the exporter."""
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


def serialize(graphs: Mapping[str, onnx.ModelProto], precision: str) -> dict[str, bytes]:
    """The graphs with their weights in `precision`, as they are stored."""
    return {name: shrink(graph, precision).SerializeToString() for name, graph in graphs.items()}


def shrink(graph: onnx.ModelProto, precision: str) -> onnx.ModelProto:
    """The graph with its matrices and filters in `precision`."""
    if precision == "float32":
        return graph
    initializers = []
    expansions = []
    for tensor in graph.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.ndim < 2 or values.size < SMALLEST_HALF:
            initializers.append(tensor)
            continue
        if not np.isfinite(values).all():
            raise ModelError(f"the weight {tensor.name} is not finite")
        as_integers = precision in ("int8-stored", "int8") and _is_large_matrix(tensor)
        stored, expansion = (_as_int8 if as_integers else _as_float16)(tensor.name, values)
        initializers += stored
        if not (precision == "int8" and as_integers and _multiply_in_integers(graph, tensor.name)):
            expansions += expansion
    nodes = [*expansions, *graph.graph.node]
    del graph.graph.initializer[:], graph.graph.node[:]
    graph.graph.initializer.extend(initializers)
    graph.graph.node.extend(nodes)
    return graph


def _is_large_matrix(tensor: onnx.TensorProto) -> bool:
    """A linear layer's, or a convolution's of one cell."""
    is_large = min(tensor.dims[:2]) >= SMALLEST_INT8 and all(side == 1 for side in tensor.dims[2:])
    return is_large and not any(part in tensor.name for part in MORE_THAN_INT8)


def _as_float16(name: str, values: NDArray[np.float32]) -> Stored:
    if np.abs(values).max() > np.finfo(np.float16).max:
        raise ModelError(f"the weight {name} does not fit into float16", hint="--precision float32")
    stored = numpy_helper.from_array(values.astype(np.float16), f"{name}.stored")
    return [stored], [helper.make_node("Cast", [stored.name], [name], to=onnx.TensorProto.FLOAT)]


def _as_int8(name: str, values: NDArray[np.float32]) -> Stored:
    """Value ≈ scale of its row · integer from −127 to 127."""
    largest = np.abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True)
    scale = (np.maximum(largest, 1e-12) / 127).astype(np.float32)
    stored = numpy_helper.from_array(np.rint(values / scale).astype(np.int8), f"{name}.stored")
    factor = numpy_helper.from_array(scale, f"{name}.scale")
    expansion = [
        helper.make_node("Cast", [stored.name], [f"{name}.integers"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", [f"{name}.integers", factor.name], [name]),
    ]
    return [stored, factor], expansion


def _multiply_in_integers(graph: onnx.ModelProto, weight: str) -> bool:
    """Turns the linear layers with this weight into `LINEAR`; False if it is used in another way
    too."""
    users = [node for node in graph.graph.node if weight in node.input]
    if not all(_is_linear_layer(node) and node.input[1] == weight for node in users):
        return False
    for layer in users:
        x, _, bias = layer.input
        layer.op_type = LINEAR
        layer.domain = DOMAIN
        del layer.input[:], layer.attribute[:]
        layer.input.extend([x, f"{weight}.stored", bias, f"{weight}.scale"])
    if LINEAR not in {function.name for function in graph.functions}:
        graph.functions.append(onnx.parser.parse_function(_LINEAR_IN_INTEGERS))
        graph.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return True


def _is_linear_layer(node: onnx.NodeProto) -> bool:
    """x · weightᵀ + bias"""
    settings = {
        attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute
    }
    plain = settings == {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    return node.op_type == "Gemm" and len(node.input) == 3 and plain
