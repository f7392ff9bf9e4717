"""The background of taught words: stored small, read strictly."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from regiontalk.errors import ModelError
from regiontalk.models.background import Background, Space, read_background, to_length_1


def a_space(regions: int = 60, size: int = 24, axes: int = 8) -> Space:
    random = np.random.default_rng(0)
    spread = np.geomspace(1e-2, 1e2, axes)
    return Space(
        random.normal(size=size).astype(np.float32),
        (random.normal(size=(size, axes)) * spread).astype(np.float32),
        to_length_1(random.normal(size=(regions, axes)).astype(np.float32)),
    )


def test_it_is_read_back_with_nearly_the_same_places() -> None:
    space = a_space()
    back = read_background(Background(space, space).to_bytes(), "background.npz")
    codes = np.random.default_rng(1).normal(size=(50, 24)).astype(np.float32)
    assert back.vectors is not None
    for read in (back.codes, back.vectors):
        assert (read.place(codes) * space.place(codes)).sum(axis=1).min() > 0.999
        assert (read.places * space.places).sum(axis=1).min() > 0.999


def test_a_model_without_an_alignment_head_has_codes_alone() -> None:
    assert read_background(Background(a_space()).to_bytes(), "x").vectors is None


def changed(**arrays: Any) -> bytes:
    with np.load(io.BytesIO(Background(a_space()).to_bytes())) as stored:
        whole = dict(stored) | arrays
    buffer = io.BytesIO()
    np.savez(buffer, **{name: array for name, array in whole.items() if array is not None})
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 nothing",
        Background(a_space()).to_bytes()[:-40],
        changed(codes_mean=None),
        changed(codes_mean=np.full(24, np.nan, dtype=np.float32)),
        changed(codes_mean=np.zeros(23, dtype=np.float32)),
        changed(codes_axes=np.zeros((24, 7), dtype=np.int8)),
        changed(codes_places=np.zeros((60, 8), dtype=np.float64)),
        changed(codes_places=np.zeros((3, 8), dtype=np.int8)),
        changed(more=np.zeros(3)),
        changed(codes_mean=np.array([{}], dtype=object)),  # a pickle
    ],
)
def test_anything_else_is_an_error_of_the_model(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"background\.npz"):
        read_background(data, "background.npz")
