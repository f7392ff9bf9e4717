from __future__ import annotations

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.evaluation.diversity import evaluate_diversity


def test_by_hand() -> None:
    captions = ["a dog", "A dog.", "a red dog", "cat"]
    figures = evaluate_diversity(captions, training=["a dog", "a man"])
    assert (figures["captions"], figures["different_captions"], figures["different"]) == (4, 3, 75)
    assert figures["words"] == 2
    assert figures["distinct1"] == pytest.approx(100 * 4 / 8)  # a, dog, red, cat
    assert figures["distinct2"] == pytest.approx(100 * 3 / 4)  # "a dog" twice, "a red", "red dog"
    assert figures["in_training"] == 50


def test_without_training_captions() -> None:
    assert "in_training" not in evaluate_diversity(["a dog"])


def test_no_caption() -> None:
    with pytest.raises(DataError, match="no caption"):
        evaluate_diversity([])
