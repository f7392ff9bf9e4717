"""A model folder with another language model: all but the graph `step` and the vocabulary stays as
it is, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import torch
from torch import nn

from regiontalk.errors import ModelError
from regiontalk.lab.export.graphs import serialize, to_onnx
from regiontalk.lab.export.pretrained import load_pretrained
from regiontalk.lab.nets.language import LanguageModel
from regiontalk.lab.training.checkpoints import load_language
from regiontalk.lab.training.heads.language import mix
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.folder import (
    GRAPHS,
    ModelFolder,
    check_free,
    read_model_folder,
    write_model_folder,
)
from regiontalk.models.packaged import place_of
from regiontalk.models.torch_runtime import Step

EXAMPLE_ROWS = 3  # that the graph is traced with; any other number works as well


class _Speaking(nn.Module):
    """What `Step` reads of a whole network: weights get the names that they have there."""

    def __init__(self, language: LanguageModel) -> None:
        super().__init__()
        self.language = language


def export_language(checkpoint: Path, out: Path, name: str, share: Path | None = None) -> None:
    """Writes a copy of the model folder that the run started from, with the checkpoint's language
    model.

    What `fit` fitted to the old captions is kept; fit it again. Files that the model folder
    `share` has too are not written again.
    """
    check_free(out)
    trained = load_language(checkpoint)
    start = trained.recipe.init_from
    folder = read_model_folder(place_of(start))
    if folder.detector != trained.state["detector"]:
        raise ModelError(f"{folder.path}: not the model that {checkpoint} started from")
    training = {**folder.info.training, "language": {"step": trained.state["step"]}}
    info = replace(folder.info, name=name, training=training)
    started_from = load_pretrained(start).language(trained.words)
    net = mix(trained.net, started_from, trained.recipe.start_share)
    write_with_language(out, replace(folder, info=info), net, trained.words, share)


def write_with_language(
    out: Path,
    folder: ModelFolder,
    net: LanguageModel,
    words: Vocabulary,
    share: Path | None = None,
) -> None:
    """Writes the model folder with another language model."""
    graphs = dict(folder.graphs) | serialize({"step": trace_step(net)}, folder.info.precision)
    write_model_folder(
        out,
        folder.info,
        words,
        graphs,
        folder.heads,
        share,
        folder.names,
        folder.background,
        folder.colours,
    )


def trace_step(net: LanguageModel) -> onnx.ModelProto:
    """The graph `step` with float32 weights, for any number of rows."""
    visual = torch.zeros(EXAMPLE_ROWS, net.visual.out_features)
    h, c = net.begin(visual)
    rows = {0: torch.export.Dim.DYNAMIC}
    step = Step(_Speaking(net)).eval()
    return to_onnx(GRAPHS["step"], step, (torch.arange(EXAMPLE_ROWS), h, c, visual), (rows,) * 4)
