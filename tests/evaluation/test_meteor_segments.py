from __future__ import annotations

import numpy as np
import pytest

from regiontalk.evaluation.meteor.arrays import Paraphrases, Questions, Sentences, Words

pytest.importorskip("numba")

from regiontalk.evaluation.meteor.segments import evaluate_segments


def test_each_pair_gets_its_own_lengths() -> None:
    """Three sentences of 1, 2 and 3 words, the longer ones beginning with the shorter."""
    none = np.empty(0, np.int64)
    keys = np.arange(3)
    words = Words(keys, keys, np.full(3, -1), np.zeros(3, np.bool_), none, np.zeros(4, np.int64))
    sentences = Sentences(np.array([0, 0, 1, 0, 1, 2]), np.array([0, 1, 3, 6]))
    paraphrases = Paraphrases(0, *(np.zeros(1, np.int32) for _ in range(4)))
    questions = Questions(np.array([2, 0]), np.array([0, 1, 2, 1]), np.array([0, 2, 4]))
    scores, statistics = evaluate_segments(questions, sentences, words, paraphrases)
    assert statistics[:, [0, 2, 10, 12, 20]].tolist() == [[3, 2, 2, 2, 1], [1, 1, 2, 1, 1]]
    precision, recall = 2 / 3, 1
    assert scores[0] == pytest.approx((1 - 0.6 * 0.5**0.2) / (0.15 / precision + 0.85 / recall))
