"""An index in a folder: SQLite for photos, regions and captions, and a mapped file for vectors (`vector_file`).

index.sqlite     in WAL mode: readers see the state between two transactions while a writer works
vectors-N.bin    on the disk before the transaction that refers to them: whatever kills the program leaves at most bytes
                 that nobody refers to
writer.lock      held by the one process that writes
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.photos import in_order
from regiontalk.search import database, vector_file
from regiontalk.search.database import explaining
from regiontalk.search.store import (
    Entry,
    Floats,
    Ids,
    IndexedModel,
    PhotoFile,
    Said,
    Scored,
    Stored,
    StoredPhoto,
    Where,
)
from regiontalk.search.vector_file import VectorFile

AT_A_TIME = 500  # slots that are copied
LIVE_SHARE = 0.75  # of the slots; with fewer in use, the vectors are written anew

Flags = NDArray[np.bool_]


class Table(NamedTuple):
    """What queries need of all photos."""

    version: int
    ids: Ids
    """(P,) rising"""
    slots: NDArray[np.int64]
    """(P,)"""
    scales: Floats
    """(P,)"""
    vectors: vector_file.Slots
    """(N, R, h)"""
    checksums: NDArray[np.int64]
    """(N,)"""
    unchecked: Flags
    """(N,) slots of photos that were not compared with their checksum since they were mapped"""


class SqliteStore:
    """`folder` holds the files. With `model` it is opened for writing, and made where there is none."""

    def __init__(self, folder: Path, model: IndexedModel | None = None) -> None:
        self.folder, self.name = folder, str(folder)
        self._mutex = threading.RLock()
        self._table: Table | None = None
        self._open: list[sqlite3.Connection] = []
        with explaining(folder):
            try:
                if model is not None:
                    folder.mkdir(parents=True, exist_ok=True)
                    self._open.append(database.take_lock(folder))
                self._database = database.connect(folder, writing=model is not None)
                self._open.append(self._database)
                database.prepare(self._database, folder, model)
                self.model = IndexedModel(*map(self._about, ("model", "fingerprint", "regions", "size")))
                if model is not None:
                    self._clean_up()
            except BaseException:
                self.close()
                raise

    def _clean_up(self) -> None:
        """Drops what a killed writer left; fails where something is missing that should be there."""
        database.check(self._database)
        for path in self.folder.glob("vectors-*.bin"):
            if path != self._vectors.path:
                with suppress(OSError):  # Windows: a reader has it mapped
                    path.unlink()
        slots = self._about("slots")
        self._vectors.cut(slots)
        self._vectors.open(slots)

    def close(self) -> None:
        self._table = None
        while self._open:
            self._open.pop().close()

    # What is kept of files

    def files(self, folder: str = "") -> dict[str, Stored]:
        with self.reading():
            rows = database.files(self._database, folder)
            files = [(PhotoFile(os.fsdecode(path), size, modified), digest) for path, size, modified, digest in rows]
        return {file.path: Stored(file, digest) for file, digest in files}

    def put(self, entries: Sequence[Entry]) -> None:
        with self._writing():
            first = self._about("slots")
            packed = [vector_file.pack(entry.vectors, self.model.regions) for entry in entries]
            self._vectors.append(np.stack([one.slot for one in packed]), first)
            self._delete(entry.file.path for entry in entries)
            for number, (entry, one) in enumerate(zip(entries, packed, strict=True)):
                database.insert(self._database, entry, (first + number, one.scale, one.checksum))
            self._set("slots", first + len(entries))

    def forget(self, paths: Iterable[str]) -> None:
        with self._writing():
            self._delete(paths)

    def _delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            database.delete(self._database, os.fsencode(path))

    def rename(self, files: Mapping[str, PhotoFile]) -> None:
        with self._writing():
            for path, file in files.items():
                database.rename(self._database, os.fsencode(path), file)

    def compact(self) -> None:
        """The file of before stays for readers that still use it, until the next writer comes."""
        with self._writing():
            table, generation = self._load(), self._about("generation") + 1
            if len(table.slots) >= LIVE_SHARE * len(table.vectors):
                return
            order = np.argsort(table.slots)
            target = VectorFile(self._path(generation), self.model.regions, self.model.size)
            target.path.unlink(missing_ok=True)
            for start in range(0, len(order), AT_A_TIME):
                target.append(table.vectors[table.slots[order[start : start + AT_A_TIME]]], start)
            places = enumerate(table.ids[order].tolist())
            self._database.executemany("UPDATE photos SET slot = ? WHERE id = ?", places)
            self._set("generation", generation)
            self._set("slots", len(order))

    # Queries

    def word_scores(self, words: Floats, where: Where, said: Sequence[Sequence[str]] = ()) -> Scored:  # noqa: ARG002
        with self.reading():
            table = self._load()
            rows = np.arange(len(table.ids))
            if where != Where():
                rows = np.searchsorted(table.ids, database.ids(self._database, where))
            slots = table.slots[rows]
            wanted = np.zeros(len(table.vectors), dtype=bool)
            wanted[slots] = True
            best = np.zeros((len(table.vectors), len(words)), dtype=np.float32)

            def score(blocks: Sequence[slice]) -> None:
                for block in blocks:
                    _check(table, block)
                    best[block] = vector_file.best_products(table.vectors[block], words)

            every, cores = list(vector_file.blocks(table.vectors, wanted, len(words))), os.cpu_count() or 1
            for _ in in_order(score, [every[first::cores] for first in range(cores)], cores):
                pass
            return Scored(table.ids[rows], best[slots] * table.scales[rows, None], len(rows), where)

    def said(self, word: str, scored: Scored) -> Said:
        with self.reading():
            among = np.isin(scored.ids, database.said(self._database, word))
        return Said(among, int(among.sum()))

    def read(self, ids: Iterable[int]) -> list[StoredPhoto]:
        with self.reading():
            return [database.read(self._database, one) for one in ids]

    def vectors(self, ids: Iterable[int]) -> list[Floats]:
        with self.reading():
            table, found = self._load(), []
            for one in ids:
                row = int(np.searchsorted(table.ids, one))
                count = self._one("SELECT count(*) FROM regions WHERE photo = ?", one)
                found.append(table.vectors[table.slots[row], :count] * table.scales[row])
            return found

    def count(self) -> int:
        with self.reading():
            return int(self._one("SELECT count(*) FROM photos"))

    def newest(self, where: Where, offset: int, limit: int) -> Ids:
        with self.reading():
            return database.ids(self._database, where, "taken DESC, id DESC", limit, offset)

    def find_key(self, key: str) -> int | None:
        with self.reading():
            found = self._database.execute("SELECT id FROM photos WHERE key = ?", (key,)).fetchone()
            return None if found is None else found[0]

    def _load(self) -> Table:
        """Read again when the index has changed."""
        version, slots = self._one("PRAGMA data_version"), self._about("slots")
        if self._table is None or self._table.version != version:
            rows = self._database.execute("SELECT id, slot, checksum, scale FROM photos ORDER BY id").fetchall()
            columns = list(zip(*rows, strict=True)) or [()] * 4
            ids, places, sums = (np.array(column, dtype=np.int64) for column in columns[:3])
            checksums, unchecked = np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=bool)
            checksums[places], unchecked[places] = sums, True
            scales, vectors = np.array(columns[3], dtype=np.float32), self._vectors.open(slots)
            self._table = Table(version, ids, places, scales, vectors, checksums, unchecked)
        return self._table

    # The data base

    @property
    def _vectors(self) -> VectorFile:
        return VectorFile(self._path(self._about("generation")), self.model.regions, self.model.size)

    def _path(self, generation: int) -> Path:
        return self.folder / f"vectors-{generation}.bin"

    def _one(self, query: str, *values: object) -> Any:
        return self._database.execute(query, values).fetchone()[0]

    def _about(self, name: str) -> Any:
        return self._one("SELECT value FROM about WHERE name = ?", name)

    def _set(self, name: str, value: object) -> None:
        database.set_about(self._database, name, value)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One thread at a time. May be used inside itself."""
        with self._mutex, explaining(self.folder):
            if self._database.in_transaction:
                yield
            else:
                with database.transaction(self._database, "DEFERRED"):
                    yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction."""
        with self._mutex, explaining(self.folder):
            try:
                with database.transaction(self._database, "IMMEDIATE"):
                    yield
            finally:
                self._table = None


def _check(table: Table, block: slice) -> None:
    """Compares slots with their checksums, each once as long as the index is open."""
    fresh = table.unchecked[block]
    if fresh.any():
        if (vector_file.checksums(table.vectors[block]) != table.checksums[block])[fresh].any():
            raise sqlite3.DatabaseError("vectors are not as they were stored")
        table.unchecked[block] = False
