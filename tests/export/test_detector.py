"""Export: what a model folder says of its model, and what smaller storage costs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from regiontalk.errors import ModelError, UsageError
from regiontalk.export import detector
from regiontalk.export.detector import LINEAR, export_model, sample_by_products, shrink
from regiontalk.export.torch_runtime import open_torch_runtime
from regiontalk.model_folder import PRECISIONS, read_model_folder
from regiontalk.nets.localization import sample_regions
from regiontalk.runtime.onnx import OnnxRuntime
from regiontalk.training.detector.task import load_net


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def graph_of(values: np.ndarray) -> onnx.ModelProto:
    """x -> x · weight, for a matrix; x -> convolution, for filters."""
    weight = numpy_helper.from_array(values, "weight")
    kind = "MatMul" if values.ndim == 2 else "Conv"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(kind, ["x", "weight"], ["y"])
    return helper.make_model(helper.make_graph([node], "one", [x], [y], [weight]))


def stored_types(graph: onnx.ModelProto) -> set[int]:
    return {tensor.data_type for tensor in graph.graph.initializer if tensor.name.endswith(".stored")}


def expanded(graph: onnx.ModelProto) -> np.ndarray:
    """The weight as the graph makes it, by the reference implementation."""
    from onnx.reference import ReferenceEvaluator

    weight = helper.make_tensor_value_info("weight", TensorProto.FLOAT, None)
    nodes = [node for node in graph.graph.node if "y" not in node.output]
    alone = helper.make_model(helper.make_graph(nodes, "weight", [], [weight], graph.graph.initializer))
    (values,) = ReferenceEvaluator(alone).run(None, {})
    assert isinstance(values, np.ndarray)
    return values


def test_the_folder_describes_its_model(shaken_checkpoint: Path, tiny_model: Path) -> None:
    net, words, recipe = load_net(shaken_checkpoint, torch.device("cpu"))
    model = read_model_folder(tiny_model)
    assert model.words == words
    assert (model.info.name, model.info.precision, model.info.training) == ("tiny", "float32", {"step": 7})
    assert (model.info.input_size, model.info.pad_to) == (net.config.input_size, net.pad_to)
    assert dataclasses.asdict(model.info.prediction) == dataclasses.asdict(recipe.prediction)
    assert model.info.net["backbone"] == "tiny"


def test_smaller_storage_is_smaller_and_says_nearly_the_same(
    shaken_checkpoint: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = read_model_folder(tiny_model).graphs
    monkeypatch.setattr(detector, "trace", lambda _: {name: onnx.load_from_string(graphs[name]) for name in graphs})
    export_model(shaken_checkpoint, tmp_path / "half", "half", "float16", {"proposals": 9, "score": "final"})
    export_model(shaken_checkpoint, tmp_path / "stored", "stored", "int8-stored")
    export_model(shaken_checkpoint, tmp_path / "integers", "integers", "int8")
    assert size_of(tmp_path / "half") < 0.6 * size_of(tiny_model)
    assert size_of(tmp_path / "stored") < 0.8 * size_of(tmp_path / "half")
    assert size_of(tmp_path / "integers") < 0.8 * size_of(tmp_path / "half")
    layers = {
        node.input[1]: node.op_type
        for node in onnx.load(tmp_path / "integers" / "recognize.onnx").graph.node
        if node.op_type in ("Gemm", LINEAR)
    }
    assert layers["net.recognition.first.weight.stored"] == LINEAR
    assert layers["net.recognition.score.weight"] == "Gemm", "scores and boxes need more than 8 bits"
    whole = open_torch_runtime(shaken_checkpoint)
    image = np.random.default_rng(0).uniform(0, 255, (1, 3, 96, 64)).astype(np.float32)
    expected = whole.propose(image, (60, 90))
    for name, tolerance in (("half", 0.02), ("stored", 0.1), ("integers", 0.2)):
        small = OnnxRuntime(tmp_path / name, threads=1)
        found = small.propose(image, (60, 90))
        spread = expected.logits.std()
        assert np.abs(found.logits - expected.logits).max() < tolerance * spread
        read = (
            runtime.recognize(proposed.features, (60, 90), expected.boxes_xyxy[:40])
            for runtime, proposed in ((small, found), (whole, expected))
        )
        codes, own = (each.codes for each in read)
        assert np.abs(codes - own).max() < tolerance * own.std()
    prediction = read_model_folder(tmp_path / "half").info.prediction
    assert (prediction.proposals, prediction.score) == (9, "final")


def linear_graph(values: np.ndarray, bias: np.ndarray, name: str = "weight") -> onnx.ModelProto:
    """x -> x · weightᵀ + bias."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in "xy")
    node = helper.make_node("Gemm", ["x", name, "bias"], ["y"], alpha=1.0, beta=1.0, transA=0, transB=1)
    weights = [numpy_helper.from_array(values, name), numpy_helper.from_array(bias, "bias")]
    return helper.make_model(
        helper.make_graph([node], "one", [x], [y], weights),
        opset_imports=[helper.make_opsetid("", detector.OPSET)],
        ir_version=10,
    )


def run(graph: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
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


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_sampling_by_products_is_sampling(samples: int) -> None:
    generator = torch.Generator().manual_seed(samples)
    features = torch.rand((2, 5, 6, 9), generator=generator)
    boxes = torch.rand((2, 20, 2, 2), generator=generator).sort(dim=2).values.flatten(2) * 150
    boxes[0, 0] = torch.tensor([-60.0, -20.0, 300.0, 110.0])
    boxes[1, 0] = torch.tensor([40.0, 30.0, 40.0, 30.0])  # a point
    torch.testing.assert_close(
        sample_by_products(features, boxes, 7, samples), sample_regions(features, boxes, 7, samples)
    )


@pytest.mark.parametrize("precision", ["float16", "int8-stored"])
def test_matrices_and_filters_come_back_from_storage(precision: str) -> None:
    generator = np.random.default_rng(1)
    for shape, kind in (((40, 50), precision), ((16, 8, 3, 3), "float16"), ((4, 90), "float16")):
        rows = 10.0 ** generator.integers(-3, 3, (shape[0], *[1] * (len(shape) - 1)))  # of very different size
        values = (generator.normal(size=shape) * rows).astype(np.float32)
        values[0] = 0
        graph = shrink(graph_of(values), precision)
        assert stored_types(graph) == {TensorProto.FLOAT16 if kind == "float16" else TensorProto.INT8}
        largest = np.abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True)
        step = largest / 254 * 1.01 if kind == "int8-stored" else np.maximum(np.abs(values) / 2**11, 2.0**-24)
        assert (np.abs(expanded(graph) - values) <= step).all()


def test_small_and_whole_numbered_constants_stay_as_they_are() -> None:
    graph = graph_of(np.ones((7, 7), dtype=np.float32))
    graph.graph.initializer.append(numpy_helper.from_array(np.zeros((40, 40), dtype=np.int64), "indices"))
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


def test_nothing_is_done_where_the_folder_is_there(shaken_checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is there already"):
        export_model(shaken_checkpoint, tmp_path, "name")


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a checkpoint"):
        export_model(tmp_path / "nowhere", tmp_path / "out", "name")
    assert list(tmp_path.iterdir()) == []
