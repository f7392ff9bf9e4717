"""Makes what taught words are compared with (`models.background`): the axes of a space of regions,
and the places of everyday regions in it; and named regions, on which `regiontalk teach --train`
checks that a model forgets nothing.

Along some axes regions vary much and along others little. They are evened out by how much regions
vary in all, and by how much regions of one name do, which says nothing of what a thing is. Of a
code only the appearance is used: what the recognition network adds was learned from captions, and
tells things that captions do not name apart no better.

Shapes: D the size of a code or vector, k axes, M regions of everyday photos, N of them that are
kept, X named regions, E the language model's region input.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.inference.alignment import ALIGNMENT_HEAD, region_vectors
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.fitting.names import MAX_BOXES, NAMED_TYPES
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
SHRINKAGE = 0.02
"""Added to the variances along the axes, as a share of their mean: axes along which hardly anything
varies count less."""
WITHIN = 0.7
"""How much the variance of regions of one name counts, against that of all regions."""
MAX_KEPT = 2400  # regions
REGIONS_OF_PHOTO = 20  # at most: the whole photo and its best regions
MAX_NAMED = 2000  # regions


class Examples(NamedTuple):
    """Regions that are marked as things, or scenes, of a name."""

    names: tuple[str, ...]
    """(X,)"""
    codes: Floats
    """(X, D)"""
    vectors: Floats | None
    """(X, h); None without an alignment head."""


@dataclass(frozen=True)
class SeenRegions:
    """The whole of a photo and its best regions; and those that are marked in it."""

    codes: Floats
    """(R, D)"""
    vectors: Floats | None
    """(R, h); None without an alignment head."""
    appearance: int = 0
    """The column of codes in which the appearance begins."""
    named: NamedRegions | None = None
    """Regions with phrases."""
    examples: Examples | None = None
    """Those of them whose phrases are names."""


def look_at_regions(dataset_model: DatasetModel, record: Record) -> SeenRegions:
    model = dataset_model.model
    best = model.codes(dataset_model.look(record))
    appearance = best.recognition_codes.shape[1]
    seen = SeenRegions(best.codes, _vectors(model, best.codes), appearance)
    regions = [region for region in record.regions if region.phrase][:MAX_BOXES]
    if not regions:
        return seen
    marked = dataset_model.coded_boxes(record, boxes_of(regions))
    everyday_words = tuple((region.coarse or region.phrase).lower() for region in regions)
    rows = [row for row, region in enumerate(regions) if region.type in NAMED_TYPES]
    codes = marked.codes[1:][rows]
    names = tuple(regions[row].phrase.lower() for row in rows)
    return replace(
        seen,
        named=NamedRegions(marked.state[2][1:], everyday_words),
        examples=Examples(names, codes, _vectors(model, codes)) if rows else None,
    )


def _vectors(model: Model, codes: Floats) -> Floats | None:
    return region_vectors(model.runtime, codes) if ALIGNMENT_HEAD in model.runtime.heads else None


def fit(
    photos: Sequence[SeenRegions], left_out: Container[str] = (), seed: int = 0
) -> tuple[Background, dict[str, Any]]:
    """The background, and how much it was made from. Photos with a name that is left out are not
    used."""
    photos = [photo for photo in photos if not _has_name(photo, left_out)]
    random = np.random.default_rng(seed)
    count = sum(len(photo.codes) for photo in photos)
    if count < MIN_REGIONS:
        raise DataError(f"{count} regions; a background needs {MIN_REGIONS}", hint="more photos")
    kept = np.sort(random.permutation(count)[:MAX_KEPT])
    examples = [photo.examples for photo in photos if photo.examples is not None]
    names = tuple(chain.from_iterable(some.names for some in examples))
    own = [some.codes[:, photos[0].appearance :] for some in examples]
    appearances = [photo.codes[:, photos[0].appearance :] for photo in photos]
    codes = _padded(_fit_space(appearances, kept, own, names), photos[0].appearance)
    vectors = None
    if all(photo.vectors is not None for photo in photos):
        rows = [photo.vectors for photo in photos if photo.vectors is not None]
        own = [some.vectors for some in examples if some.vectors is not None]
        vectors = _fit_space(rows, kept, own, names)
    report = {"photos": len(photos), "regions": count, "kept": len(kept), "examples": len(names)}
    named = choose_named([photo.named for photo in photos if photo.named is not None], seed)
    return Background(codes, vectors, named), report


def _has_name(photo: SeenRegions, names: Container[str]) -> bool:
    return photo.examples is not None and any(name in names for name in photo.examples.names)


def choose_named(photos: Sequence[NamedRegions], seed: int = 0) -> NamedRegions | None:
    """So many of the named regions of photos, drawn at random; None if they are too few."""
    names = list(chain.from_iterable(photo.names for photo in photos))
    if len(names) < MIN_REGIONS:
        return None
    inputs = np.concatenate([photo.inputs for photo in photos]).astype(np.float32)
    chosen = np.random.default_rng(seed).permutation(len(names))[:MAX_NAMED]
    return NamedRegions(inputs[chosen], tuple(names[row] for row in chosen.tolist()))


def _fit_space(
    everyday: Sequence[Floats],
    kept: NDArray[np.intp],
    examples: Sequence[Floats],
    names: Sequence[str],
) -> Space:
    """The axes along which regions vary, each divided by how much they do; `everyday` together
    (M, D), `examples` (X, D)."""
    regions = np.concatenate(everyday).astype(np.float32)
    mean = regions.mean(axis=0)
    varied = _covariance(regions - mean)
    if examples:
        things = np.concatenate(examples).astype(np.float32)
        mean = (mean + things.mean(axis=0)) / 2
        varied = (_covariance(regions - mean) + _covariance(things - mean)) / 2
        apart = _apart(things, names)
        if apart.any():
            varied = WITHIN * _of_trace_1(_covariance(apart)) + (1 - WITHIN) * _of_trace_1(varied)
    variances, directions = np.linalg.eigh(varied)
    best = np.argsort(-variances)[:MAX_AXES]
    evened = variances[best] + SHRINKAGE * variances.mean()
    axes = (directions[:, best] / np.sqrt(evened)).astype(np.float32)
    places = to_length_1((regions[kept] - mean) @ axes)
    return Space(mean.astype(np.float32), axes, places)


def _apart(examples: Floats, names: Sequence[str]) -> Floats:
    """What examples (X, D) differ by from the mean of their name; those of names that have two or
    more."""
    _, rows, counts = np.unique(np.array(names), return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), examples.shape[1]))
    np.add.at(sums, rows, examples)
    several = counts[rows] > 1
    apart: Floats = (examples - (sums / counts[:, None])[rows])[several].astype(np.float32)
    return apart


def _covariance(centred: Floats) -> NDArray[np.float64]:
    covariance: NDArray[np.float64] = (centred.T @ centred).astype(np.float64) / len(centred)
    return covariance


def _of_trace_1(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = covariance / np.trace(covariance)
    return scaled


def _padded(space: Space, before: int) -> Space:
    """The space for codes with so many columns more, which it does not use, before its own."""
    mean = np.pad(space.mean, (before, 0))
    return Space(mean, np.pad(space.axes, ((before, 0), (0, 0))), space.places)
