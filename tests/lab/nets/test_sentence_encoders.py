"""Sentence encoders: the paper's BRNN equation by equation, a GRU that is torch's, and BERT's."""

from __future__ import annotations

import torch
from torch import nn

from regiontalk.lab.nets.sentence_encoders import Bert, Brnn, Gru
from regiontalk.lab.nets.text_tower import TextTower, TextTowerConfig


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


def test_sentences_are_read_as_bert_reads_them_whatever_comes_after_them() -> None:
    torch.manual_seed(0)
    tower = TextTower(10, TextTowerConfig(width=32, heads=1)).eval()
    start, end, *sentence = 1, 2, 5, 6, 7
    encoder = Bert(32, dropout=0.1).eval()
    encoder.tower.load_state_dict(
        tower.state_dict() | {"tokens.weight": tower.tokens.weight[[start, end]]}
    )
    tokens = torch.tensor([[start, *sentence, end]])
    expected = tower(tokens, torch.ones(1, 5, dtype=torch.bool))[0, 1:-1]
    padded = tower.tokens(torch.tensor([[*sentence, 9, 9], [9, 9, 9, 9, 9]]))
    mask = torch.tensor([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    assert torch.allclose(encoder(padded, mask)[0, :3], expected, atol=1e-5)
