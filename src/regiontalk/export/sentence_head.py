"""The multimodal RNN as the head `sentence` of a model folder: two graphs, one that looks and one that speaks."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import Tensor, nn

from regiontalk.export.detector import shrink, to_onnx
from regiontalk.model_folder import GRAPHS, Head, HeadInfo
from regiontalk.nets.multimodal_rnn import NESTED, PLACE, MultimodalRNN, State
from regiontalk.training.heads.sentences import load_sentence_net
from regiontalk.training.recipe import to_dict

ROWS, REGIONS = 3, 4  # that the graphs are traced with; any other number works as well


class Begin(nn.Module):
    """views (R, 3, D), regions (R, K, D), places (R, K, 5) -> the state before START."""

    def __init__(self, net: MultimodalRNN) -> None:
        super().__init__()
        self.net = net

    def forward(self, views: Tensor, regions: Tensor, places: Tensor) -> State:
        return self.net.begin(self.net.look(views, regions, places))


class Step(nn.Module):
    """tokens (R,) and the state -> log-probabilities (R, V), and what changes of the state."""

    def __init__(self, net: MultimodalRNN) -> None:
        super().__init__()
        self.net = net

    def forward(self, tokens: Tensor, h: Tensor, c: Tensor, bias: Tensor, memory: Tensor, absent: Tensor) -> tuple:
        logprobs, state = self.net.step(tokens, State(h, c, bias, memory, absent))
        return logprobs, state.h, state.c, state.bias


def sentence_head(checkpoint: Path, precision: str) -> Head:
    """The head of a checkpoint, with weights stored in `precision`."""
    net, words, recipe, state = load_sentence_net(checkpoint, torch.device("cpu"))
    info = HeadInfo(
        detector=state["detector"],
        settings=to_dict(recipe.prediction),
        net=to_dict(recipe.net),
        training={"step": state["step"]},
    )
    graphs = {name: shrink(graph, precision).SerializeToString() for name, graph in trace(net, state["code"]).items()}
    return Head(info, words, graphs)


def trace(net: MultimodalRNN, code: int) -> dict[str, onnx.ModelProto]:
    """The graphs with float32 weights, for any number of rows and of regions."""
    begin, step = Begin(net).eval(), Step(net).eval()
    scene = (torch.rand(ROWS, NESTED, code), torch.rand(ROWS, REGIONS, code), torch.rand(ROWS, REGIONS, PLACE))
    with torch.inference_mode():
        state = begin(*scene)
    dynamic = torch.export.Dim.DYNAMIC
    rows, rows_and_regions = {0: dynamic}, {0: dynamic, 1: dynamic}
    of_state = (rows, rows, rows, rows_and_regions, rows_and_regions)
    return {
        "sentence_begin": to_onnx(GRAPHS["sentence_begin"], begin, scene, (rows, *[rows_and_regions] * 2)),
        "sentence_step": to_onnx(GRAPHS["sentence_step"], step, (torch.arange(ROWS), *state), (rows, *of_state)),
    }
