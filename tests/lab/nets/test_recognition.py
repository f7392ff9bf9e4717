"""The recognition network (DenseCap 3.1.3)."""

from __future__ import annotations

from dataclasses import replace

import torch

from regiontalk.lab.nets.recognition import RecognitionConfig, RecognitionNetwork

CONFIG = RecognitionConfig(cells=2, hidden=6, code=5, dropout=0.5)


def regions(count: int = 4) -> torch.Tensor:
    return torch.randn(count, 3, 2, 2, generator=torch.Generator().manual_seed(0))


def places(count: int = 4) -> torch.Tensor:
    return torch.rand(count, 5, generator=torch.Generator().manual_seed(1))


def test_two_rectified_layers_and_two_linear_heads():
    net = RecognitionNetwork(3, CONFIG).eval()
    codes, logits, transforms = net(regions(), places())
    assert (codes.shape, logits.shape, transforms.shape) == ((4, 5), (4,), (4, 4))
    hidden = torch.relu(regions().flatten(1) @ net.first.weight.T + net.first.bias)
    expected = torch.relu(hidden @ net.second.weight.T + net.second.bias)
    torch.testing.assert_close(codes, expected)
    torch.testing.assert_close(logits, expected @ net.score.weight[0] + net.score.bias[0])
    torch.testing.assert_close(transforms, expected @ net.transform.weight.T + net.transform.bias)


def test_the_score_may_see_where_the_box_lies():
    torch.manual_seed(0)
    seeing = RecognitionNetwork(3, replace(CONFIG, score_hidden=6)).eval()
    codes, logits, _ = seeing(regions(), places())
    hidden = torch.relu(
        torch.cat([codes, places()], dim=1) @ seeing.before_score.weight.T
        + seeing.before_score.bias
    )
    torch.testing.assert_close(logits, hidden @ seeing.score.weight[0] + seeing.score.bias[0])
    assert not torch.allclose(logits, seeing(regions(), places() * 0)[1])
    blind = RecognitionNetwork(3, CONFIG).eval()
    assert torch.equal(blind(regions(), places())[1], blind(regions(), places() * 0)[1])


def test_dropout_in_training_alone():
    net = RecognitionNetwork(3, CONFIG)
    torch.nn.init.ones_(net.second.bias)  # codes that ReLU leaves alone
    torch.manual_seed(0)
    dropped = net.train()(regions(200), places(200))[0] == 0
    assert 0.3 < float(dropped.float().mean()) < 0.8
    assert torch.equal(net.eval()(regions(), places())[0], net(regions(), places())[0])


def test_defaults_are_the_papers():
    config = RecognitionConfig()
    assert (config.cells, config.samples_per_cell, config.hidden, config.code, config.dropout) == (
        *(7, 1),
        *(4096, 4096),
        0.5,
    )
