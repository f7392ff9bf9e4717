"""The data that an index stores of each photo, and the `Store` protocol for reading and writing it.

`sqlite.store.SqliteStore` is an index in a folder, `postgres.store.PostgresStore` one that many
machines share.

Letters as in `inference.maxsim`: P photos, R regions of each, W words, h the size of a vector.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from regiontalk.results import Region

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]


CAPTIONED_BY = ", captioned by "
"""Between the name of the model that made the vectors and that of another, which made the
captions."""


@dataclass(frozen=True)
class IndexedModel:
    """The model that made the vectors of an index; vectors of different models cannot be
    compared."""

    name: str
    fingerprint: str
    regions: int
    """Vectors of a photo."""
    size: int
    """h"""
    state: int
    """S: numbers of a photo's state; 0 for a model without a head for sentences."""

    @property
    def vectors_by(self) -> str:
        """The name of the model that made the vectors."""
        return self.name.partition(CAPTIONED_BY)[0]

    def has_vectors_of(self, other: IndexedModel) -> bool:
        """Whether a query for the one can search the other."""
        return replace(self, name=self.vectors_by) == replace(other, name=other.vectors_by)


class PhotoFile(NamedTuple):
    """A file, as found by the last update."""

    path: str
    """Relative to the indexed folder, with slashes."""
    size: int
    modified: int
    """When it was last changed, in nanoseconds."""


class Touched(NamedTuple):
    """A file whose time changed, but not its bytes."""

    file: PhotoFile
    taken: str
    """When its photo was taken, which may be the time of the file."""


class Stored(NamedTuple):
    """The stored facts about a photo's file."""

    file: PhotoFile
    digest: bytes
    """The digest of its bytes, which recognises moved photos."""


@dataclass(frozen=True)
class Entry:
    """A photo to be stored."""

    file: PhotoFile
    digest: bytes
    taken: str
    """When, as "2021-05-30T18:05:12"."""
    size: tuple[int, int]
    """Width and height, upright."""
    regions: tuple[Region, ...]
    """The whole photo first, then its best regions."""
    raw_scores: tuple[float, ...]
    """(R,) the network's raw scores of the regions; words prefer regions with high ones."""
    captions: tuple[str, ...]
    """Captions that are likely right; `Store.said` searches their words."""
    vectors: Floats
    """(R, h), of the regions."""
    state: Floats
    """(S,) the inputs of the language model for the likelihood of sentences."""


class Where(NamedTuple):
    """Which photos are searched."""

    folder: str = ""
    """The folder whose photos are searched; relative, with slashes."""
    since: str = ""
    """A year, month or day, "2021-05": photos taken then or later."""
    until: str = ""
    """Photos taken then or earlier, the whole year, month or day included."""


def conditions(where: Where, mark: str) -> tuple[str, list[Any]]:
    """An SQL condition for these photos, with a `mark` for each value, and the values."""
    parts = ["true"]
    values = list[Any]()
    if where.folder:
        below = os.fsencode(where.folder)
        parts.append(f"path >= {mark} AND path < {mark}")
        values += [below + b"/", below + b"0"]  # 0 is the character after the slash
    if where.since:
        parts.append(f"taken >= {mark}")
        values.append(where.since)
    if where.until:
        parts.append(f"substr(taken, 1, {mark}) <= {mark}")
        values += [len(where.until), where.until]
    return " AND ".join(parts), values


def to_files(rows: Iterable[tuple[bytes, int, int, bytes]]) -> dict[str, Stored]:
    """Reads rows of path, size, time of change and digest, as they are in a database: a file name
    need not be text."""
    files = [
        (PhotoFile(os.fsdecode(path), size, modified), digest)
        for path, size, modified, digest in rows
    ]
    return {file.path: Stored(file, digest) for file, digest in files}


class Scored(NamedTuple):
    """How well photos fit words."""

    ids: Ids
    """(P,)"""
    scores: Floats
    """(P, W): the score of each word with its best region in the photo."""
    searched: int
    """Number of photos that were searched: P, or more if the store left out those that are far from
    every word."""
    exact: bool = False
    """Whether the scores are those of `Store.vectors`, not only close to them."""


class StoredPhoto(NamedTuple):
    """A photo of the index."""

    id: int
    key: str
    """An id that can be made public, because it cannot be guessed. A changed photo gets a new
    one."""
    path: str
    size: tuple[int, int]
    taken: str
    regions: tuple[Region, ...]
    """The whole photo first."""
    raw_scores: tuple[float, ...]


class Store(Protocol):
    """An index. Changes are atomic, and readers see a state between two changes."""

    model: IndexedModel
    name: str
    """The place of the index, for messages."""

    def reading(self) -> AbstractContextManager[None]:
        """All reads within the block see the same state."""

    def files(self, folder: str = "") -> dict[str, Stored]:
        """Path -> facts about the photo's file; of all photos, or of those below a folder."""

    def put(self, entries: Sequence[Entry]) -> None:
        """Adds photos, each atomically; photos with the same path are replaced."""

    def forget(self, paths: Iterable[str]) -> None:
        """Drops photos."""

    def rename(self, files: Mapping[str, PhotoFile]) -> None:
        """Old path -> the file that the photo is now."""

    def date(self, taken: Mapping[str, str]) -> None:
        """Path -> when the photo was taken, as it is known now."""

    def word_scores(
        self, words: Floats, where: Where, said: Sequence[Sequence[str]] = ()
    ) -> Scored:
        """MaxSim of words (W, h) with photos (`inference.maxsim.word_scores`), to 8 bits or more.

        A large store may leave out photos that have no region near a word, and none of the `said`
        phrases' words in their captions.
        """

    def said(self, words: Collection[str], scored: Scored) -> NDArray[np.bool_]:
        """(P,) whether the captions have one of some words of letters and digits, in any of its
        forms."""

    def read(self, ids: Iterable[int]) -> list[StoredPhoto]:
        """Photos in the order of the given ids."""

    def vectors(self, ids: Iterable[int]) -> list[Floats]:
        """(R, h) of each photo, in the order of the given ids; to 12 bits or more."""

    def states(self, ids: Iterable[int]) -> Floats:
        """(P, S), in the order of the given ids; to 8 bits or more."""

    def count(self, folder: str = "") -> int:
        """How many photos there are, or are below a folder."""

    def newest(self, where: Where, offset: int, limit: int) -> Ids:
        """Photos in the order in which they were taken, the newest first."""

    def find_key(self, key: str) -> int | None:
        """The id of the photo with a key, if there is one."""

    def compact(self) -> None:
        """Frees the space of vectors that no photo uses any more, if it is large enough."""

    def close(self) -> None: ...
