"""The exported graphs against the net they were made from."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch

from regiontalk.export.detector import shrink
from regiontalk.export.sentence_head import trace
from regiontalk.model_folder import GRAPHS
from regiontalk.nets.multimodal_rnn import MultimodalRNN, MultimodalRNNConfig

CODE, TOKENS = 10, 12
SMALL = MultimodalRNNConfig(embedding=16, hidden=16)


@pytest.mark.parametrize(
    "config",
    [SMALL, replace(SMALL, cell="lstm", attention=16, heads=2, views=3), replace(SMALL, feed="always", attention=8)],
    ids=["paper", "best", "always"],
)
def test_the_graphs_say_what_the_net_says(config: MultimodalRNNConfig) -> None:
    torch.manual_seed(0)
    net = MultimodalRNN(CODE, TOKENS, 1, config).eval()
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape) * 0.3
    traced = trace(net, CODE)
    for precision, tolerance in (("float32", 1e-4), ("float16", 5e-2), ("int8-stored", 0.3)):
        graphs = {name: shrink(copy.deepcopy(graph), precision) for name, graph in traced.items()}
        sessions = {name: onnxruntime.InferenceSession(graph.SerializeToString()) for name, graph in graphs.items()}
        compare(net, sessions, tolerance)


@torch.no_grad()
def compare(net: MultimodalRNN, sessions: dict[str, onnxruntime.InferenceSession], tolerance: float) -> None:
    for rows, regions in ((1, 20), (7, 3)):  # neither is what the graphs were traced with
        scene = (torch.randn(rows, 3, CODE), torch.randn(rows, regions, CODE), torch.rand(rows, regions, 5))
        state = net.begin(net.look(*scene))
        given = dict(zip(GRAPHS["sentence_begin"][0], (part.numpy() for part in scene), strict=True))
        arrays = sessions["sentence_begin"].run(None, given)
        for token in (TOKENS, 3, 5):
            tokens = torch.full((rows,), token)
            expected, state = net.step(tokens, state)
            given = dict(zip(GRAPHS["sentence_step"][0], (tokens.numpy(), *arrays), strict=True))
            logprobs, *changed = sessions["sentence_step"].run(None, given)
            arrays = [*changed, *arrays[3:]]
            np.testing.assert_allclose(logprobs, expected.numpy(), atol=tolerance)
