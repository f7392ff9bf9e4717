"""Optimisers as the recipe names them, rates over time, and the running ema of the weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regiontalk.errors import UsageError
from regiontalk.lab.training.optimizers import EMA, LAST_RATE, build_optimizer, rate_factor
from regiontalk.lab.training.recipe.shared import OptimizerConfig, ScheduleConfig


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sgd", torch.optim.SGD),
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        ("rmsprop", torch.optim.RMSprop),
    ],
)
def test_kinds(kind, expected):
    net = nn.Linear(3, 2)
    optimizer = build_optimizer(
        net.named_parameters(), OptimizerConfig(kind, 0.1, weight_decay=0.3)
    )
    assert type(optimizer) is expected
    decays = {
        parameter.dim(): group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    assert decays == {2: 0.3, 1: 0.0}  # biases do not decay


def test_settings_of_the_paper_arrive():
    """SGD with momentum 0.9; Adam with betas 0.9 and 0.99 (section 3.3)."""
    net = nn.Linear(3, 2)
    sgd = build_optimizer(net.named_parameters(), OptimizerConfig("sgd", 1e-6))
    adam = build_optimizer(net.named_parameters(), OptimizerConfig("adam", 1e-6))
    assert sgd.param_groups[0]["momentum"] == 0.9
    assert adam.param_groups[0]["betas"] == (0.9, 0.99)
    assert sgd.param_groups[0]["lr"] == adam.param_groups[1]["lr"] == 1e-6


def test_rates_fall_towards_the_first_layers():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1))
    config = OptimizerConfig("adamw", 0.1, weight_decay=0.3, layer_decay=0.5)
    optimizer = build_optimizer(net.named_parameters(), config, lambda name: 2 - int(name[0]))
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    for layer, rate in zip(net, (0.025, 0.05, 0.1), strict=True):
        assert groups[id(layer.weight)]["lr"] == groups[id(layer.bias)]["lr"] == pytest.approx(rate)
        assert groups[id(layer.weight)]["weight_decay"] == 0.3
        assert groups[id(layer.bias)]["weight_decay"] == 0
    alike = build_optimizer(net.named_parameters(), config)
    assert {group["lr"] for group in alike.param_groups} == {0.1}


def test_layers_with_rates_of_their_own():
    net = nn.ModuleDict(
        {"head": nn.Linear(2, 2), "heads": nn.Linear(2, 2), "rest": nn.Linear(2, 2)}
    )
    config = OptimizerConfig("adam", 0.1, rates={"head": 0.2, "head.bias": 0.3})
    groups = build_optimizer(net.named_parameters(), config).param_groups
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    found = {name: rates[id(p)] for name, p in net.named_parameters()}
    assert found.pop("head.weight") == 0.2
    assert found.pop("head.bias") == 0.3
    assert set(found.values()) == {0.1}


def test_a_rate_for_a_layer_that_is_not_there():
    with pytest.raises(UsageError, match="no layer is called 'haed'"):
        build_optimizer(
            nn.Linear(2, 2).named_parameters(), OptimizerConfig("adam", 0.1, rates={"haed": 0.2})
        )


def test_rates_over_time():
    constant = ScheduleConfig()
    assert [rate_factor(step, 100, constant) for step in (0, 50, 99)] == [1, 1, 1]
    warm = ScheduleConfig(warmup=10)
    assert [rate_factor(step, 100, warm) for step in (0, 4, 9, 50)] == pytest.approx(
        [0.1, 0.5, 1, 1]
    )
    cosine = ScheduleConfig(decay="cosine")
    half = LAST_RATE + (1 - LAST_RATE) / 2
    assert [rate_factor(step, 101, cosine) for step in (0, 50, 100)] == pytest.approx(
        [1, half, LAST_RATE]
    )
    both = [rate_factor(step, 50, ScheduleConfig(warmup=5, decay="cosine")) for step in range(50)]
    assert max(both) == both[4]
    assert all(0 < factor <= 1 for factor in both)
    assert rate_factor(0, 1, cosine) == 1


def test_the_moving_average_follows_the_weights():
    net = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(net.weight)
    ema = EMA(net, 0.9)
    nn.init.ones_(net.weight)
    expected = 0.0
    for step in range(200):
        ema.update(net, step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay)
        assert float(ema.values["weight"]) == pytest.approx(expected, rel=1e-5)
    assert float(ema.values["weight"]) > 0.99
    assert float(net.weight.detach()) == 1.0  # the net itself is left alone


def test_the_moving_average_includes_buffers():
    net = nn.BatchNorm1d(2)
    ema = EMA(net, 0.5)
    net(torch.randn(8, 2) + 3)
    ema.update(net, 1000)
    assert int(ema.values["num_batches_tracked"]) == 1
    torch.testing.assert_close(ema.values["running_mean"], net.running_mean / 2)


def test_a_slow_average_starts_quickly():
    """The start must not linger: after 100 steps with decay 0.9999 hardly anything of it is
    left."""
    net = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(net.weight)
    ema = EMA(net, 0.9999)
    nn.init.ones_(net.weight)
    for step in range(100):
        ema.update(net, step)
    assert 1 - float(ema.values["weight"]) < 0.01
    assert math.isclose(0.9999**100, 0.99, abs_tol=1e-3)  # what it would be otherwise
