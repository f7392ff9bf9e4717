"""An index in a folder: SQLite for photos, regions and captions, and mapped files for numbers
(`vector_file`).

index.sqlite     in WAL mode: readers see the state between two transactions while a writer works
vectors-N.bin,   written to disk before the transaction that refers to them: if the program is
details-N.bin    killed, only bytes without a reference are left
writer.lock      held by the process that writes
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.images.paths import in_order
from regiontalk.search.sqlite import database, vector_file
from regiontalk.search.sqlite.database import explaining
from regiontalk.search.sqlite.vector_file import SlotFile
from regiontalk.search.store import (
    Entry,
    Floats,
    Ids,
    IndexedModel,
    PhotoFile,
    Scored,
    Stored,
    StoredPhoto,
    Where,
    conditions,
    to_files,
)

SLOTS_PER_COPY = 500  # slots that are copied
LIVE_SHARE = 0.75  # of the slots; with fewer in use, the vectors are written again

Flags = NDArray[np.bool_]


class Table(NamedTuple):
    """The data of all photos that queries need."""

    version: int
    ids: Ids
    """(P,) rising"""
    slots: NDArray[np.int64]
    """(P,)"""
    vectors: vector_file.Slots
    """(N,)"""
    details: vector_file.Slots
    """(N,)"""
    checksums: NDArray[np.int64]
    """(N,) of the vectors"""
    unchecked: Flags
    """(N,) slots of photos that were not compared with their checksum since they were mapped"""

    def slots_of(self, ids: Iterable[int]) -> NDArray[np.int64]:
        return self.slots[np.searchsorted(self.ids, np.array(list(ids), dtype=np.int64))]


class SqliteStore:
    """`folder` has the files. With `model` it is opened for writing, and created if there is
    none."""

    def __init__(self, folder: Path, model: IndexedModel | None = None) -> None:
        self.folder = folder
        self.name = str(folder)
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
                self.model = IndexedModel(
                    *map(self._about, (column.name for column in fields(IndexedModel)))
                )
                if model is not None:
                    self._clean_up()
            except BaseException:
                self.close()
                raise

    def _clean_up(self) -> None:
        """Drops what a killed writer left; raises an error if anything is damaged."""
        database.check(self._database)
        files = self._files(self._about("generation"))
        slots = self._about("slots")
        kept = {file.path for file in files}
        for path in (*self.folder.glob("vectors-*.bin"), *self.folder.glob("details-*.bin")):
            if path not in kept:
                with suppress(OSError):  # Windows: a reader has it mapped
                    path.unlink()
        for file in files:
            file.cut(slots)
        self._check_slots()

    def _check_slots(self) -> None:
        """Compares all vectors and details with their checksums."""
        table = self._load()
        details_sums = self._database.execute("SELECT details_sum FROM photos ORDER BY id")
        expected = np.array(details_sums.fetchall(), dtype=np.int64).ravel()
        for start in range(0, len(table.ids), SLOTS_PER_COPY):
            some = slice(start, start + SLOTS_PER_COPY)
            slots = table.slots[some]
            if (vector_file.checksums(table.vectors[slots]) != table.checksums[slots]).any():
                raise sqlite3.DatabaseError("vectors have a wrong checksum")
            if (vector_file.checksums(table.details[slots]) != expected[some]).any():
                raise sqlite3.DatabaseError("details have a wrong checksum")

    def close(self) -> None:
        self._table = None
        while self._open:
            self._open.pop().close()

    # What is kept of files

    def files(self, folder: str = "") -> dict[str, Stored]:
        return to_files(self._select("path, bytes, modified, digest", Where(folder)))

    def put(self, entries: Sequence[Entry]) -> None:
        with self._writing():
            first = self._about("slots")
            sums = []
            columns = zip(
                *(vector_file.to_slots(entry, self.model) for entry in entries), strict=True
            )
            for file, photos in zip(self._files(self._about("generation")), columns, strict=True):
                slots = file.make(photos)
                file.append(slots, first)
                sums.append(vector_file.checksums(slots).tolist())
            self._delete(entry.file.path for entry in entries)
            for number, (entry, *photo_sums) in enumerate(
                zip(entries, *sums, strict=True), start=first
            ):
                database.insert(self._database, entry, (number, *photo_sums))
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

    def date(self, taken: Mapping[str, str]) -> None:
        with self._writing():
            for path, when in taken.items():
                database.set_date(self._database, os.fsencode(path), when)

    def compact(self) -> None:
        """The old files stay for readers that still use them, until the next writer opens the
        index."""
        with self._writing():
            table = self._load()
            generation = self._about("generation") + 1
            if len(table.slots) >= LIVE_SHARE * len(table.vectors):
                return
            order = np.argsort(table.slots)
            for target, slots in zip(
                self._files(generation), (table.vectors, table.details), strict=True
            ):
                target.path.unlink(missing_ok=True)
                for start in range(0, len(order), SLOTS_PER_COPY):
                    target.append(slots[table.slots[order[start : start + SLOTS_PER_COPY]]], start)
            places = enumerate(table.ids[order].tolist())
            self._database.executemany("UPDATE photos SET slot = ? WHERE id = ?", places)
            self._set(database.PHOTOS_SUM, database.sum_photos(self._database))
            self._set("generation", generation)
            self._set("slots", len(order))

    # Queries

    def word_scores(
        self,
        words: Floats,
        where: Where,
        said: Sequence[Sequence[str]] = (),  # noqa: ARG002
    ) -> Scored:
        with self.reading():
            table = self._load()
            rows = np.arange(len(table.ids))
            if where != Where():
                rows = np.searchsorted(table.ids, self._ids(where))
            slots = table.slots[rows]
            wanted = np.zeros(len(table.vectors), dtype=bool)
            wanted[slots] = True
            best = np.zeros((len(table.vectors), len(words)), dtype=np.float32)

            def score(blocks: Sequence[slice]) -> None:
                for block in blocks:
                    _check(table, block)
                    best[block] = vector_file.best_products(table.vectors[block], words)

            products = self.model.regions * self.model.size * len(words)
            cores = os.cpu_count() or 1
            every = list(vector_file.blocks(products, wanted))
            for _ in in_order(score, [every[first::cores] for first in range(cores)], cores):
                pass
            return Scored(table.ids[rows], best[slots], len(rows))

    def said(self, words: Collection[str], scored: Scored) -> NDArray[np.bool_]:
        either = " OR ".join(f'"{word}"' for word in words)
        with self.reading():
            self._load()
            rows = self._rows("SELECT rowid FROM captions WHERE captions MATCH ?", [either])
        return np.isin(scored.ids, np.array(rows, dtype=np.int64))

    def read(self, ids: Iterable[int]) -> list[StoredPhoto]:
        with self.reading():
            return [database.read(self._database, photo) for photo in ids]

    def vectors(self, ids: Iterable[int]) -> list[Floats]:
        with self.reading():
            chosen = list(ids)
            table = self._load()
            slots = table.slots_of(chosen)
            details = self._details(chosen, table)
            counts = [database.count_regions(self._database, photo) for photo in chosen]
            rows = zip(table.vectors[slots], details, counts, strict=True)
            return [
                vector_file.restore(slot["scales"], slot["steps"], detail["rest"])[:count]
                for slot, detail, count in rows
            ]

    def states(self, ids: Iterable[int]) -> Floats:
        with self.reading():
            details = self._details(list(ids), self._load())
            rows = details["state_steps"] * details["state_scales"][:, :, None]
            state: Floats = rows.reshape(len(details), math.prod(rows.shape[1:]))[
                :, : self.model.state
            ]
            return state

    def _details(self, ids: Sequence[int], table: Table) -> vector_file.Slots:
        """(P,) checked."""
        details = table.details[table.slots_of(ids)]
        sums = [self._one("SELECT details_sum FROM photos WHERE id = ?", photo) for photo in ids]
        if (vector_file.checksums(details) != sums).any():
            raise sqlite3.DatabaseError("details have a wrong checksum")
        return details

    def count(self, folder: str = "") -> int:
        return int(self._select("count(*)", Where(folder))[0][0])

    def newest(self, where: Where, offset: int, limit: int) -> Ids:
        return self._ids(where, f"ORDER BY taken DESC, id DESC LIMIT {limit:d} OFFSET {offset:d}")

    def find_key(self, key: str) -> int | None:
        with self.reading():
            self._load()
            rows = self._database.execute("SELECT id FROM photos WHERE key = ?", [key]).fetchall()
            # The database's index may be damaged: rows are compared, and looked through if need be.
            for (photo,) in rows:
                if self._one("SELECT key FROM photos WHERE id = ?", photo) == key:
                    return int(photo)
            for (photo,) in self._rows("SELECT id FROM photos NOT INDEXED WHERE key = ?", [key]):
                return int(photo)
            return None

    def _load(self) -> Table:
        """Read and checked again when the index has changed."""
        version = self._one("PRAGMA data_version")
        slots = self._about("slots")
        if self._table is None or self._table.version != version:
            database.check_sums(self._database)
            rows = self._database.execute(
                "SELECT id, slot, vectors_sum FROM photos ORDER BY id"
            ).fetchall()
            ids, places, sums = np.array(rows, dtype=np.int64).reshape(-1, 3).T
            checksums = np.zeros(slots, dtype=np.int64)
            unchecked = np.zeros(slots, dtype=bool)
            checksums[places] = sums
            unchecked[places] = True
            vectors, details = (file.open(slots) for file in self._files(self._about("generation")))
            self._table = Table(version, ids, places, vectors, details, checksums, unchecked)
        return self._table

    # The database

    def _files(self, generation: int) -> tuple[SlotFile, SlotFile]:
        """The files of vectors and of details."""
        return (
            vector_file.vector_file(self.folder / f"vectors-{generation}.bin", self.model),
            vector_file.detail_file(self.folder / f"details-{generation}.bin", self.model),
        )

    def _ids(self, where: Where, order: str = "ORDER BY id") -> Ids:
        return np.array(self._select("id", where, order), dtype=np.int64).ravel()

    def _select(self, columns: str, where: Where, order: str = "") -> list[Any]:
        """Columns of the photos that are meant; from the rows, whose checksums `_load` compares,
        and not from the database's indexes, which have none."""
        meant, values = conditions(where, "?")
        with self.reading():
            self._load()
            return self._rows(
                f"SELECT {columns} FROM photos NOT INDEXED WHERE {meant} {order}", values
            )

    def _rows(self, query: str, values: Sequence[Any]) -> list[Any]:
        with self.reading():
            return self._database.execute(query, values).fetchall()

    def _one(self, query: str, *values: object) -> Any:
        return self._database.execute(query, values).fetchone()[0]

    def _about(self, name: str) -> Any:
        return self._one("SELECT value FROM about WHERE name = ?", name)

    def _set(self, name: str, value: object) -> None:
        database.set_about(self._database, name, value)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Lets one thread read at a time, in one transaction. Reentrant."""
        with self._mutex, explaining(self.folder):
            if self._database.in_transaction:
                yield
            else:
                with database.transaction(self._database, "DEFERRED"):
                    yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Opens a transaction, and stores the checksum of the words at its end."""
        with self._mutex, explaining(self.folder):
            try:
                with database.transaction(self._database, "IMMEDIATE"):
                    yield
                    database.store_sum_of_words(self._database)
            finally:
                self._table = None


def _check(table: Table, block: slice) -> None:
    """Compares slots with their checksums, each once as long as the index is open."""
    fresh = table.unchecked[block]
    if fresh.any():
        if (vector_file.checksums(table.vectors[block]) != table.checksums[block])[fresh].any():
            raise sqlite3.DatabaseError("vectors have a wrong checksum")
        table.unchecked[block] = False
