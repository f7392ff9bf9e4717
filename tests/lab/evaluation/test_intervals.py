from __future__ import annotations

import numpy as np
import pytest

from regiontalk.boxes import Integers
from regiontalk.lab.evaluation.intervals import bootstrap


def test_a_share_has_the_interval_of_the_binomial() -> None:
    right = np.arange(400) < 100

    def share(sample: Integers) -> dict[str, float]:
        return {"share": float(right[sample].mean())}

    ((low, high),) = bootstrap(len(right), share).values()
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)
    assert (low, high) == (
        pytest.approx(0.25 - half, abs=0.01),
        pytest.approx(0.25 + half, abs=0.01),
    )
    assert bootstrap(len(right), share) == {"share": [low, high]}


def test_what_never_varies_has_no_width() -> None:
    assert bootstrap(5, lambda _: {"always": 3.0}, resamples=10) == {"always": [3.0, 3.0]}
