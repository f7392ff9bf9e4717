"""Exports the FCLN of a checkpoint to a model folder: its stages as ONNX graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import torch

from regiontalk.errors import UsageError
from regiontalk.lab.export.graphs import serialize, to_onnx
from regiontalk.lab.export.pretrained import stored_weights
from regiontalk.lab.nets.fcln import FCLN
from regiontalk.lab.nets.layers import STRIDE
from regiontalk.lab.training.checkpoints import load_fcln
from regiontalk.models.folder import (
    GRAPHS,
    Head,
    ModelFolder,
    check_free,
    check_head,
    detector_fingerprint,
    read_model_folder,
    write_model_folder,
)
from regiontalk.models.torch_runtime import Appear, Propose, Recognize, Step, model_info

# h × w of the feature map that the stages are traced with; any other works as well
EXAMPLE_CELLS = (6, 8)
MOST_ROUNDING = 0.01  # of a layer's largest weight: 8 bits leave half of that


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
            f"{checkpoint}: a net without a localization layer cannot be exported: it detects no "
            "regions",
            hint="predict --regions runs it as it is",
        )
    info = model_info(
        trained.net, trained.recipe.prediction, name, precision, {"step": trained.state["step"]}
    )
    graphs = serialize(trace(trained.net), precision)
    detector = detector_fingerprint(graphs)
    for head, added in (heads or {}).items():
        check_head(head, added.info, detector, str(out))
    write_model_folder(out, info, trained.words, graphs, heads)


def export_student(checkpoint: Path, out: Path, name: str, teacher: Path) -> None:
    """Writes the model folder `out` of a student: the graph of its own backbone, and everything
    else from its `teacher`'s folder, except what was fitted to the teacher's predictions."""
    check_free(out)
    trained = load_fcln(checkpoint)
    model = read_model_folder(teacher)
    if trained.recipe.teacher is None:
        raise UsageError(f"{checkpoint}: not a student: its recipe names no teacher")
    _check_same_layers(trained.net, model)
    precision = model.info.precision
    graphs = dict(model.graphs) | serialize({"propose": trace(trained.net)["propose"]}, precision)
    training = {"step": trained.state["step"], "teacher": model.info.name}
    info = model_info(trained.net, trained.recipe.prediction, name, precision, training)
    detector = detector_fingerprint(graphs)
    heads = {
        name: replace(head, info=replace(head.info, detector=detector))
        for name, head in model.heads.items()
    }
    write_model_folder(out, info, trained.words, graphs, heads)


def _check_same_layers(student: FCLN, teacher: ModelFolder) -> None:
    """Except for the backbone, the student's weights must be the teacher's, within the precision of
    storage."""
    stored = stored_weights(teacher.graphs)
    for name, value in student.state_dict().items():
        if name.startswith("backbone.") or name not in stored:
            continue
        weight = value.numpy()
        other = stored[name]
        if (
            weight.shape != other.shape
            or np.abs(weight - other).max() > MOST_ROUNDING * np.abs(weight).max()
        ):
            raise UsageError(f"{teacher.path}: not the student's teacher: {name} differs")


def add_heads(
    folder: Path, out: Path, name: str, heads: Mapping[str, Head], share: Path | None = None
) -> None:
    """Writes a copy of the model `folder` with `heads` added, or replaced. Files that the model
    folder `share` has too are not written again."""
    check_free(out)
    model = read_model_folder(folder)
    for head, added in heads.items():
        check_head(head, added.info, model.detector, str(folder))
    info = replace(model.info, name=name)
    parts = (info, model.words, model.graphs, {**model.heads, **heads})
    write_model_folder(out, *parts, share, model.names, model.background, model.colours)


def trace(net: FCLN) -> dict[str, onnx.ModelProto]:
    """The stages as graphs with float32 weights, for inputs of any height, width and number of
    rows."""
    propose = Propose(net).eval()
    recognize = Recognize(net).eval()
    step = Step(net).eval()
    height, width = (cells * STRIDE for cells in EXAMPLE_CELLS)
    image = torch.full((1, 3, height, width), 127.0)
    size = torch.tensor([[float(width), float(height)]])
    with torch.inference_mode():
        features, deep, boxes, _ = propose(image, size)
        boxes = boxes[:3]
        *_, h, c, seen = recognize(features, size, boxes)
    tokens = torch.tensor([0, 1, 2])
    plane = {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    rows = {0: torch.export.Dim.DYNAMIC}
    return {
        "propose": to_onnx(GRAPHS["propose"], propose, (image, size), (plane, {})),
        "recognize": to_onnx(
            GRAPHS["recognize"], recognize, (features, size, boxes), (plane, {}, rows)
        ),
        "step": to_onnx(GRAPHS["step"], step, (tokens, h, c, seen), (rows, rows, rows, rows)),
        "appear": to_onnx(GRAPHS["appear"], Appear(net).eval(), (deep, boxes), (plane, rows)),
    }
