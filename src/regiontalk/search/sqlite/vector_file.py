"""Numbers of photos on disk: a file of slots, one for each photo, mapped into memory and never
loaded.

Numbers are stored relative to the largest one of their row. A query reads 8 bits of every vector; 4
more bits and the inputs of the language model are in a second file, which is read for the best
photos only. Slots are appended and never overwritten, so readers need no lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk.search.store import Entry, Floats, IndexedModel

STEPS_PER_SIDE = 127  # of 8 bits, on each side of 0
FINER_STEPS = 16  # finer steps in each of them, by the 4 more bits
STATE_ROW = 128  # numbers of a state that share a scale
BLOCK_PRODUCTS = (
    1 << 19
)  # at a time: they fit into a core's cache, and are too few for BLAS to start threads

Slots = NDArray[np.void]
"""Structured, with the fields of a `SlotFile`."""
Steps = NDArray[np.int8]


def quantize(rows: Floats) -> tuple[Floats, Steps, NDArray[np.uint8]]:
    """Rows (R, n) -> size of a step (R,), steps (R, n), and the 4 more bits of two numbers in each
    byte."""
    scales = (
        np.maximum(
            np.abs(rows).max(axis=1), np.finfo(np.float32).tiny * FINER_STEPS * STEPS_PER_SIDE
        )
        / STEPS_PER_SIDE
    )  # (R,)
    fine = np.rint(rows / scales[:, None] * FINER_STEPS).astype(np.int16)
    steps = (fine + FINER_STEPS // 2) // FINER_STEPS
    finer = (fine - FINER_STEPS * steps + FINER_STEPS // 2).astype(np.uint8).ravel()
    pairs = np.pad(finer, (0, finer.size % 2)).reshape(-1, 2)
    return (
        scales.astype(np.float32),
        steps.astype(np.int8),
        pairs[:, 0] * np.uint8(FINER_STEPS) + pairs[:, 1],
    )


def restore(scales: Floats, steps: Steps, rest: NDArray[np.uint8]) -> Floats:
    """The inverse of `quantize`: rows (R, n), to 12 bits."""
    finer = (
        np.stack([rest // FINER_STEPS, rest % FINER_STEPS], axis=1)
        .ravel()[: steps.size]
        .reshape(steps.shape)
    )
    exact = (steps + (finer.astype(np.float32) - FINER_STEPS // 2) / FINER_STEPS) * scales[:, None]
    return exact.astype(np.float32)


def to_slots(entry: Entry, model: IndexedModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a photo's slots in the files of vectors and details. Missing regions are padded
    with the whole photo, which changes no maximum."""
    filled = np.repeat(entry.vectors[:1], model.regions - len(entry.vectors), axis=0)
    scales, steps, rest = quantize(np.concatenate([entry.vectors, filled]))
    state = np.pad(entry.state, (0, -len(entry.state) % STATE_ROW)).reshape(-1, STATE_ROW)
    state_scales, state_steps, _ = quantize(state)
    details = {"rest": rest, "state_scales": state_scales, "state_steps": state_steps}
    return {"scales": scales, "steps": steps}, details


@dataclass(frozen=True)
class SlotFile:
    """`fields`: name -> numpy dtype and shape in a slot."""

    path: Path
    fields: Mapping[str, Any]

    @property
    def layout(self) -> np.dtype[np.void]:
        """The type of a slot: its size in bytes is a multiple of 8, so that checksums are quick."""
        fields = [(name, *form) for name, form in self.fields.items()]
        return np.dtype([*fields, ("filled_up", "u1", (-np.dtype(fields).itemsize % 8,))])

    def make(self, photos: list[dict[str, Any]]) -> Slots:
        """(N,) slots, of the fields of as many photos."""
        slots = np.zeros(len(photos), self.layout)
        for name in self.fields:
            slots[name] = np.stack([photo[name] for photo in photos])
        return slots

    def append(self, slots: Slots, first: int) -> None:
        """Writes slots (N,) from number `first` on, and syncs them to disk."""
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            file.seek(first * self.layout.itemsize)
            file.write(slots.tobytes())
            file.flush()
            os.fsync(file.fileno())

    def cut(self, slots: int) -> None:
        """Drops what a killed process wrote after the last valid slot."""
        size = slots * self.layout.itemsize
        if self.path.exists() and self.path.stat().st_size > size:
            os.truncate(self.path, size)

    def open(self, slots: int) -> Slots:
        """The first slots (N,), mapped. Raises `ValueError` if there are fewer."""
        return (
            np.memmap(self.path, self.layout, "r", shape=(slots,))
            if slots
            else np.zeros(0, self.layout)
        )


def vector_file(path: Path, model: IndexedModel) -> SlotFile:
    return SlotFile(
        path, {"scales": ("<f4", (model.regions,)), "steps": ("i1", (model.regions, model.size))}
    )


def detail_file(path: Path, model: IndexedModel) -> SlotFile:
    rows = -(-model.state // STATE_ROW)
    fields = {"rest": ("u1", (-(-model.regions * model.size // 2),))}
    return SlotFile(
        path, fields | {"state_scales": ("<f4", (rows,)), "state_steps": ("i1", (rows, STATE_ROW))}
    )


def checksums(slots: Slots) -> NDArray[np.int64]:
    """(N,): the sum of a slot's bytes, eight at a time. Any changed byte changes it."""
    flat = np.ascontiguousarray(slots).view(np.int64).reshape(len(slots), slots.dtype.itemsize // 8)
    sums: NDArray[np.int64] = flat.sum(axis=1)
    return sums


def blocks(products: int, wanted: NDArray[np.bool_]) -> Iterator[slice]:
    """Blocks of slots of at most `BLOCK_PRODUCTS` products each; those without a wanted slot (N,)
    are left out."""
    step = max(1, BLOCK_PRODUCTS // products)
    for start in range(0, len(wanted), step):
        if wanted[start : start + step].any():
            yield slice(start, min(start + step, len(wanted)))


def best_products(slots: Slots, words: Floats) -> Floats:
    """Slots of vectors (N,) and words (W, h) -> the largest product of each word, (N, W), to 8
    bits."""
    steps = slots["steps"]
    scales = slots["scales"]
    count, regions, size = steps.shape
    products = (steps.astype(np.float32).reshape(-1, size) @ words.T).reshape(
        count, regions, len(words)
    )
    largest: Floats = (products * scales[:, :, None]).max(axis=1)
    return largest
