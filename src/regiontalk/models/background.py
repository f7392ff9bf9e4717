"""What taught words are compared with: regions of everyday photos, and the axes along which regions
differ; and named regions, which a caption model that is trained on new words must not forget.
Stored as `background.npz` in a model folder, 8 bits a number.

Region codes vary much along some directions and little along others, which tell as much. Axes that
even this out (whitening, by the principal components of many codes) make a few examples of a word
tell more. There are two sets: for region codes, and for the vectors of the alignment head, which an
index stores. `lab.fitting.background` makes them. They are no photos: nothing can be seen in them.

Shapes: D the size of a code or vector, k axes, N regions, B any number of regions, E the language
model's region input.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import ModelError
from regiontalk.io.arrays import kinds_of, read_arrays

Floats = NDArray[np.float32]

MIN_REGIONS = 20
MAX_REGIONS = 20_000
LARGEST_BACKGROUND = 1 << 27  # bytes
LARGEST_INTEGER = 127
CODES = "codes"
VECTORS = "vectors"
_ARRAYS = {
    "mean": (np.float32, 1),
    "axes": (np.int8, 2),
    "axes_scales": (np.float32, 1),
    "places": (np.int8, 2),
    "places_scales": (np.float32, 1),
}


NAMED = "named"
_NAMED_ARRAYS = {
    "inputs": (np.int8, 2),
    "inputs_scales": (np.float32, 1),
    "names": (np.uint8, 1),
}


@dataclass(frozen=True)
class NamedRegions:
    """Regions of which people said what they show."""

    inputs: Floats = field(repr=False)
    """(N, E) what the language model reads of them."""
    names: tuple[str, ...] = field(repr=False)
    """(N,)"""


@dataclass(frozen=True)
class Space:
    """Regions as places on a sphere, where those that look alike are close."""

    mean: Floats = field(repr=False)
    """(D,) what is subtracted from codes or vectors."""
    axes: Floats = field(repr=False)
    """(D, k) the axes onto which they are projected."""
    places: Floats = field(repr=False)
    """(N, k) the places of the everyday regions."""

    def place(self, codes: Floats) -> Floats:
        """Codes or vectors (B, D) -> places (B, k), vectors of length 1."""
        return to_length_1((codes - self.mean) @ self.axes)

    def turned(self, turn: Floats) -> Space:
        """The space whose places are those of this one times `turn` (k, k), of length 1."""
        return Space(self.mean, self.axes @ turn, to_length_1(self.places @ turn))


@dataclass(frozen=True)
class Background:
    """The space of a model's region codes, that of its vectors if it has an alignment head, and
    named regions."""

    codes: Space
    vectors: Space | None = None
    named: NamedRegions | None = None

    def to_bytes(self) -> bytes:
        arrays = _stored(CODES, self.codes)
        if self.vectors is not None:
            arrays |= _stored(VECTORS, self.vectors)
        if self.named is not None:
            arrays |= _stored_names(self.named)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()


def to_length_1(rows: NDArray[np.floating]) -> Floats:
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True).astype(np.float32)
    scaled: Floats = (rows / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)
    return scaled


def _stored(name: str, space: Space) -> dict[str, NDArray[Any]]:
    axes_scales = _scales(space.axes)
    places_scales = _scales(space.places)
    return {
        f"{name}_mean": space.mean.astype(np.float32),
        f"{name}_axes": np.rint(space.axes / axes_scales).astype(np.int8),
        f"{name}_axes_scales": axes_scales,
        f"{name}_places": np.rint(space.places / places_scales).astype(np.int8),
        f"{name}_places_scales": places_scales,
    }


def _stored_names(named: NamedRegions) -> dict[str, NDArray[Any]]:
    scales = _scales(named.inputs)
    return {
        f"{NAMED}_inputs": np.rint(named.inputs / scales).astype(np.int8),
        f"{NAMED}_inputs_scales": scales,
        f"{NAMED}_names": np.frombuffer(json.dumps(named.names).encode(), dtype=np.uint8),
    }


def _scales(rows: Floats) -> Floats:
    """(k,) the step of each column."""
    smallest = np.finfo(np.float32).tiny
    scales = np.maximum(np.abs(rows).max(axis=0) / LARGEST_INTEGER, smallest)
    steps: Floats = scales.astype(np.float32)
    return steps


def read_background(data: bytes, place: str) -> Background:
    """The background in a file's bytes; raises `ModelError` for anything else."""
    try:
        arrays = read_arrays(data, LARGEST_BACKGROUND)
    except (ValueError, MemoryError) as error:
        raise ModelError(f"{place}: not the background of a model: {error}") from error
    names = [name for name in (CODES, VECTORS) if f"{name}_mean" in arrays]
    expected: dict[str, tuple[type, int]] = {}
    for name in names:
        expected |= {f"{name}_{part}": kind for part, kind in _ARRAYS.items()}
    has_names = f"{NAMED}_names" in arrays
    if has_names:
        expected |= {f"{NAMED}_{part}": kind for part, kind in _NAMED_ARRAYS.items()}
    if kinds_of(arrays) != expected or CODES not in names:
        raise ModelError(f"{place}: not the background of a model")
    codes = _read_space(arrays, CODES, place)
    vectors = _read_space(arrays, VECTORS, place) if VECTORS in names else None
    return Background(codes, vectors, _read_named(arrays, place) if has_names else None)


def _read_space(arrays: dict[str, NDArray[Any]], name: str, place: str) -> Space:
    mean, axes, axes_scales, places, places_scales = (arrays[f"{name}_{part}"] for part in _ARRAYS)
    shapes = {len(axes_scales), len(places_scales), axes.shape[1], places.shape[1]}
    is_whole = len(shapes) == 1 and min(axes.shape) > 0 and len(mean) == len(axes)
    if not is_whole or not MIN_REGIONS <= len(places) <= MAX_REGIONS:
        raise ModelError(f"{place}: axes and places do not belong together")
    if not all(np.isfinite(part).all() for part in (mean, axes_scales, places_scales)):
        raise ModelError(f"{place}: a number is not finite")
    restored: Floats = places.astype(np.float32) * places_scales
    return Space(mean, axes.astype(np.float32) * axes_scales, to_length_1(restored))


def _read_named(arrays: dict[str, NDArray[Any]], place: str) -> NamedRegions:
    inputs, scales, stored_names = (arrays[f"{NAMED}_{part}"] for part in _NAMED_ARRAYS)
    try:
        names = json.loads(stored_names.tobytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{place}: its list of names cannot be read") from error
    is_list = type(names) is list and all(type(name) is str and name for name in names)
    if not is_list or len(names) != len(inputs) or inputs.shape[1:] != scales.shape:
        raise ModelError(f"{place}: named regions and their names do not belong together")
    if not MIN_REGIONS <= len(names) <= MAX_REGIONS or not np.isfinite(scales).all():
        raise ModelError(f"{place}: not the named regions of a model")
    return NamedRegions(inputs.astype(np.float32) * scales, tuple(names))
