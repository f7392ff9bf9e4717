"""Heads of a model folder, from checkpoints of the nets that read region codes.

An alignment net becomes the head `words` (graphs `vectors` and `words`), a multimodal RNN the head `sentence` (graphs
`sentence_begin` and `sentence_step`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from regiontalk.errors import ModelError, UsageError
from regiontalk.export.graphs import serialize, to_onnx
from regiontalk.model_folder import GRAPHS, Head, HeadInfo
from regiontalk.nets.alignment import AlignmentNet
from regiontalk.nets.multimodal_rnn import NESTED, PLACE, MultimodalRNN, State
from regiontalk.nets.sentence_encoders import LONGEST
from regiontalk.training.checkpoints import find_checkpoint, load_alignment, load_sentence_net, read_state
from regiontalk.training.recipe import to_dict

NAMES = {"alignment": "words", "sentences": "sentence"}
"""Kind of a checkpoint -> name of the head."""
BETA = {"cosine": 0.05, "sum": 1.0}
"""Eq. 12's β where none was chosen: of the order of the differences between one word's fits to two regions."""
ROWS, REGIONS = 3, 4  # that graphs are traced with; any other number works as well
DYNAMIC = torch.export.Dim.DYNAMIC


def load_heads(checkpoints: Iterable[Path], precision: str, beta: float | None = None) -> dict[str, Head]:
    """Name -> head of each checkpoint (or run's folder), with weights stored in `precision`; `beta` is eq. 12's.

    Heads are not multiplied in integers: what that costs has been measured for the detector alone.
    """
    precision = "int8-stored" if precision == "int8" else precision
    found: dict[str, Path] = {}
    for given in checkpoints:
        checkpoint = find_checkpoint(given)
        kind = read_state(checkpoint)["kind"]
        if kind not in NAMES:
            raise ModelError(f"{checkpoint}: a checkpoint of kind {kind!r} is no head")
        if NAMES[kind] in found:
            raise UsageError(f"{given}: a second head {NAMES[kind]!r}")
        found[NAMES[kind]] = checkpoint
    return {
        name: words_head(checkpoint, precision, beta) if name == "words" else sentence_head(checkpoint, precision)
        for name, checkpoint in found.items()
    }


class Words(nn.Module):
    """tokens (1, 24), mask (1, 24) -> vectors (24, h)."""

    def __init__(self, net: AlignmentNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.net.words(tokens, mask)[0]


def words_head(checkpoint: Path, precision: str, beta: float | None = None) -> Head:
    trained = load_alignment(checkpoint)
    net, state = trained.net, trained.state
    if net.config.words == "edges":
        raise ModelError(f"{checkpoint}: it reads dependency trees, which need a parser: it cannot be a head")
    codes = torch.zeros(ROWS, state["code"])
    tokens, mask = torch.ones(1, LONGEST, dtype=torch.long), torch.ones(1, LONGEST)
    graphs = {
        "vectors": to_onnx(GRAPHS["vectors"], net.regions.eval(), (codes,), ({0: DYNAMIC},)),
        "words": to_onnx(GRAPHS["words"], Words(net).eval(), (tokens, mask), ({}, {})),
    }
    settings = {
        "beta": BETA[net.config.score] if beta is None else beta,
        "longest": LONGEST,
        "score": net.config.score,
    }
    info = HeadInfo(state["detector"], settings, to_dict(net.config), {"step": state["step"]})
    return Head(info, trained.words, serialize(graphs, precision))


class Begin(nn.Module):
    """views (R, 3, D), regions (R, K, D), places (R, K, 5) -> the state before START."""

    def __init__(self, net: MultimodalRNN) -> None:
        super().__init__()
        self.net = net

    def forward(self, views: Tensor, regions: Tensor, places: Tensor) -> State:
        return self.net.begin(self.net.look(views, regions, places))


class Step(nn.Module):
    """tokens (R,) and the state -> log-probabilities (R, V), and the parts of the state that change."""

    def __init__(self, net: MultimodalRNN) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, h: Tensor, c: Tensor, bias: Tensor, memory: Tensor, absent: Tensor) -> tuple:
        logprobs, state = self.net.step(tokens, State(h, c, bias, memory, absent))
        return logprobs, state.h, state.c, state.bias


def sentence_head(checkpoint: Path, precision: str) -> Head:
    trained = load_sentence_net(checkpoint)
    info = HeadInfo(
        detector=trained.state["detector"],
        settings=to_dict(trained.recipe.prediction),
        net=to_dict(trained.recipe.net),
        training={"step": trained.state["step"]},
    )
    return Head(info, trained.words, serialize(trace_sentence_net(trained.net, trained.state["code"]), precision))


def trace_sentence_net(net: MultimodalRNN, code: int) -> dict[str, onnx.ModelProto]:
    """The graphs with float32 weights, for any number of rows and of regions."""
    begin, step = Begin(net).eval(), Step(net).eval()
    scene = (torch.rand(ROWS, NESTED, code), torch.rand(ROWS, REGIONS, code), torch.rand(ROWS, REGIONS, PLACE))
    with torch.inference_mode():
        state = begin(*scene)
    rows, rows_and_regions = {0: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}
    of_state = (rows, rows, rows, rows_and_regions, rows_and_regions)
    return {
        "sentence_begin": to_onnx(GRAPHS["sentence_begin"], begin, scene, (rows, *[rows_and_regions] * 2)),
        "sentence_step": to_onnx(GRAPHS["sentence_step"], step, (torch.arange(ROWS), *state), (rows, *of_state)),
    }
