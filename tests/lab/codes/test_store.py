"""A file of codes comes back whole, finds photos by name, and another file is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record


def some_codes(surroundings: bool = False) -> CodedPhotos:
    draw = np.random.default_rng(0).random
    codes = draw((3, 4, 5)).astype(np.float16)
    return CodedPhotos(
        names=("a.jpg", "b.jpg", "c.jpg"),
        counts=np.array([4, 1, 2]),
        boxes_xyxy=draw((3, 4, 4)).astype(np.float32),
        scores=draw((3, 4)).astype(np.float32),
        codes=codes,
        detector="d" * 64,
        surroundings=codes[::-1] if surroundings else None,
    )


def test_a_file_comes_back(tmp_path: Path) -> None:
    coded = some_codes(surroundings=True)
    coded.save(tmp_path / "codes.npz")
    again = CodedPhotos.load(tmp_path / "codes.npz")
    assert (again.names, again.detector) == (coded.names, coded.detector)
    for name in ("counts", "boxes_xyxy", "scores", "codes", "surroundings"):
        assert np.array_equal(getattr(again, name), getattr(coded, name))
    assert CodedPhotos.load(tmp_path / "codes.npz", surroundings=False).surroundings is None


def test_rows_beyond_the_count_are_masked() -> None:
    assert some_codes().mask.tolist() == [
        [True] * 4,
        [True, False, False, False],
        [True, True, False, False],
    ]


def test_a_photo_without_codes_is_named() -> None:
    records = [Record(name, 10, 10) for name in ("c.jpg", "a.jpg")]
    assert some_codes().find(records, "here").tolist() == [2, 0]
    with pytest.raises(DataError, match=r"here: no codes of the photo 'stranger\.png'"):
        some_codes().find([records[0], replace(records[1], image="stranger.png")], "here")


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.npz").write_bytes(b"x")
    for name in ("wrong.npz", "none.npz"):
        with pytest.raises(DataError, match=r"not a file of codes|No such file"):
            CodedPhotos.load(tmp_path / name)
