"""Made-up photos for an index, without a model."""

from __future__ import annotations

import numpy as np

from regiontalk.results import Region
from regiontalk.search.store import Entry, Floats, IndexedModel, PhotoFile

REGIONS, SIZE, STATE = 5, 12, 150
MODEL = IndexedModel("made-up", "0123e5", REGIONS, SIZE, STATE)


def vectors_of(number: int, rows: int = REGIONS) -> Floats:
    vectors = np.random.default_rng(number).standard_normal((rows, SIZE)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def entry(
    number: int, path: str | None = None, taken: str = "2021-05-30T18:05:12", rows: int = REGIONS
) -> Entry:
    """Its captions have its number in them."""
    regions = [Region((0.0, 1.5, 20.0, 30.25), 0.5, "")]
    regions += [
        Region((row, 0.0, 9.0, 9.0), 0.25, f"{row} dogs of {number}", -1.5, 0.75)
        for row in range(1, rows)
    ]
    file = PhotoFile(path or f"{number:04d}.jpg", 100 + number, 5)
    captions = tuple(region.caption for region in regions)
    digest = number.to_bytes(16, "big")
    state = np.random.default_rng(number).standard_normal(STATE).astype(np.float32)
    raw_scores = tuple(0.5 + row / 64 for row in range(rows))
    return Entry(
        file,
        digest,
        taken,
        (20, 30),
        tuple(regions),
        raw_scores,
        captions,
        vectors_of(number, rows),
        state,
    )
