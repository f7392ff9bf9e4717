"""The table of names: stored small, read strictly."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from regiontalk.errors import ModelError
from regiontalk.models.name_table import NameTable, read_name_table


def a_table(names: int = 40, size: int = 24) -> NameTable:
    random = np.random.default_rng(0)
    spread = np.geomspace(1e-3, 1e3, size)  # of the columns: those of dead code entries are huge
    weights = (random.normal(size=(names, size)) * spread).astype(np.float32)
    words = tuple(f"name {number}" for number in range(names))
    return NameTable(
        "detector",
        words,
        ("thing", *words[1:]),
        weights,
        random.normal(size=names).astype(np.float32),
    )


def test_a_table_is_read_back_with_nearly_the_same_logits() -> None:
    table = a_table()
    stored = table.to_bytes()
    back = read_name_table(stored, "names.npz")
    assert (back.names, back.coarse, back.detector) == (table.names, table.coarse, table.detector)
    codes = np.random.default_rng(1).normal(size=(200, 24)).astype(np.float32) / np.geomspace(
        1e-3, 1e3, 24
    )
    before = codes @ table.weights.T + table.biases
    after = codes @ back.weights.T + back.biases
    assert (before - after).std() < 0.01 * before.std()  # every column counts, the small ones too
    assert len(stored) < table.weights.nbytes + 3000


def changed(**arrays: Any) -> bytes:
    with np.load(io.BytesIO(a_table().to_bytes())) as stored:
        whole = dict(stored) | arrays
    buffer = io.BytesIO()
    np.savez(buffer, **{name: array for name, array in whole.items() if array is not None})
    return buffer.getvalue()


def text(value: str) -> Any:
    return np.frombuffer(value.encode(), dtype=np.uint8)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04 nothing",
        a_table().to_bytes()[:-40],
        changed(biases=None),
        changed(biases=np.zeros(39, dtype=np.float32)),
        changed(biases=np.zeros(40, dtype=np.float64)),
        changed(biases=np.full(40, np.nan, dtype=np.float32)),
        changed(column_scales=np.zeros(3, dtype=np.float32)),
        changed(weights=np.array([{}], dtype=object)),
        changed(more=np.zeros(1)),
        changed(about=text("[" * 100_000)),
        changed(about=text('{"detector": "x", "names": [], "coarse": []}')),
        changed(about=text('{"detector": "x", "names": ["a", "a"], "coarse": ["a", "a"]}')),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match=r"names\.npz"):
        read_name_table(data, "names.npz")


def test_names_that_mean_what_a_caption_says() -> None:
    names = ("schipperke", "pug", "pagoda", "hot dog", "kite (bird)", "shirt", "person")
    everyday = ("dog", "dog", "building", "hot dog", "bird", "shirt", "person")
    table = NameTable("detector", names, everyday, np.eye(7, dtype=np.float32), np.zeros(7))
    meant = {
        "a small puppy": {"schipperke", "pug"},
        "two black dogs": {"schipperke", "pug"},
        "a pug on a sofa": {"pug", "schipperke"},
        "a hot dog on a plate": {"hot dog"},
        "a kite": {"kite (bird)"},
        "men in red shirts": {"person"},
        "a red shirt": {"shirt"},
        "a ramp": set(),
        "": set(),
    }
    for text, expected in meant.items():
        assert {names[row] for row in table.meant_by(text)} == expected, text
