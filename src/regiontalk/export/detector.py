"""A checkpoint into a model folder: its stages as ONNX graphs, its weights stored as small as asked for.

Precisions:

- `float32`: as trained.
- `float16`: weights stored as float16, half the size. The graph expands them to float32, and ONNX Runtime
  does so once, as it loads them: a photo takes as long as with float32, and nothing but weights is rounded.
- `int8-stored`: in the same way, but large matrices as 8-bit integers with a scale for every row.
- `int8`: the same matrices are multiplied in integers too, which is faster. What goes into a product is rounded
  to 7 bits with a range for every row, so that what is said of a region does not depend on the others at hand.

Convolutions are float16 in both of the latter: their depthwise filters suffer from 8 bits.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import Tensor, nn

from regiontalk.errors import ModelError
from regiontalk.model_folder import Head, check_free, check_head, read_model_folder, write_model_folder
from regiontalk.nets.fcln import FCLN
from regiontalk.nets.layers import STRIDE
from regiontalk.runtime import PORTS
from regiontalk.runtime.torch import Appear, Propose, Recognize, Step, describe
from regiontalk.training.checkpoints import read_state
from regiontalk.training.detector.task import load_net

Stored = tuple[list[onnx.TensorProto], list[onnx.NodeProto]]
"""Small initialisers, and the nodes that make the weight of them."""

OPSET = 18
SMALLEST_HALF = 256  # values; what is smaller is not worth the rounding
SMALLEST_INT8 = 8  # rows and columns; the few rows that make scores and boxes need more than 8 bits,
MORE_THAN_INT8 = "score"  # and so does the layer before the score: in the names of weights
DOMAIN, LINEAR = "regiontalk", "LinearInIntegers"
# x (R, in) ≈ low + step · integer from 0 to 127, low and step those of its row. With 8 bits instead of 7, sums
# overflow on processors without VNNI.
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
        features, deep, boxes, _ = propose(image, size)
        boxes = boxes[:3]
        *_, h, c, seen = recognize(features, size, boxes)
    tokens = torch.tensor([0, 1, 2])
    plane, rows = {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC}
    # With one point a cell the gather of points is the faster one.
    with _sampling_by_products(net) if net.config.recognition.samples_per_cell > 1 else nullcontext():
        recognized = to_onnx(PORTS["recognize"], recognize, (features, size, boxes), (plane, {}, rows))
    with _sampling_by_products(net):
        appeared = to_onnx(PORTS["appear"], Appear(net).eval(), (deep, boxes), (plane, rows))
    return {
        "propose": to_onnx(PORTS["propose"], propose, (image, size), (plane, {})),
        "recognize": recognized,
        "step": to_onnx(PORTS["step"], step, (tokens, h, c, seen), (rows, rows, rows, rows)),
        "appear": appeared,
    }


@contextmanager
def _sampling_by_products(net: FCLN) -> Iterator[None]:
    """The network with `sample_by_products` in the place of `sample_regions`."""
    own, net.sample = net.sample, sample_by_products
    try:
        yield
    finally:
        net.sample = own


def sample_by_products(features: Tensor, boxes_xyxy: Tensor, cells: int, samples_per_cell: int = 1) -> Tensor:
    """What `localization.sample_regions` gives, as two products of matrices.

    Eq. 3 with the means over a cell's points is a weighted sum over rows, then over columns. On a CPU that is
    several times as fast as a gather of all points, though most of the weights are 0.
    """
    count, channels, height, width = features.shape
    from_columns = _bilinear_weights(boxes_xyxy[..., 0::2], cells, samples_per_cell, width)  # (N, B, X, w)
    from_rows = _bilinear_weights(boxes_xyxy[..., 1::2], cells, samples_per_cell, height)  # (N, B, Y, h)
    rows = from_rows.flatten(1, 2) @ features.permute(0, 2, 3, 1).flatten(2)  # (N, B·Y, w·C)
    sampled = from_columns[:, :, None] @ rows.view(count, -1, cells, width, channels)  # (N, B, Y, X, C)
    return sampled.flatten(0, 1).permute(0, 3, 1, 2)


def _bilinear_weights(sides: Tensor, cells: int, samples_per_cell: int, count: int) -> Tensor:
    """How much each of `count` features counts in each cell between two sides (N, B, 2) in pixels, (N, B, X, count)."""
    ratio = torch.linspace(0, 1, cells * samples_per_cell, dtype=sides.dtype)
    points = (sides[..., :1] + (sides[..., 1:] - sides[..., :1]) * ratio) / STRIDE - 0.5  # in features
    distance = (points[..., None] - torch.arange(count, dtype=sides.dtype)).abs()
    return (1 - distance).clamp(min=0).unflatten(2, (cells, samples_per_cell)).mean(dim=3)


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
    initializers, expansions = [], []
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
    return len(tensor.dims) == 2 and min(tensor.dims) >= SMALLEST_INT8 and MORE_THAN_INT8 not in tensor.name


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


def _multiply_in_integers(graph: onnx.ModelProto, weight: str) -> bool:
    """Turns the linear layers with this weight into `LINEAR`; False where it is used in another way as well."""
    users = [node for node in graph.graph.node if weight in node.input]
    if not all(_is_linear_layer(node) and node.input[1] == weight for node in users):
        return False
    for layer in users:
        x, _, bias = layer.input
        layer.op_type, layer.domain = LINEAR, DOMAIN
        del layer.input[:], layer.attribute[:]
        layer.input.extend([x, f"{weight}.stored", bias, f"{weight}.scale"])
    if LINEAR not in {function.name for function in graph.functions}:
        graph.functions.append(onnx.parser.parse_function(_LINEAR_IN_INTEGERS))
        graph.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return True


def _is_linear_layer(node: onnx.NodeProto) -> bool:
    """x · weightᵀ + bias"""
    settings = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    plain = settings == {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    return node.op_type == "Gemm" and len(node.input) == 3 and plain
