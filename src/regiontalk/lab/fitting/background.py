"""Makes what taught words are compared with (`models.background`): the axes of a space of regions,
and the places of everyday regions in it.

Shapes: D the size of a code or vector, k axes, M codes, N regions that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regiontalk.errors import DataError
from regiontalk.inference.alignment import HEAD, region_vectors
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.model import Model
from regiontalk.models.background import MIN_REGIONS, Background, Space, to_length_1
from regiontalk.models.runtime import Floats

AXES = 384
SHRINKAGE = 0.5
"""Added to the variances along the axes, as a share of their mean: axes along which hardly anything
varies count less."""
MAX_KEPT = 2400  # regions
REGIONS_OF_PHOTO = 20  # at most: the whole photo and its best regions


@dataclass(frozen=True)
class SeenRegions:
    """The whole of a photo and its best regions."""

    codes: Floats
    """(R, D)"""
    vectors: Floats | None
    """(R, h); None without an alignment head."""


def look_at_regions(asked: DatasetModel, record: Record) -> SeenRegions:
    codes = asked.model.codes(asked.look(record)).codes
    return of_codes(asked.model, codes)


def of_codes(model: Model, codes: Floats) -> SeenRegions:
    """Regions by their codes (R, D)."""
    vectors = region_vectors(model.runtime, codes) if HEAD in model.runtime.heads else None
    return SeenRegions(codes, vectors)


def fit(photos: Sequence[SeenRegions], seed: int = 0) -> tuple[Background, dict[str, Any]]:
    """The background, and how much it was made from."""
    random = np.random.default_rng(seed)
    codes = np.concatenate([photo.codes for photo in photos]).astype(np.float32)
    if len(codes) < MIN_REGIONS:
        raise DataError(
            f"{len(codes)} regions; a background needs {MIN_REGIONS}", hint="more photos"
        )
    kept = np.sort(random.permutation(len(codes))[:MAX_KEPT])
    vectors = None
    if all(photo.vectors is not None for photo in photos):
        rows = np.concatenate([photo.vectors for photo in photos if photo.vectors is not None])
        vectors = _fit_space(rows.astype(np.float32), kept)
    report = {"photos": len(photos), "regions": len(codes), "kept": len(kept)}
    return Background(_fit_space(codes, kept), vectors), report


def _fit_space(codes: Floats, kept: np.ndarray[Any, Any]) -> Space:
    """Principal components of codes (M, D), each divided by its standard deviation."""
    mean = codes.mean(axis=0)
    centred = (codes - mean).astype(np.float64)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(codes))
    best = np.argsort(-variances)[:AXES]
    evened = variances[best] + SHRINKAGE * variances.mean()
    axes = (directions[:, best] / np.sqrt(evened)).astype(np.float32)
    places = to_length_1((codes[kept] - mean) @ axes)
    return Space(mean.astype(np.float32), axes, places)
