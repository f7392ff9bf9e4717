"""Optimisers, rates over time, and the running mean of the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from regiontalk.training.recipe import OptimizerConfig, ScheduleConfig

LAST_RATE = 0.01  # of the full rate, where a cosine ends


def build_optimizer(
    named: Iterable[tuple[str, nn.Parameter]], config: OptimizerConfig, depth: Callable[[str], int] | None = None
) -> torch.optim.Optimizer:
    """Weights decay; biases and normalisation (one-dimensional) do not.

    `depth` says how many blocks come after a weight; its rate is multiplied with `layer_decay` as often.
    """
    by_kind: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for name, parameter in named:
        by_kind.setdefault((depth(name) if depth else 0, parameter.dim() > 1), []).append(parameter)
    groups = [
        {
            "params": parameters,
            "lr": config.rate * config.layer_decay**blocks,
            "weight_decay": config.weight_decay if decays else 0.0,
        }
        for (blocks, decays), parameters in sorted(by_kind.items(), key=lambda item: (item[0][0], not item[0][1]))
    ]
    parameters = [parameter for group in by_kind.values() for parameter in group]
    if config.kind == "sgd":
        return torch.optim.SGD(groups, lr=config.rate, momentum=config.momentum)
    if config.kind == "rmsprop":
        return torch.optim.RMSprop(groups, lr=config.rate, alpha=config.betas[1])
    kind = torch.optim.Adam if config.kind == "adam" else torch.optim.AdamW
    on_gpu = any(parameter.is_cuda for parameter in parameters)
    return kind(groups, lr=config.rate, betas=config.betas, fused=on_gpu)


def rate_factor(step: int, steps: int, config: ScheduleConfig) -> float:
    """What the full rate is multiplied with at a step."""
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.decay == "constant":
        return warm
    done = step / max(steps - 1, 1)
    return warm * (LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * done)))


class RunningMean:
    """Exponential moving average of a net's weights and buffers, which starts as a copy.

    The decay rises to its full value over the first steps, so that the start is soon forgotten.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.values = {name: value.detach().clone() for name, value in net.state_dict().items()}

    @torch.no_grad()
    def update(self, net: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        means: list[Tensor] = []
        news: list[Tensor] = []
        for name, value in net.state_dict().items():
            if value.is_floating_point():
                means.append(self.values[name])
                news.append(value)
            else:
                self.values[name].copy_(value)
        torch._foreach_lerp_(means, news, 1 - decay)
