"""How likely captions are right, from what the network thought of their words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regiontalk.errors import UsageError
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.confidence import features, probabilities
from regiontalk.inference.decoding import Caption
from regiontalk.models.settings import CONFIDENCE_FEATURES, Confidence

CAPTIONS = [Caption((4, 5), (-0.1, -2.0, -0.3)), Caption((5,), (-1.0, -1.0))]
SIZES = np.array([[0.3, 1.5], [0.1, 0.0]])
FITTED: dict[str, Any] = {
    "features": CONFIDENCE_FEATURES,
    "weights": tuple(float(place) for place in range(len(CONFIDENCE_FEATURES))),
    "bias": 0.5,
    "likely": 0.4,
}


def test_features_have_the_names_they_say() -> None:
    first, second = (
        dict(zip(CONFIDENCE_FEATURES, row, strict=True))
        for row in features(CAPTIONS, [True, False], np.array([3.0, -1.0]), SIZES, CAPTIONS[::-1])
    )
    assert first == pytest.approx(
        {
            "mean_logprob": -0.8,
            "least_logprob": -2.0,
            "least_probability": np.exp(-2.0),
            "first_logprob": -0.1,
            "last_logprob": -0.3,
            "words": 2,
            "agrees": 1,
            "logit": 3.0,
            "score": sigmoid(np.array(3.0)),
            "own_least_probability": np.exp(-1.0),
            "own_least_squared": np.exp(-2.0),
            "area": 0.3,
            "enlarged": 1.5,
        }
    )
    assert (second["words"], second["agrees"], second["logit"]) == (1, 0, -1.0)
    assert features([], [], np.zeros(0), SIZES[:0], []).shape == (0, len(CONFIDENCE_FEATURES))


def test_it_is_a_logistic_regression() -> None:
    values = np.random.default_rng(0).normal(size=(5, len(CONFIDENCE_FEATURES)))
    expected = sigmoid(values @ np.arange(len(CONFIDENCE_FEATURES)) + 0.5)
    np.testing.assert_allclose(probabilities(values, Confidence(**FITTED)), expected)
    fewer = Confidence(**FITTED | {"features": CONFIDENCE_FEATURES[2:4], "weights": (2.0, 3.0)})
    np.testing.assert_allclose(probabilities(values, fewer), sigmoid(values[:, 2:4] @ [2, 3] + 0.5))


def test_where_nothing_was_fitted_the_mean_of_the_words_stands_in() -> None:
    values = features(CAPTIONS, [True, False], np.zeros(2), SIZES, CAPTIONS)
    assert probabilities(values, None).tolist() == pytest.approx([np.exp(-0.8), 0.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": ("luck",)}, "other features"),
        ({"weights": (1.0,)}, f"1 weights for {len(CONFIDENCE_FEATURES)} features"),
        ({"bias": float("nan")}, "not a finite number"),
        ({"likely": 1.5}, "likely is 1.5"),
        ({"longer": float("nan")}, "longer is nan"),
        ({"longer": -0.1}, "longer is -0.1"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Confidence(**FITTED | change)
