"""Sentence encoders: the paper's BRNN equation by equation, and a GRU that is torch's."""

from __future__ import annotations

import torch
from torch import nn

from regiontalk.lab.nets.sentence_encoders import Brnn, Gru


def test_the_brnn_is_equations_3_to_5() -> None:
    torch.manual_seed(0)
    net = Brnn(5, 8)
    x = torch.randn(1, 4, 5)
    e = torch.relu(x[0] @ net.enter.weight.T + net.enter.bias)
    forwards, backwards = torch.zeros(5, 8), torch.zeros(6, 8)
    for t in range(4):
        forwards[t + 1] = torch.relu(e[t] + net.forwards.weight @ forwards[t] + net.forwards.bias)
    for t in reversed(range(4)):
        backwards[t] = torch.relu(
            e[t] + net.backwards.weight @ backwards[t + 1] + net.backwards.bias
        )
    assert torch.allclose(net(x, torch.ones(1, 4))[0], forwards[1:] + backwards[:4], atol=1e-6)


def test_the_gru_is_torchs_own() -> None:
    torch.manual_seed(0)
    net, own = Gru(5, 8), nn.GRU(5, 8, batch_first=True, bidirectional=True)
    for direction, suffix in enumerate(("", "_reverse")):
        for ours, theirs in ((net.enter, "ih"), (net.recur, "hh")):
            layer = ours[direction]
            assert isinstance(layer, nn.Linear)
            getattr(own, f"weight_{theirs}_l0{suffix}").data = layer.weight.data
            getattr(own, f"bias_{theirs}_l0{suffix}").data = layer.bias.data
    x = torch.randn(3, 6, 5)
    forwards, backwards = own(x)[0].chunk(2, dim=-1)
    assert torch.allclose(net(x, torch.ones(3, 6)), forwards + backwards, atol=1e-6)
