"""Optimisers, learning rates over time, and the moving average of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from regiontalk.errors import UsageError
from regiontalk.lab.training.recipe.shared import OptimizerConfig, ScheduleConfig

LAST_RATE = 0.01  # of the full rate, where a cosine ends


def build_optimizer(
    named: Iterable[tuple[str, nn.Parameter]],
    config: OptimizerConfig,
    depth: Callable[[str], int] | None = None,
) -> torch.optim.Optimizer:
    """Weights decay; biases and normalisation (one-dimensional) do not.

    `depth` says how many layers follow the one a weight is in; each of them multiplies its rate by
    `layer_decay`.
    """
    named = list(named)
    for key in config.rates:
        if not any(_is_in(name, key) for name, _ in named):
            raise UsageError(f"optimizer.rates: no layer is called {key!r}")
    weights = [
        ((layer_rate(name, config), depth(name) if depth else 0), parameter)
        for name, parameter in named
    ]
    groups = []
    for rate, layers in sorted({place for place, _ in weights}):
        of_layer = [parameter for place, parameter in weights if place == (rate, layers)]
        full_rate = rate * config.layer_decay**layers
        for decay, decays in ((config.weight_decay, True), (0.0, False)):
            params = [parameter for parameter in of_layer if (parameter.dim() > 1) == decays]
            groups.append({"params": params, "lr": full_rate, "weight_decay": decay})
    if config.kind == "sgd":
        return torch.optim.SGD(groups, lr=config.rate, momentum=config.momentum)
    if config.kind == "rmsprop":
        return torch.optim.RMSprop(groups, lr=config.rate, alpha=config.betas[1])
    kind = torch.optim.Adam if config.kind == "adam" else torch.optim.AdamW
    on_gpu = any(parameter.is_cuda for _, parameter in weights)
    return kind(groups, lr=config.rate, betas=config.betas, fused=on_gpu)


def layer_rate(name: str, config: OptimizerConfig) -> float:
    """The rate of a parameter: that of the longest key of `rates` that its name begins with, else
    `rate`."""
    keys = [key for key in config.rates if _is_in(name, key)]
    return config.rates[max(keys, key=len)] if keys else config.rate


def _is_in(parameter: str, layer: str) -> bool:
    return f"{parameter}.".startswith(f"{layer}.")


def rate_factor(step: int, steps: int, config: ScheduleConfig) -> float:
    """The factor of the full rate at a step."""
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.decay == "constant":
        return warm
    done = step / max(steps - 1, 1)
    return warm * (LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * done)))


class EMA:
    """Exponential moving average of a net's weights and buffers, which starts as a copy.

    The decay rises to its full value over the first steps, so that the start is soon forgotten.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.values = {name: value.detach().clone() for name, value in net.state_dict().items()}

    @torch.no_grad()
    def update(self, net: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        averages: list[Tensor] = []
        current: list[Tensor] = []
        for name, value in net.state_dict().items():
            if value.is_floating_point():
                averages.append(self.values[name])
                current.append(value)
            else:
                self.values[name].copy_(value)
        torch._foreach_lerp_(averages, current, 1 - decay)
