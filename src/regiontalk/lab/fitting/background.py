"""Makes what taught words are compared with (`models.background`): the axes of a space of regions,
and the places of everyday regions in it; and named regions, on which `regiontalk teach --train`
checks that a model forgets nothing.

Shapes: D the size of a code or vector, k axes, M codes, N regions that are kept, E the language
model's region input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from regiontalk.errors import DataError
from regiontalk.inference.alignment import ALIGNMENT_HEAD, region_vectors
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.fitting.names import MAX_BOXES
from regiontalk.model import Model
from regiontalk.models.background import (
    MIN_REGIONS,
    Background,
    NamedRegions,
    Space,
    to_length_1,
)
from regiontalk.models.runtime import Floats

MAX_AXES = 384
SHRINKAGE = 0.5
"""Added to the variances along the axes, as a share of their mean: axes along which hardly anything
varies count less."""
MAX_KEPT = 2400  # regions
REGIONS_OF_PHOTO = 20  # at most: the whole photo and its best regions
MAX_NAMED = 2000  # regions


@dataclass(frozen=True)
class SeenRegions:
    """The whole of a photo and its best regions."""

    codes: Floats
    """(R, D)"""
    vectors: Floats | None
    """(R, h); None without an alignment head."""
    named: NamedRegions | None = None
    """Regions of the photo whose names are known."""


def look_at_regions(dataset_model: DatasetModel, record: Record) -> SeenRegions:
    codes = dataset_model.model.codes(dataset_model.look(record)).codes
    return replace(
        of_codes(dataset_model.model, codes), named=_look_at_named(dataset_model, record)
    )


def _look_at_named(dataset_model: DatasetModel, record: Record) -> NamedRegions | None:
    """The photo's marked regions, by their phrases or the everyday words of their names."""
    regions = [region for region in record.regions if region.phrase][:MAX_BOXES]
    if not regions:
        return None
    looked_at = dataset_model.coded_boxes(record, boxes_of(regions))
    names = tuple((region.coarse or region.phrase).lower() for region in regions)
    return NamedRegions(looked_at.state[2][1:], names)


def of_codes(model: Model, codes: Floats) -> SeenRegions:
    """Regions by their codes (R, D)."""
    vectors = (
        region_vectors(model.runtime, codes) if ALIGNMENT_HEAD in model.runtime.heads else None
    )
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
    named = choose_named([photo.named for photo in photos if photo.named is not None], seed)
    return Background(_fit_space(codes, kept), vectors, named), report


def choose_named(photos: Sequence[NamedRegions], seed: int = 0) -> NamedRegions | None:
    """So many of the named regions of photos, drawn at random; None if they are too few."""
    names = list(chain.from_iterable(photo.names for photo in photos))
    if len(names) < MIN_REGIONS:
        return None
    inputs = np.concatenate([photo.inputs for photo in photos]).astype(np.float32)
    chosen = np.random.default_rng(seed).permutation(len(names))[:MAX_NAMED]
    return NamedRegions(inputs[chosen], tuple(names[row] for row in chosen.tolist()))


def _fit_space(codes: Floats, kept: np.ndarray[Any, Any]) -> Space:
    """Principal components of codes (M, D), each divided by its standard deviation."""
    mean = codes.mean(axis=0)
    centred = (codes - mean).astype(np.float64)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(codes))
    best = np.argsort(-variances)[:MAX_AXES]
    evened = variances[best] + SHRINKAGE * variances.mean()
    axes = (directions[:, best] / np.sqrt(evened)).astype(np.float32)
    places = to_length_1((codes[kept] - mean) @ axes)
    return Space(mean.astype(np.float32), axes, places)
