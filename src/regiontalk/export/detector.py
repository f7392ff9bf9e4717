"""The FCLN of a checkpoint into a model folder: its stages as ONNX graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import torch

from regiontalk.errors import UsageError
from regiontalk.export.graphs import serialize, to_onnx
from regiontalk.model_folder import GRAPHS, Head, check_free, check_head, read_model_folder, write_model_folder
from regiontalk.nets.fcln import FCLN
from regiontalk.nets.layers import STRIDE
from regiontalk.runtime.torch import Appear, Propose, Recognize, Step, model_info
from regiontalk.training.checkpoints import load_fcln

CELLS = (6, 8)  # h × w of the feature map that the stages are traced with; any other works as well


def export_model(
    checkpoint: Path,
    out: Path,
    name: str,
    precision: str = "float32",
    heads: Mapping[str, Head] | None = None,
) -> None:
    """Writes the model folder `out`, with the recipe's prediction settings."""
    check_free(out)
    trained = load_fcln(checkpoint)
    if not trained.net.config.localize:
        raise UsageError(
            f"{checkpoint}: a net without a localization layer finds no regions itself, so it is no model",
            hint="predict --regions runs it as it is",
        )
    info = model_info(trained.net, trained.recipe.prediction, name, precision, {"step": trained.state["step"]})
    graphs = serialize(trace(trained.net), precision)
    for head, added in (heads or {}).items():
        check_head(head, added.info, graphs, str(out))
    write_model_folder(out, info, trained.words, graphs, heads)


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
    return {
        "propose": to_onnx(GRAPHS["propose"], propose, (image, size), (plane, {})),
        "recognize": to_onnx(GRAPHS["recognize"], recognize, (features, size, boxes), (plane, {}, rows)),
        "step": to_onnx(GRAPHS["step"], step, (tokens, h, c, seen), (rows, rows, rows, rows)),
        "appear": to_onnx(GRAPHS["appear"], Appear(net).eval(), (deep, boxes), (plane, rows)),
    }
