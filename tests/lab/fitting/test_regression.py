"""What the fits share."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regiontalk.lab.fitting.regression import conditional_logit


def test_choices_among_many_do_not_make_newtons_method_diverge() -> None:
    """One choice of 200 stands out, and is right in two cases of three: from zero, Newton's full
    step goes so far that a wrong choice is certain, where nothing leads back."""
    queries, choices = 60, 200
    features = np.random.default_rng(0).normal(size=(queries, choices, 1)) * 0.02
    features[:, 0] += 1
    right = np.zeros((queries, choices), dtype=bool)
    for number in range(queries):
        right[number, 0 if number % 3 else 1] = True
    (weight,) = conditional_logit(features, np.ones_like(right), right)
    assert weight == pytest.approx(math.log(2 * (choices - 1)), abs=0.3)
