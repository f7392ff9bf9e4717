from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regiontalk.errors import DataError
from regiontalk.lab.evaluation import ranking
from regiontalk.lab.evaluation.ranking import ScoreMatrix, evaluate_ranking, load_scores, recalls


def matrix(rows: list[list[float]], owners: list[int]) -> ScoreMatrix:
    return ScoreMatrix(np.array(rows, dtype=float), np.array(owners))


def test_by_hand() -> None:
    # Two images, two sentences each.
    model = matrix([[5, 1, 4, 0], [9, 2, 3, 1]], [0, 0, 1, 1])
    result = evaluate_ranking([model])
    # Image 0: own best 5 beats 4, 0: rank 1. Image 1: own best 3, beaten by 9: rank 2.
    assert result["image_to_text"] == {"r1": 50, "r5": 100, "r10": 100, "median_rank": 1.5}
    # Sentence 0: own 5 beaten by 9: 2. Sentence 1: own 1 beaten by 2: 2. Sentence 2: own 3 by 4: 2.
    # 3: 1.
    assert result["text_to_image"] == {"r1": 25, "r5": 100, "r10": 100, "median_rank": 2}
    assert (result["images"], result["sentences"], result["models"]) == (2, 4, 1)


def test_a_model_that_cannot_tell_gets_the_last_rank() -> None:
    result = evaluate_ranking([matrix([[1.0] * 6] * 3, [0, 0, 1, 1, 2, 2])])
    assert result["image_to_text"] == {
        "r1": 0,
        "r5": 100,
        "r10": 100,
        "median_rank": 5,
    }  # four foreign sentences tie
    assert result["text_to_image"]["median_rank"] == 3


def test_models_are_averaged() -> None:
    good = matrix([[2, 1], [1, 2]], [0, 1])
    bad = matrix([[1, 2], [2, 1]], [0, 1])
    result = evaluate_ranking([good, bad])
    assert result["image_to_text"] == {"r1": 50, "r5": 100, "r10": 100, "median_rank": 1.5}
    assert result["text_to_image"] == {"r1": 50, "r5": 100, "r10": 100, "median_rank": 1.5}
    assert result["models"] == 2


def test_intervals_draw_images_with_their_sentences() -> None:
    # Image 0 and its two sentences always come first; image 1 and its only sentence come second.
    model = matrix([[9, 9, 1], [2, 2, 0]], [0, 0, 1])
    assert "intervals" not in evaluate_ranking([model])
    intervals = evaluate_ranking([model], intervals=True)["intervals"]
    assert set(intervals) == {"image_to_text", "text_to_image"}
    for direction in intervals.values():
        assert direction["r1"] == [0, 100]
        assert direction["r5"] == [100, 100]


def test_no_model() -> None:
    with pytest.raises(DataError, match="no scores"):
        evaluate_ranking([])


def test_the_first_images_alone() -> None:
    model = matrix([[1, 2, 9], [1, 2, 9], [0, 0, 1]], [1, 0, 2]).first(2)
    assert model.scores.tolist() == [[1, 2], [1, 2]]
    assert model.owners.tolist() == [1, 0]


@given(
    arrays.arrays(np.int64, (7, 21), elements=st.integers(0, 5)),
    st.permutations([n % 7 for n in range(21)]),
)
@settings(deadline=None)
def test_equals_the_definition(scores: np.ndarray, owners: list[int]) -> None:
    model = ScoreMatrix(scores.astype(float), np.array(owners))
    to_text = []
    for image in range(7):
        best = max(scores[image, n] for n in range(21) if owners[n] == image)
        to_text.append(1 + sum(scores[image, n] >= best for n in range(21) if owners[n] != image))
    to_image = [
        1
        + sum(scores[other, n] >= scores[owners[n], n] for other in range(7) if other != owners[n])
        for n in range(21)
    ]
    result = evaluate_ranking([model])
    assert result["image_to_text"] == recalls(np.array(to_text))
    assert result["text_to_image"] == recalls(np.array(to_image))


def test_blocks_of_rows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScoreMatrix(np.random.default_rng(0).normal(size=(10, 50)), np.arange(50) // 5)
    whole = evaluate_ranking([model])
    monkeypatch.setattr(ranking, "ROWS_AT_ONCE", 3)
    assert evaluate_ranking([model]) == whole


def test_npy_npz_and_lines_agree(tmp_path: Path) -> None:
    scores = np.arange(12.0).reshape(2, 6)
    np.save(tmp_path / "s.npy", scores)
    np.savez(tmp_path / "s.npz", scores=scores, owners=np.array([0, 1, 0, 1, 0, 1]))
    lines = [
        {"scores": row, "sentences": [n, n + 2, n + 4]} for n, row in enumerate(scores.tolist())
    ]
    (tmp_path / "s.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    assert load_scores(tmp_path / "s.npy").owners.tolist() == [0, 0, 0, 1, 1, 1]
    arrays_, lines_ = load_scores(tmp_path / "s.npz"), load_scores(tmp_path / "s.jsonl")
    assert arrays_.owners.tolist() == lines_.owners.tolist() == [0, 1, 0, 1, 0, 1]
    assert np.array_equal(arrays_.scores, lines_.scores)


def test_lines_without_owners_share_evenly(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"scores": [1, 2, 3, 4]}\n{"scores": [1, 2, 3, 4]}\n')
    assert load_scores(tmp_path / "s.jsonl").owners.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.ones((2, 5)), "shared evenly"),
        (np.array([[1.0, 2], [np.nan, 1]]), "image 1 and sentence 0 is not finite"),
        (np.ones(4), "must be a matrix"),
        (np.ones((0, 5)), "must be a matrix"),
        (np.array([["a", "b"]]), "must be a matrix"),
    ],
)
def test_bad_matrices(tmp_path: Path, array: np.ndarray, reason: str) -> None:
    np.save(tmp_path / "s.npy", array)
    with pytest.raises(DataError, match=reason):
        load_scores(tmp_path / "s.npy")


@pytest.mark.parametrize("owners", [[0, 0, 0], [0, 5, 1], [0, 1]])
def test_bad_owners(tmp_path: Path, owners: list[int]) -> None:
    np.savez(tmp_path / "s.npz", scores=np.ones((2, 3)), owners=np.array(owners))
    with pytest.raises(DataError, match=r"s\.npz"):
        load_scores(tmp_path / "s.npz")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("s.npy", b"not numpy", "numpy"),
        ("s.npz", b"PK\x03\x04 broken", "numpy"),
        ("s.jsonl", b'{"scores": [1, 2]}\n{"scores": [1]}\n', "line 2: 1 scores, 2 in the first"),
        ("s.jsonl", b'{"scores": [1, 2]}\n{"score', "line 2: wrong JSON"),
        ("s.jsonl", b'{"path": "a"}\n', "line 1"),
        ("s.jsonl", b"", "empty"),
    ],
)
def test_unreadable_scores(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=reason):
        load_scores(tmp_path / name)


def test_an_archive_without_scores(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", other=np.ones((2, 2)))
    with pytest.raises(DataError, match="no array 'scores'"):
        load_scores(tmp_path / "s.npz")
