"""A checkpoint into a model folder: its stages as ONNX graphs, its weights stored as small as asked for.

Weights can be stored smaller than they are used: the graph expands them to float32, and ONNX Runtime does so
once, as it loads them. So a photo takes as long as with float32, and only storage is rounded:

- `float32`: as trained.
- `float16`: half the size.
- `int8`: a quarter. Every row of a matrix (every filter of a convolution) has a scale of its own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch

from regiontalk.model_folder import check_free, write_model_folder
from regiontalk.nets.backbones import STRIDE
from regiontalk.nets.fcln import FCLN
from regiontalk.training.checkpoints import read_state
from regiontalk.training.fcln import load_net
from regiontalk.training.torch_runtime import Propose, Recognize, Step, describe

PRECISIONS = ("float32", "float16", "int8")
OPSET = 18
SMALLEST_STORED = 256  # values; biases and constants are not worth the rounding
EXAMPLE_CELLS = (6, 8)  # the example's feature map, h × w; another shape must work as well


def export_model(
    checkpoint: Path, out: Path, name: str, precision: str = "float32", settings: dict[str, Any] | None = None
) -> None:
    """Writes the model folder `out`; `settings` overrule the recipe's prediction settings."""
    check_free(out)
    net, words, recipe = load_net(checkpoint, torch.device("cpu"))
    recipe = replace(recipe, prediction=replace(recipe.prediction, **(settings or {})))
    graphs = {stage: store(graph, precision) for stage, graph in trace(net).items()}
    training = {"step": read_state(checkpoint)["step"]}
    info = describe(net, recipe, name, precision, training)
    write_model_folder(out, info, words, {stage: graph.SerializeToString() for stage, graph in graphs.items()})


def trace(net: FCLN) -> dict[str, onnx.ModelProto]:
    """The stages as graphs with float32 weights, for inputs of any shape."""
    net = fold_norms(net)
    height, width = (cells * STRIDE for cells in EXAMPLE_CELLS)
    size = torch.tensor([[float(width), float(height)]])
    boxes = torch.tensor([[0.0, 0.0, 60.0, 50.0], [20.0, 10.0, 90.0, 80.0], [5.0, 5.0, 40.0, 90.0]])
    propose, recognize, step = Propose(net).eval(), Recognize(net).eval(), Step(net).eval()
    image = torch.rand(1, 3, height, width) * 255
    with torch.inference_mode():
        features = propose(image, size)[0]
        *_, h, c, seen = recognize(features, size, boxes)
    tokens = torch.tensor([0, 1, 2])
    dynamic = torch.export.Dim.DYNAMIC
    map_axes, rows = {2: dynamic, 3: dynamic}, {0: dynamic}
    return {
        "propose": _to_onnx("propose", propose, (image, size), ({2: dynamic, 3: dynamic}, {})),
        "recognize": _to_onnx("recognize", recognize, (features, size, boxes), (map_axes, {}, rows)),
        "step": _to_onnx("step", step, (tokens, h, c, seen), (rows, rows, rows, rows)),
    }
