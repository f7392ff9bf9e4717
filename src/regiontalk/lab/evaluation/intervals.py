"""Confidence intervals by the bootstrap (Efron 1979): the figure of many samples, drawn with
replacement from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from regiontalk.boxes import Integers

BOOTSTRAP_SAMPLES = 1000
INTERVAL_COVERAGE = 0.95


def bootstrap(
    count: int,
    figures_of: Callable[[Integers], Mapping[str, float]],
    resamples: int = BOOTSTRAP_SAMPLES,
    seed: int = 0,
) -> dict[str, list[float]]:
    """The 95 % interval, [low, high], of each figure.

    `count`: the items that are drawn, such as photos or queries. `figures_of`: the figures of a
    sample, given by the numbers of its items, from 0 and some of them repeated.
    """
    random = np.random.default_rng(seed)
    samples = [figures_of(random.integers(count, size=count)) for _ in range(resamples)]
    tail = (1 - INTERVAL_COVERAGE) / 2
    intervals = {}
    for name in samples[0]:
        low, high = np.quantile([sample[name] for sample in samples], [tail, 1 - tail])
        intervals[name] = [float(low), float(high)]
    return intervals
