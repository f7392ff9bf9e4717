"""Region codes of a data set's photos, in one file: an `.npz` with the arrays of `CodedPhotos`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError, ModelError
from regiontalk.io.files import open_file, replacing
from regiontalk.lab.data.records import Record

ARRAYS = ("counts", "boxes_xyxy", "scores", "codes")


@dataclass(frozen=True)
class CodedPhotos:
    """P photos with K rows each: row 0 is the whole photo, then its best regions, highest score
    first (or its true boxes); the rest is zero."""

    names: tuple[str, ...]
    counts: NDArray[np.int64]
    """(P,) rows that are regions, at least 1."""
    boxes_xyxy: NDArray[np.float32]
    """(P, K, 4) pixels of the upright photo."""
    scores: NDArray[np.float32]
    """(P, K) raw scores."""
    codes: NDArray[np.float16]
    """(P, K, D) codes."""
    detector: str
    """`models.folder.detector_fingerprint` of the network that made them."""
    surroundings: NDArray[np.float16] | None = None
    """(P, K, D) codes of the enlarged boxes (`inference.codes.SURROUNDINGS_SCALE`), if
    requested."""

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def places(self) -> dict[str, int]:
        """Name of a photo -> its row."""
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """(P, K) which rows are regions."""
        return np.arange(self.codes.shape[1]) < self.counts[:, None]

    def find(self, records: Iterable[Record], place: str) -> NDArray[np.int64]:
        """The row of each record's photo."""
        rows = [self.places.get(record.image, -1) for record in records]
        if -1 in rows:
            name = list(records)[rows.index(-1)].image
            raise DataError(
                f"{place}: no codes of the photo {name!r}",
                hint="regiontalk data codes computes them",
            )
        return np.array(rows, dtype=np.int64)

    def check_detector(self, detector: str, checkpoint: Path) -> None:
        """A net can only read the codes of the detector that it was trained on."""
        if detector != self.detector:
            raise ModelError(
                f"{checkpoint}: trained on region codes of another detector than these"
            )

    def save(self, path: Path) -> None:
        arrays = {name: getattr(self, name) for name in ARRAYS}
        if self.surroundings is not None:
            arrays["surroundings"] = self.surroundings
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, names=np.array(self.names), detector=np.array(self.detector), **arrays)

    @classmethod
    def load(cls, path: Path, surroundings: bool = True) -> CodedPhotos:
        """Reads a file; without `surroundings` those are not read."""
        try:
            with open_file(path) as file, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in ARRAYS}
                if surroundings and "surroundings" in stored.files:
                    arrays["surroundings"] = stored["surroundings"]
                return cls(
                    tuple(stored["names"].tolist()), detector=str(stored["detector"]), **arrays
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(
                f"{path}: not a file of codes: {reason}", hint="regiontalk data codes makes one"
            ) from error
