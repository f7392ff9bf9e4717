from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.evaluation.proposals import proposal_recall


def test_by_hand() -> None:
    truths = [[[0, 0, 10, 10], [50, 50, 60, 60]], [[0, 0, 10, 10]]]
    # image 0: IoU .6 with the first truth, then the second truth exactly; image 1: nothing proposed
    proposals = [[[0, 0, 10, 6], [50, 50, 60, 60]], np.empty((0, 4))]
    recall = proposal_recall(truths, proposals, thresholds=(0.5, 0.7), counts=(1, 2))
    assert recall == {
        "1": {"0.5": pytest.approx(1 / 3), "0.7": 0},
        "2": {"0.5": pytest.approx(2 / 3), "0.7": pytest.approx(1 / 3)},
    }


def test_the_threshold_itself_is_enough() -> None:
    assert proposal_recall([[[0, 0, 10, 10]]], [[[0, 0, 10, 5]]], (0.5,), (300,)) == {
        "300": {"0.5": 1}
    }


def test_images_without_truths_do_not_count() -> None:
    assert proposal_recall([[], [[0, 0, 1, 1]]], [[[0, 0, 1, 1]]] * 2, (0.5,), (1,)) == {
        "1": {"0.5": 1}
    }
    with pytest.raises(DataError, match="no true box"):
        proposal_recall([[]], [[[0, 0, 1, 1]]])
