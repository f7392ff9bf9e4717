"""The background of taught words: stored small, read strictly."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from regiontalk.errors import ModelError
from regiontalk.models.background import (
    Background,
    NamedRegions,
    Space,
    read_background,
    to_length_1,
)


def a_space(regions: int = 60, size: int = 24, axes: int = 8) -> Space:
    random = np.random.default_rng(0)
    spread = np.geomspace(1e-2, 1e2, axes)
    return Space(
        random.normal(size=size).astype(np.float32),
        (random.normal(size=(size, axes)) * spread).astype(np.float32),
        to_length_1(random.normal(size=(regions, axes)).astype(np.float32)),
    )


PLAIN = Background(a_space())


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


def named_regions(count: int = 30) -> NamedRegions:
    inputs = np.random.default_rng(2).normal(size=(count, 6)).astype(np.float32)
    return NamedRegions(inputs, tuple(f"thing {number}" for number in range(count)))


def test_named_regions_are_read_back() -> None:
    named = named_regions()
    back = read_background(Background(a_space(), named=named).to_bytes(), "x").named
    assert back is not None
    assert back.names == named.names
    np.testing.assert_allclose(back.inputs, named.inputs, atol=0.02)


@pytest.mark.parametrize(
    "arrays",
    [
        {"named_names": np.frombuffer(b'["a"]', np.uint8)},
        {"named_names": np.frombuffer(b"[", np.uint8)},
        {"named_inputs": np.zeros((30, 5), np.int8)},
        {"named_inputs_scales": np.full(6, np.nan, np.float32)},
        {"named_inputs": None},
    ],
)
def test_broken_named_regions_are_an_error_of_the_model(arrays: dict[str, Any]) -> None:
    data = changed(Background(a_space(), named=named_regions()), **arrays)
    with pytest.raises(ModelError, match="background"):
        read_background(data, "background.npz")


def changed(background: Background = PLAIN, **arrays: Any) -> bytes:
    with np.load(io.BytesIO(background.to_bytes())) as stored:
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
