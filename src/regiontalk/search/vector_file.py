"""Vectors of regions on disk: one slot of R × h 16-bit numbers for each photo, mapped into memory and never loaded.

A number is stored as a share of the largest one in its slot, in steps of 1/32767: finer than float16, and numpy turns
it into float32 many times faster. Slots are appended and never written again, so readers need no lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.search.store import Floats

STEPS = 32767
BLOCK_PRODUCTS = 1 << 19  # made at a time: they stay in a core's cache, and are too few for BLAS to start threads for

Slots = NDArray[np.int16]


class Packed(NamedTuple):
    slot: Slots
    """(R, h)"""
    scale: float
    """What a step is worth."""

    @property
    def checksum(self) -> int:
        return int(checksums(self.slot[None])[0])


def pack(vectors: Floats, regions: int) -> Packed:
    """Vectors (r, h) of the whole photo and of r − 1 ≤ R − 1 regions, filled up to R with the first one, which changes
    no maximum."""
    filled = np.concatenate([vectors, np.repeat(vectors[:1], regions - len(vectors), axis=0)])
    scale = float(np.abs(filled).max()) / STEPS or 1.0
    return Packed(np.rint(filled / scale).astype(np.int16), scale)


def checksums(slots: Slots) -> NDArray[np.int64]:
    """Slots (N, R, h) -> (N,): the sum of their bytes, taken eight at a time where that goes. Any flipped byte
    changes it."""
    flat = np.ascontiguousarray(slots).reshape(len(slots), -1)
    wide = np.int64 if flat.shape[1] % 4 == 0 else np.int16
    sums: NDArray[np.int64] = flat.view(wide).sum(axis=1, dtype=np.int64)
    return sums


@dataclass(frozen=True)
class VectorFile:
    path: Path
    regions: int
    size: int

    @property
    def slot_bytes(self) -> int:
        return 2 * self.regions * self.size

    def append(self, slots: Slots, first: int) -> None:
        """Writes slots (N, R, h) from number `first` on, and has them on the disk."""
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.seek(first * self.slot_bytes)
            file.write(np.ascontiguousarray(slots).tobytes())
            file.flush()
            os.fsync(file.fileno())

    def cut(self, slots: int) -> None:
        """Drops what a killed process wrote behind the last slot that counts."""
        if self.path.exists() and self.path.stat().st_size > slots * self.slot_bytes:
            os.truncate(self.path, slots * self.slot_bytes)

    def open(self, slots: int) -> Slots:
        """The first slots (N, R, h), mapped. `ValueError` where there are fewer."""
        shape = (slots, self.regions, self.size)
        return np.memmap(self.path, np.int16, "r", shape=shape) if slots else np.zeros(shape, np.int16)


def blocks(mapped: Slots, wanted: NDArray[np.bool_], words: int) -> Iterator[slice]:
    """Ranges of slots to work on at a time; those without a wanted slot are left out. `wanted`: (N,)"""
    step = max(1, BLOCK_PRODUCTS // (mapped.shape[1] * mapped.shape[2] * words))
    for start in range(0, len(mapped), step):
        if wanted[start : start + step].any():
            yield slice(start, min(start + step, len(mapped)))


def best_products(slots: Slots, words: Floats) -> Floats:
    """Slots (N, R, h) and words (W, h) -> the largest product of each word, (N, W), in steps."""
    count, regions, size = slots.shape
    products = slots.reshape(count * regions, size).astype(np.float32) @ words.T
    largest: Floats = products.reshape(count, regions, len(words)).max(axis=1)
    return largest
