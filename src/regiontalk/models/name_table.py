"""The names that a model knows things by: a linear classifier over region codes, stored as
`names.npz`.

    p(name | region) = softmax(W · code + b)

W is stored as integers of 8 bits, with a scale for each row and each column, in a quarter of the
room. The columns need scales of their own: weights are large where a code's entry varies little.
`lab.fitting.names` fits W and b.

Shapes: N names, D the size of a code with the appearance appended.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import ModelError
from regiontalk.io.arrays import Arrays, kinds_of, read_arrays
from regiontalk.language.head_nouns import head_words
from regiontalk.language.object_names import object_names, plain_name, singulars
from regiontalk.language.synonyms import caption_words

Floats = NDArray[np.float32]

MAX_NAMES = 100_000
LARGEST_TABLE = 1 << 28  # bytes
LARGEST_INTEGER = 127
_ARRAYS = {
    "weights": (np.int8, 2),
    "row_scales": (np.float32, 1),
    "column_scales": (np.float32, 1),
    "biases": (np.float32, 1),
    "about": (np.uint8, 1),
}


@dataclass(frozen=True)
class NameTable:
    """Names and the classifier that tells them apart."""

    detector: str
    """`folder.detector_fingerprint` of the network whose codes it reads."""
    names: tuple[str, ...]
    coarse: tuple[str, ...]
    """The everyday word of each name ("dog" of "schipperke"); the name itself where there is
    none."""
    weights: Floats = field(repr=False)
    """W (N, D)"""
    biases: Floats = field(repr=False)
    """b (N,)"""

    def meant_by(self, text: str) -> tuple[int, ...]:
        """The rows of the names that mean what a caption or name says: "a small puppy" the names
        that are dogs, "a soccer ball" that name and all balls; none if no name does."""
        words = head_words(text)
        if not words:
            return ()
        names = object_names()
        labels = self._rows_of_words
        noun = names.name_of(words, labels)
        keys = [*singulars(words[-1])] if noun is None else [noun]
        keys += names.classes_of(words)
        return tuple(sorted({*chain.from_iterable(labels.get(key, ()) for key in keys)}))

    def called(self, text: str) -> tuple[int, ...]:
        """The rows of the names of all things that a phrase asks for: as `meant_by`, but "a boy"
        asks for no other person."""
        words = head_words(text)
        if not words:
            return ()
        noun = object_names().name_of(words, self._rows_of_words) or words[-1]
        rows = (self._rows_of_names.get(word, ()) for word in caption_words(noun))
        return tuple(sorted({*chain.from_iterable(rows)}))

    def other_animals(self, classes: frozenset[str]) -> tuple[int, ...]:
        """The rows of the names of animals of other classes than these."""
        animals = object_names().animals
        return tuple(
            row
            for row, named in enumerate(self._classes_of_rows)
            if named and named <= animals and not named & classes
        )

    @cached_property
    def _classes_of_rows(self) -> tuple[frozenset[str], ...]:
        """The object classes of each name and of its everyday word."""
        classes_of = object_names().classes_of
        return tuple(
            frozenset(classes_of(plain_name(name).split())) | frozenset(classes_of(word.split()))
            for name, word in zip(self.names, self.coarse, strict=True)
        )

    @cached_property
    def _rows_of_names(self) -> dict[str, list[int]]:
        """Word -> the names that it is, or is the everyday word of."""
        rows: dict[str, list[int]] = {}
        for row, (name, everyday) in enumerate(zip(self.names, self.coarse, strict=True)):
            for word in {name, plain_name(name), everyday}:
                rows.setdefault(word, []).append(row)
        return rows

    @cached_property
    def _rows_of_words(self) -> dict[str, list[int]]:
        """Word -> the names that it is, is the everyday word of, or is the class of."""
        rows: dict[str, list[int]] = {}
        classes_of = object_names().classes_of
        for row, (name, everyday) in enumerate(zip(self.names, self.coarse, strict=True)):
            plain = plain_name(name)
            words = {name, plain, everyday}
            for word in (plain, everyday):
                words.update(classes_of(word.split()))
            for word in words:
                rows.setdefault(word, []).append(row)
        return rows

    def to_bytes(self) -> bytes:
        smallest = np.finfo(np.float32).tiny
        columns = np.maximum(np.sqrt((self.weights**2).mean(axis=0)), smallest)
        even = self.weights / columns
        rows = np.maximum(np.abs(even).max(axis=1) / LARGEST_INTEGER, smallest)
        about = {"detector": self.detector, "names": self.names, "coarse": self.coarse}
        buffer = io.BytesIO()
        np.savez(
            buffer,
            weights=np.rint(even / rows[:, None]).astype(np.int8),
            row_scales=rows.astype(np.float32),
            column_scales=columns.astype(np.float32),
            biases=self.biases.astype(np.float32),
            about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8),
        )
        return buffer.getvalue()


def read_name_table(data: bytes, place: str) -> NameTable:
    """The table of a file's bytes; raises `ModelError` for anything else."""
    arrays = _read_arrays(data, place)
    try:
        about = json.loads(arrays["about"].tobytes())
        detector = about["detector"]
        names = tuple(about["names"])
        coarse = tuple(about["coarse"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{place}: its list of names cannot be read") from error
    count = len(names)
    texts = (detector, *names, *coarse)
    is_whole = all(isinstance(text, str) and text for text in texts) and len(set(names)) == count
    lengths = {len(coarse), *(len(arrays[name]) for name in ("weights", "row_scales", "biases"))}
    are_columns = arrays["weights"].shape[1:] == arrays["column_scales"].shape
    if not is_whole or not 1 <= count <= MAX_NAMES or lengths != {count} or not are_columns:
        raise ModelError(f"{place}: names and weights do not belong together")
    if not all(
        np.isfinite(arrays[name]).all() for name in ("row_scales", "column_scales", "biases")
    ):
        raise ModelError(f"{place}: a weight is not a finite number")
    weights = arrays["weights"].astype(np.float32)
    weights *= arrays["row_scales"][:, None]
    weights *= arrays["column_scales"]
    return NameTable(detector, names, coarse, weights, arrays["biases"])


def _read_arrays(data: bytes, place: str) -> Arrays:
    try:
        arrays = read_arrays(data, LARGEST_TABLE)
    except (ValueError, MemoryError) as error:
        raise ModelError(f"{place}: not a table of names: {error}") from error
    if kinds_of(arrays) != _ARRAYS:
        raise ModelError(f"{place}: not a table of names")
    return arrays
