from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_up_entries import MODEL, entry, vectors_of
from regiontalk.inference import maxsim
from regiontalk.search.sqlite import vector_file
from regiontalk.search.sqlite.vector_file import (
    best_products,
    blocks,
    checksums,
    detail_file,
    quantize,
    restore,
    to_slots,
)
from regiontalk.search.store import IndexedModel


def test_the_best_ten_are_among_the_best_in_8_bits_and_exact_in_12() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((2000, 20, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    packed = [quantize(one) for one in vectors]
    file = vector_file.vector_file(Path(), IndexedModel("", "", 20, 64, 0))
    slots = file.make([{"scales": scales, "steps": steps} for scales, steps, _ in packed])
    finer = np.stack([restore(*one) for one in packed])
    for _ in range(20):
        words = rng.standard_normal((3, 64)).astype(np.float32)
        exact = maxsim.word_scores(vectors, words).mean(axis=1)
        found = best_products(slots, words).mean(axis=1)
        np.testing.assert_allclose(found, exact, atol=0.03)
        candidates = np.argsort(-found)[:100]
        again = candidates[np.argsort(-maxsim.word_scores(finer[candidates], words).mean(axis=1))]
        assert again[:10].tolist() == np.argsort(-exact)[:10].tolist()


@pytest.mark.parametrize("shape", [(3, 8), (3, 7), (1, 1)])
def test_numbers_come_back_to_12_bits(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * [[5]]
    largest = np.abs(rows).max(axis=1, keepdims=True)
    assert (np.abs(restore(*quantize(rows)) - rows) <= largest / 127 / 16 * 0.51).all()


def test_zeros_stay_zeros() -> None:
    scales, steps, rest = quantize(np.zeros((2, 4), np.float32))
    assert (scales > 0).all()
    assert not steps.any()
    assert not restore(scales, steps, rest).any()


def test_missing_regions_change_no_maximum() -> None:
    few, words = entry(1, rows=2), vectors_of(2, rows=3)
    slots = vector_file.vector_file(Path(), MODEL).make([to_slots(few, MODEL)[0]])
    assert slots["steps"].shape == (1, 5, 12)
    np.testing.assert_allclose(
        best_products(slots, words), maxsim.word_scores(few.vectors[None], words), atol=0.01
    )


def test_every_flipped_byte_changes_a_checksum() -> None:
    slots = detail_file(Path(), MODEL).make(
        [to_slots(entry(number), MODEL)[1] for number in range(2)]
    )
    before, size = checksums(slots), slots.dtype.itemsize
    for place in range(size):
        changed = slots.copy()
        changed.view(np.uint8).reshape(2, -1)[1, place] ^= 16
        assert (checksums(changed) == before).tolist() == [True, False]


def test_slots_come_back_and_leftovers_go(tmp_path: Path) -> None:
    file = vector_file.vector_file(tmp_path / "vectors.bin", MODEL)
    slots = file.make([to_slots(entry(number), MODEL)[0] for number in range(5)])
    file.append(slots[:2], 0)
    file.append(slots[2:], 2)
    assert (file.open(5) == slots).all()
    file.cut(3)
    assert (file.open(3) == slots[:3]).all()
    with pytest.raises(ValueError, match="mmap length"):
        file.open(4)


def test_blocks_cover_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "BLOCK_PRODUCTS", 72)  # two slots
    wanted = np.array([0, 0, 0, 1, 0, 0, 1], dtype=bool)
    assert list(blocks(36, wanted)) == [slice(2, 4), slice(6, 7)]
