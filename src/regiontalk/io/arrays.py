"""Arrays in .npz files that nobody has checked."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Kinds = Mapping[str, tuple[type, int]]
"""Name of an array -> the type of its items, and how many dimensions it has."""


def read_arrays(data: bytes, max_bytes: int) -> Arrays:
    """The arrays of an .npz file in `data`, of at most `max_bytes` when they are unpacked; raises
    `ValueError` for anything else. Pickles are refused."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as members:
            if sum(member.file_size for member in members.infolist()) > max_bytes:
                raise ValueError(f"larger than {max_bytes >> 20} MB")
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (
        *(zipfile.BadZipFile, OSError, KeyError, EOFError),
        *(NotImplementedError, RuntimeError),  # packed in ways that zipfile does not know
    ) as error:
        raise ValueError("not numpy arrays, or cut off") from error


def kinds_of(arrays: Arrays) -> Kinds:
    """What each of the arrays is."""
    return {name: (array.dtype.type, array.ndim) for name, array in arrays.items()}
