from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_up_entries import vectors_of
from regiontalk import maxsim
from regiontalk.search import vector_file
from regiontalk.search.vector_file import VectorFile, best_products, blocks, checksums, pack


def test_the_best_ten_are_those_of_exact_products() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((2000, 20, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    packed = [pack(one, 20) for one in vectors]
    slots, scales = np.stack([one.slot for one in packed]), np.array([one.scale for one in packed])
    for _ in range(20):
        words = rng.standard_normal((3, 64)).astype(np.float32)
        exact = maxsim.word_scores(vectors, words).mean(axis=1)
        found = (best_products(slots, words) * scales[:, None]).mean(axis=1)
        np.testing.assert_allclose(found, exact, atol=1e-3)
        assert set(np.argsort(-found)[:10]) == set(np.argsort(-exact)[:10])


def test_missing_regions_change_no_maximum() -> None:
    few, words = vectors_of(1, rows=2), vectors_of(2, rows=3)
    packed = pack(few, 5)
    assert packed.slot.shape == (5, 12)
    exact = maxsim.word_scores(few[None], words)
    np.testing.assert_allclose(best_products(packed.slot[None], words) * packed.scale, exact, atol=1e-3)


def test_vectors_of_zeros_stay_zeros() -> None:
    packed = pack(np.zeros((2, 4), np.float32), 3)
    assert packed.scale > 0
    assert not packed.slot.any()


@pytest.mark.parametrize("size", [12, 7])
def test_every_flipped_byte_changes_a_checksum(size: int) -> None:
    slots = np.random.default_rng(0).integers(-32767, 32767, (2, 3, size)).astype(np.int16)
    before = checksums(slots)
    for place in range(6 * size):
        changed = slots.copy()
        changed.view(np.uint8).reshape(2, -1)[1, place] ^= 16
        assert (checksums(changed) == before).tolist() == [True, False]


def test_slots_come_back_and_leftovers_go(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "vectors.bin", 3, 4)
    slots = np.arange(5 * 12, dtype=np.int16).reshape(5, 3, 4)
    file.append(slots[:2], 0)
    file.append(slots[2:], 2)
    assert (file.open(5) == slots).all()
    file.cut(3)
    assert (file.open(3) == slots[:3]).all()
    with pytest.raises(ValueError, match="mmap length"):
        file.open(4)


def test_blocks_cover_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_file, "BLOCK_PRODUCTS", 72)  # two slots
    slots = np.zeros((7, 3, 4), np.int16)
    wanted = np.array([0, 0, 0, 1, 0, 0, 1], dtype=bool)
    assert list(blocks(slots, wanted, words=3)) == [slice(2, 4), slice(6, 7)]
