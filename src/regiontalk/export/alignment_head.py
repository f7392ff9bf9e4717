"""The head `words` of a model folder, from the checkpoint of an alignment net."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from regiontalk.errors import ModelError
from regiontalk.export.detector import shrink, to_onnx
from regiontalk.model_folder import GRAPHS, Head, HeadInfo
from regiontalk.nets.alignment import LONGEST, AlignmentNet
from regiontalk.training.heads.alignment import load_alignment
from regiontalk.training.recipe import to_dict

BETA = {"cosine": 0.05, "sum": 1.0}
"""Eq. 12's β where none was chosen: of the order of the differences between one word's fits to two regions."""


class Words(nn.Module):
    """tokens (1, 24), mask (1, 24) -> vectors (24, h)."""

    def __init__(self, net: AlignmentNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.net.words(tokens, mask)[0]


def words_head(checkpoint: Path, precision: str, beta: float | None = None) -> Head:
    """Graphs with weights stored in `precision`."""
    net, words, _, state = load_alignment(checkpoint, torch.device("cpu"))
    if net.config.words == "edges":
        raise ModelError(f"{checkpoint}: it reads dependency trees, which need a parser: it cannot be a head")
    codes = torch.zeros(3, state["code"])
    tokens, mask = torch.ones(1, LONGEST, dtype=torch.long), torch.ones(1, LONGEST)
    traced = {
        "vectors": to_onnx(GRAPHS["vectors"], net.regions.eval(), (codes,), ({0: torch.export.Dim.DYNAMIC},)),
        "words": to_onnx(GRAPHS["words"], Words(net).eval(), (tokens, mask), ({}, {})),
    }
    settings = {
        "beta": BETA[net.config.score] if beta is None else beta,
        "longest": LONGEST,
        "score": net.config.score,
    }
    info = HeadInfo(state["detector"], settings, to_dict(net.config), {"step": state["step"]})
    return Head(info, words, {name: shrink(graph, precision).SerializeToString() for name, graph in traced.items()})
