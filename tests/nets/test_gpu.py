"""What is done for a GPU, as far as it shows on a CPU: the same results, and what is recorded when."""

from __future__ import annotations

import pytest
import torch
from regiontalk.nets.prediction import Predictor
from torch import nn
from torch.nn import functional as F

from regiontalk.model_folder import PredictionConfig
from regiontalk.nets.backbones import VGG16
from regiontalk.nets.fcln import FCLN, FCLNConfig
from regiontalk.nets.gpu import ConvReLU, Graphed, fastest_convolutions, join_relus, to_cpu
from regiontalk.nets.language import LanguageConfig
from regiontalk.nets.localization import LocalizationConfig, Suppression
from regiontalk.nets.recognition import RecognitionConfig


class Replay:
    """Stands in for a CUDA graph: reads its places and overwrites its outputs when replayed."""

    def __init__(self, function, places, outputs):
        self.function, self.places, self.outputs = function, places, outputs

    def replay(self):
        for output, new in zip(self.outputs, self.function(*self.places), strict=True):
            output.copy_(new)


@pytest.fixture
def recorded(monkeypatch) -> list[str]:
    """Lets `Graphed` record without a GPU; the names of what has been recorded."""
    names: list[str] = []

    def capture(self, places):
        names.append(self.function.__name__)
        outputs = tuple(torch.full_like(output, 7) for output in self.function(*places))  # recording computes nothing
        return Replay(self.function, places, outputs), outputs

    monkeypatch.setattr(Graphed, "_capture", capture)
    return names


def double(x):
    return (x * 2,)


def test_recorded_once_per_shape(recorded):
    stage = Graphed(double)
    for values in ([1.0, 2.0], [5.0, 6.0], [1.0], [3.0, 4.0]):
        assert stage(torch.tensor(values))[0].tolist() == [2 * value for value in values]
    assert len(recorded) == 2


def test_an_output_of_a_graph_is_read_where_it_lies(recorded):
    first, second = Graphed(double), Graphed(double)
    for values in ([1.0, 2.0], [5.0, 6.0]):
        (twice,) = first(torch.tensor(values))
        assert second(twice)[0].tolist() == [4 * value for value in values]
    ((_, places, _),) = second._recorded.values()
    assert places[0] is twice


def test_no_other_tensor_is_written_over(recorded):
    first, second = Graphed(double), Graphed(double)
    (twice,) = first(torch.tensor([1.0]))
    given = torch.tensor([10.0])
    for tensor, expected in ((twice, 4.0), (given, 20.0), (twice, 4.0), (torch.tensor([50.0]), 100.0)):
        assert second(tensor)[0].item() == expected
    assert (twice.item(), given.item()) == (2.0, 10.0)


def test_suppression_that_takes_many_looks_is_recorded_twice(recorded):
    left = torch.arange(150, dtype=torch.float32) * 4
    chain = torch.stack([left, torch.zeros(150), left + 10, torch.full((150,), 10.0)], dim=1)[None]
    suppression = Suppression(0.4, 150, Graphed)
    for ranked in (chain, chain.flip(1), torch.cat([chain[:, 1:], chain[:, :1]], dim=1), chain):
        places, counts = suppression.in_rounds(ranked)
        expected, expected_counts = suppression.one_by_one(ranked)
        assert counts.tolist() == expected_counts.tolist()
        assert places[0, : counts[0]].tolist() == expected[0, : expected_counts[0]].tolist()
    assert recorded == ["_first_rounds", "_rounds"]


def test_recorded_stages_predict_the_same(recorded):
    torch.manual_seed(4)
    config = FCLNConfig(
        backbone="tiny",
        channels=8,
        initialization="he",
        localization=LocalizationConfig(((24, 24), (40, 20)), filters=8),
        recognition=RecognitionConfig(cells=3, hidden=16, code=12),
        language=LanguageConfig(embedding=8, hidden=10),
    )
    net = FCLN(config, tokens=7, styles=1).eval()
    settings = PredictionConfig(proposals=20, candidates=30, longest=4)
    plain, graphed = Predictor(net, 7, settings), Predictor(net, 7, settings, graphed=True)
    sizes = torch.tensor([[64.0, 48.0], [50.0, 40.0]])
    for _ in range(3):
        photos = torch.rand(2, 3, 48, 64) * 255
        for a, b in zip(plain(photos, sizes), graphed(photos, sizes), strict=True):
            assert torch.equal(a.boxes_xyxy, b.boxes_xyxy)
            assert torch.equal(a.scores, b.scores)
            assert torch.equal(a.tokens, b.tokens)
            assert torch.equal(a.logprobs, b.logprobs)
    assert sorted(recorded) == ["_by_falling_score", "_find", "_read"]


def test_vgg_with_joined_relus_is_the_same_net():
    torch.manual_seed(5)
    vgg = VGG16().eval()
    for conv in vgg.convolutions:
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        nn.init.normal_(conv.bias)
    photo = torch.rand(1, 3, 48, 32) * 255
    with torch.inference_mode():
        expected = vgg(photo)
        for _ in range(2):  # the second time there is nothing left to join
            join_relus(vgg.layers)
            torch.testing.assert_close(vgg(photo), expected)
    assert sum(isinstance(layer, ConvReLU) for layer in vgg.layers) == 13
    assert not any(isinstance(layer, nn.ReLU | nn.Conv2d) for layer in vgg.layers)


def test_the_one_kernel_is_given_the_whole_convolution(monkeypatch):
    def kernel(x, weight, bias, stride, padding, dilation, groups):
        assert x.dtype == weight.dtype == bias.dtype
        return F.relu(F.conv2d(x, weight, bias, stride, padding, dilation, groups))

    monkeypatch.setattr(torch, "cudnn_convolution_relu", kernel)
    conv = nn.Conv2d(4, 6, 3, stride=(2, 1), padding=(0, 1), dilation=(1, 2), groups=2).double()
    x = torch.randn(2, 4, 9, 8)
    torch.testing.assert_close(ConvReLU(conv)(x), F.relu(conv(x.double())))


def test_algorithms_are_tried_out_only_while_recording():
    before = torch.backends.cudnn.benchmark
    with fastest_convolutions():
        assert torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark == before


def test_what_is_on_the_cpu_stays_as_it_is():
    a, b = torch.ones(2), torch.zeros(3)
    assert [x is y for x, y in zip(to_cpu(a, b), (a, b), strict=True)] == [True, True]
