"""Confidence intervals by the bootstrap (Efron 1979): the figure of many samples, drawn with
replacement from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

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
        drawn = [sample[name] for sample in samples]
        # The ends are figures of samples, not between two: a median rank may be infinite.
        low, high = np.quantile(drawn, [tail, 1 - tail], method="inverted_cdf")
        intervals[name] = [float(low), float(high)]
    return intervals


def bootstrap_photos(
    photos: Sequence[Hashable], figures_of: Callable[[Integers], Mapping[str, float]]
) -> dict[str, list[float]]:
    """95 % intervals of figures of items that belong to photos, such as phrases: photos are drawn,
    each with all of its items.

    `photos`: the photo of each item. `figures_of`: the figures of a sample, given by how often each
    item was drawn.
    """
    numbers = {photo: number for number, photo in enumerate(dict.fromkeys(photos))}
    owners = np.array([numbers[photo] for photo in photos])

    def figures_of_photos(sample: Integers) -> Mapping[str, float]:
        return figures_of(np.bincount(sample, minlength=len(numbers))[owners])

    return bootstrap(len(numbers), figures_of_photos)


def bootstrap_shares(
    photos: Sequence[Hashable], right: Mapping[str, Sequence[bool] | Sequence[float]]
) -> dict[str, list[float]]:
    """Intervals of shares: for each name, which of the items are right."""
    outcomes = {name: np.asarray(each, dtype=np.float64) for name, each in right.items()}

    def shares_of(times: Integers) -> dict[str, float]:
        return {name: float(times @ each / times.sum()) for name, each in outcomes.items()}

    return bootstrap_photos(photos, shares_of)
