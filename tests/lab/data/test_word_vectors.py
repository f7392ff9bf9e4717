"""Word vectors of the words that data sets use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.io.files import json_line
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.data.word_vectors import write_word_vectors


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    record = Record(
        "a.jpg",
        9,
        9,
        sentences=("A cat's nap .",),
        regions=(TrueRegion((0, 0, 9, 9), "Café table"),),
    )
    (tmp_path / "annotations.jsonl").write_bytes(json_line(record.to_dict()))
    return tmp_path


def test_the_words_of_a_data_set_are_picked(dataset: Path) -> None:
    (dataset / "glove.txt").write_text("the 9 9\ntable 0.5 -1\ncats 3 4\ncat 9 9\na 1e-3 2\n")
    assert write_word_vectors(dataset / "glove.txt", [dataset], dataset / "out.npz") == 3
    with np.load(dataset / "out.npz", allow_pickle=False) as stored:
        assert stored["words"].tolist() == ["a", "cats", "table"]
        assert stored["vectors"].dtype == np.float16
        np.testing.assert_allclose(stored["vectors"], [[1e-3, 2], [3, 4], [0.5, -1]], rtol=1e-3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cats one two\n", "line 1: not a word"),
        ("cats 1\na 1 2\n", "different lengths"),
        ("xyz 1 2\n", "none of the words"),
    ],
)
def test_what_is_no_file_of_vectors_is_refused(dataset: Path, text: str, problem: str) -> None:
    (dataset / "glove.txt").write_text(text)
    with pytest.raises(DataError, match=problem):
        write_word_vectors(dataset / "glove.txt", [dataset], dataset / "out.npz")
    assert not (dataset / "out.npz").exists()
