"""The FCLN of a checkpoint into a model folder: its stages as ONNX graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import onnx
import torch
from torch import Tensor

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
    # With one point a cell the gather of points is the faster one.
    with _sampling_by_products(net) if net.config.recognition.samples_per_cell > 1 else nullcontext():
        recognized = to_onnx(GRAPHS["recognize"], recognize, (features, size, boxes), (plane, {}, rows))
    with _sampling_by_products(net):
        appeared = to_onnx(GRAPHS["appear"], Appear(net).eval(), (deep, boxes), (plane, rows))
    return {
        "propose": to_onnx(GRAPHS["propose"], propose, (image, size), (plane, {})),
        "recognize": recognized,
        "step": to_onnx(GRAPHS["step"], step, (tokens, h, c, seen), (rows, rows, rows, rows)),
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
