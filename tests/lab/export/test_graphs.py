"""ONNX graphs with small weights: what is stored in which precision, and what it costs."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from regiontalk.errors import ModelError
from regiontalk.lab.export.graphs import LINEAR, OPSET, shrink
from regiontalk.models.folder import PRECISIONS


def graph_of(values: np.ndarray) -> onnx.ModelProto:
    """x -> x · weight, for a matrix; x -> convolution, for filters."""
    weight = numpy_helper.from_array(values, "weight")
    kind = "MatMul" if values.ndim == 2 else "Conv"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(kind, ["x", "weight"], ["y"])
    return helper.make_model(helper.make_graph([node], "one", [x], [y], [weight]))


def stored_types(graph: onnx.ModelProto) -> set[int]:
    return {
        tensor.data_type for tensor in graph.graph.initializer if tensor.name.endswith(".stored")
    }


def expanded(graph: onnx.ModelProto) -> np.ndarray:
    """The weight as the graph makes it, by the reference implementation."""
    from onnx.reference import ReferenceEvaluator

    weight = helper.make_tensor_value_info("weight", TensorProto.FLOAT, None)
    nodes = [node for node in graph.graph.node if "y" not in node.output]
    alone = helper.make_model(
        helper.make_graph(nodes, "weight", [], [weight], graph.graph.initializer)
    )
    (values,) = ReferenceEvaluator(alone).run(None, {})
    assert isinstance(values, np.ndarray)
    return values


def linear_graph(values: np.ndarray, bias: np.ndarray, name: str = "weight") -> onnx.ModelProto:
    """x -> x · weightᵀ + bias."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in "xy")
    node = helper.make_node(
        "Gemm", ["x", name, "bias"], ["y"], alpha=1.0, beta=1.0, transA=0, transB=1
    )
    weights = [numpy_helper.from_array(values, name), numpy_helper.from_array(bias, "bias")]
    return helper.make_model(
        helper.make_graph([node], "one", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=10,
    )


def run(graph: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": x})
    return np.asarray(y)


def test_products_of_integers_are_near_those_of_numbers_and_each_row_is_on_its_own() -> None:
    generator = np.random.default_rng(3)
    weight = generator.normal(size=(40, 300)).astype(np.float32)
    bias = generator.normal(size=40).astype(np.float32)
    x = generator.normal(size=(12, 300)).astype(np.float32)
    x[0] = 0
    x[1] = 7  # no range at all
    x[2:6] = np.maximum(x[2:6], 0)
    x[6:9] *= 1000
    graph = shrink(linear_graph(weight, bias), "int8")
    assert [node.op_type for node in graph.graph.node] == [LINEAR]
    onnx.checker.check_model(graph, full_check=True)
    found, exact = run(graph, x), x @ weight.T + bias
    np.testing.assert_allclose(found[0], bias, rtol=1e-5)
    # Rounded to 127 levels, each x and weight is off by about a hundredth of its row's deviation.
    assert (np.abs(found - exact) <= 0.06 * np.linalg.norm(x, axis=1, keepdims=True) + 1e-5).all()
    for row in range(len(x)):
        np.testing.assert_array_equal(run(graph, x[row : row + 1]), found[row : row + 1])


def test_a_weight_with_another_use_as_well_is_multiplied_as_it_was() -> None:
    graph = linear_graph(np.eye(40, dtype=np.float32), np.zeros(40, dtype=np.float32))
    graph.graph.node.append(helper.make_node("Relu", ["weight"], ["z"]))
    kinds = {node.op_type for node in shrink(graph, "int8").graph.node}
    assert "Gemm" in kinds
    assert LINEAR not in kinds


def test_the_layer_before_the_score_keeps_more_than_8_bits() -> None:
    """It sees codes and places side by side, which differ in size too much for one range."""
    weight, bias = np.eye(40, dtype=np.float32), np.zeros(40, dtype=np.float32)
    graph = shrink(linear_graph(weight, bias, "net.recognition.before_score.weight"), "int8")
    assert stored_types(graph) == {TensorProto.FLOAT16}


@pytest.mark.parametrize("precision", ["float16", "int8-stored"])
def test_matrices_and_filters_come_back_from_storage(precision: str) -> None:
    generator = np.random.default_rng(1)
    for shape, kind in (((40, 50), precision), ((16, 8, 3, 3), "float16"), ((4, 90), "float16")):
        rows = 10.0 ** generator.integers(
            -3, 3, (shape[0], *[1] * (len(shape) - 1))
        )  # of very different size
        values = (generator.normal(size=shape) * rows).astype(np.float32)
        values[0] = 0
        graph = shrink(graph_of(values), precision)
        assert stored_types(graph) == {
            TensorProto.FLOAT16 if kind == "float16" else TensorProto.INT8
        }
        largest = np.abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True)
        step = (
            largest / 254 * 1.01
            if kind == "int8-stored"
            else np.maximum(np.abs(values) / 2**11, 2.0**-24)
        )
        assert (np.abs(expanded(graph) - values) <= step).all()


def test_small_and_whole_numbered_constants_stay_as_they_are() -> None:
    graph = graph_of(np.ones((7, 7), dtype=np.float32))
    graph.graph.initializer.append(
        numpy_helper.from_array(np.zeros((40, 40), dtype=np.int64), "indices")
    )
    before = graph.SerializeToString()
    for precision in PRECISIONS:
        assert shrink(graph, precision).SerializeToString() == before


def test_weights_that_do_not_fit_are_refused() -> None:
    large = np.full((40, 40), 1e6, dtype=np.float32)
    with pytest.raises(ModelError, match="does not fit into float16"):
        shrink(graph_of(large), "float16")
    shrink(graph_of(large), "int8-stored")
    with pytest.raises(ModelError, match="weight is not finite"):
        shrink(graph_of(large * np.float32(np.nan)), "int8-stored")
