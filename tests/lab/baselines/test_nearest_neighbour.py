"""The retrieval baseline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import DataError
from regiontalk.lab.baselines.nearest_neighbour import nearest, transferred_sentences
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record


@given(st.integers(0, 2**32 - 1), st.integers(1, 600), st.integers(1, 20))
def test_nearest_is_the_smallest_distance(seed: int, queries: int, known: int) -> None:
    random = np.random.default_rng(seed)
    a = random.integers(-3, 4, size=(queries, 4)).astype(
        np.float32
    )  # whole numbers: distances are exact
    b = random.integers(-3, 4, size=(known, 4)).astype(np.float32)
    distances = ((a[:, None] - b[None]) ** 2).sum(axis=2)
    assert nearest(a, b).tolist() == distances.argmin(axis=1).tolist()


def test_a_photo_gets_the_first_sentence_of_its_neighbour() -> None:
    codes = np.zeros((4, 2, 3), dtype=np.float16)
    codes[:, 0] = [[0, 0, 1], [5, 0, 0], [0, 0, 0], [4, 0, 0]]
    codes[:, 1] = 9  # regions have no say
    boxes = np.zeros((4, 2, 4), dtype=np.float32)
    coded = CodedPhotos(
        ("a", "b", "c", "d"), np.full(4, 2), boxes, np.ones((4, 2), np.float32), codes, "detector"
    )
    training = [
        Record("a", 9, 9, sentences=("A cat .", "A tabby .")),
        Record("b", 9, 9, sentences=("A dog .",)),
        Record("c", 9, 9),  # nothing is said of it, so nothing can be taken from it
    ]
    found = transferred_sentences([Record("d", 9, 9), Record("c", 9, 9)], training, coded)
    assert found == ["A dog .", "A cat ."]
    with pytest.raises(DataError, match="no training photo has a sentence"):
        transferred_sentences([Record("d", 9, 9)], training[2:], coded)
