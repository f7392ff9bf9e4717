"""The index's SQLite file: its tables, reading and writing them, and its errors.

Paths are BLOBs: a file name need not be text.
"""

from __future__ import annotations

import math
import os
import secrets
import shlex
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from regiontalk.errors import IndexProblem
from regiontalk.io.files import DISK_FULL_ERRORS, open_file
from regiontalk.results import Region
from regiontalk.search.store import Entry, IndexedModel, PhotoFile, StoredPhoto

FOLDER = ".regiontalk"
"""The default folder of the index, in the folder of the photos."""
NAME = "index.sqlite"
LOCK = "writer.lock"
JOURNAL = f"{NAME}-journal"
"""Exists while the first transaction of an index is written; later ones use the write-ahead log."""
FILES = (NAME, f"{NAME}-wal", f"{NAME}-shm", JOURNAL, LOCK, "vectors-*.bin", "details-*.bin")
"""All that an index consists of."""
APPLICATION = 0x52547831  # SQLite's application id
NUMBERS = "<f4"  # type of a region's numbers
COLUMNS = 8  # of a region: box, score, raw score, log-probability, confidence
MAX_WAIT = 5.0  # seconds to wait for a reader or a checkpoint

MIGRATIONS = (
    "",  # an index of 0.3.0 has too little data: its photos are processed again
    """
    DROP TABLE IF EXISTS about;
    DROP TABLE IF EXISTS regions;
    DROP TABLE IF EXISTS photos;
    DROP TABLE IF EXISTS captions;
    CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
    CREATE TABLE photos (
        id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB UNIQUE NOT NULL, bytes INTEGER NOT NULL,
        modified INTEGER NOT NULL, digest BLOB NOT NULL, key TEXT UNIQUE NOT NULL,
        taken TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
        numbers BLOB NOT NULL, words TEXT NOT NULL,
        slot INTEGER NOT NULL, vectors_sum INTEGER NOT NULL,
        details_sum INTEGER NOT NULL, seal INTEGER NOT NULL);
    CREATE INDEX taken ON photos (taken);
    CREATE VIRTUAL TABLE captions USING fts5 (text, tokenize = 'porter unicode61');
    """,
    "",  # checksums of the tables, which `_migrate` computes
)
"""Migrations from one format to the next; the format of an index is the number of migrations
applied."""
KEPT_SINCE = 2  # photos of this format and later ones stay when an index is updated

PHOTOS_SUM = "photos_sum"
WORDS_SUM = "words_sum"
"""In `about`: the checksums of all photos' rows, and of the tables in which FTS5 finds words."""
_ROW = "id, path, bytes, modified, digest, key, taken, slot, vectors_sum, details_sum, seal"
"""The columns of a photo that its row's checksum covers; `seal` covers the others."""
_WORD_TABLES = (
    "SELECT id, block FROM captions_data ORDER BY id",
    "SELECT segid, term, pgno FROM captions_idx ORDER BY segid, term",
)


@contextmanager
def explaining(folder: Path) -> Iterator[None]:
    """Turns errors of SQLite and files into `IndexProblem` with a hint."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise busy(folder) from error
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise IndexProblem(
                f"{folder}: cannot be written: {error}", hint="is the disk full?"
            ) from error
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            raise IndexProblem(
                f"{folder}: cannot be written: {error}", hint="--index keeps it elsewhere"
            ) from error
        raise damaged(folder, str(error)) from error
    except FileNotFoundError as error:
        raise damaged(folder, "a file is missing") from error
    except OSError as error:
        hint = "make room" if error.errno in DISK_FULL_ERRORS else "--index keeps it elsewhere"
        raise IndexProblem(
            f"{folder}: cannot be written: {error.strerror or error}", hint=hint
        ) from error
    except (ValueError, TypeError, IndexError, OverflowError) as error:  # damaged values
        raise damaged(folder, str(error)) from error


def damaged(folder: Path, reason: str) -> IndexProblem:
    return IndexProblem(
        f"{folder}: the index is damaged: {reason}",
        hint=f"{command(folder)} --rebuild makes a new one",
    )


def missing(folder: Path) -> IndexProblem:
    return IndexProblem(f"{folder}: no index there", hint=f"{command(folder)} makes one")


def command(folder: Path) -> str:
    """The command that makes this index; PHOTOS is to be filled in if the index is not in the
    folder of the photos."""
    if folder.name == FOLDER:
        return f"regiontalk index {shlex.quote(str(folder.parent))}"
    return f"regiontalk index PHOTOS --index {shlex.quote(str(folder))}"


def busy(folder: Path) -> IndexProblem:
    return IndexProblem(
        f"{folder}: another process is writing the index", hint="wait until it has finished"
    )


def take_lock(folder: Path, wait: float = 0) -> sqlite3.Connection:
    """Held as long as the connection is open; the system releases it even if the process is
    killed."""
    lock = _open(folder / LOCK, "rwc", wait)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except BaseException:
        lock.close()
        raise
    return lock


def connect(folder: Path, writing: bool) -> sqlite3.Connection:
    path = folder / NAME
    if writing:
        return _open(path, "rwc")
    if not path.is_file() or (folder / JOURNAL).is_file():
        raise missing(folder)
    _check_length(path)
    try:
        return _try(_open(path, "ro"))
    except (
        sqlite3.OperationalError
    ):  # not writable, so SQLite cannot create the shared-memory file of readers
        return _try(_open(path, "ro&immutable=1"))


def _check_length(path: Path) -> None:
    """SQLite notices a truncated file only when it reads the missing part. After a full disk, the
    missing part is in the write-ahead log."""
    log = path.with_name(f"{NAME}-wal")
    if log.is_file() and log.stat().st_size:
        return
    with open_file(path) as file:
        header = file.read(32)
    page = int.from_bytes(header[16:18])
    pages = int.from_bytes(header[28:32])
    if path.stat().st_size < pages * (page if page > 1 else 65536):
        raise sqlite3.DatabaseError("the file was cut off")


def _try(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except BaseException:
        connection.close()
        raise
    return connection


def _open(path: Path, mode: str, wait: float = MAX_WAIT) -> sqlite3.Connection:
    address = f"file:{quote(os.fsencode(path))}?mode={mode}"
    return sqlite3.connect(
        address, timeout=wait, isolation_level=None, check_same_thread=False, uri=True
    )


def prepare(database: sqlite3.Connection, folder: Path, model: IndexedModel | None) -> None:
    """Checks the format; with `model` (for writing) applies the missing migrations."""
    ((version,), (application,)) = (
        database.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")
    )
    if version and application != APPLICATION:
        raise damaged(folder, "it belongs to another program")
    if version > len(MIGRATIONS):
        raise IndexProblem(
            f"{folder}: an index of format {version}; this program reads {len(MIGRATIONS)}",
            hint="pip install --upgrade regiontalk",
        )
    if model is None and version == 0:
        raise missing(folder)
    if model is None and version < len(MIGRATIONS):
        consequence = "" if version >= KEPT_SINCE else ": all photos are processed again"
        hint = f"{command(folder)} updates it{consequence}"
        raise IndexProblem(f"{folder}: made by an earlier regiontalk", hint=hint)
    if model is not None:
        _migrate(database, version, model)


def _migrate(database: sqlite3.Connection, version: int, model: IndexedModel) -> None:
    for setting in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
        database.execute(f"PRAGMA {setting}")
    with transaction(database, "IMMEDIATE"):
        for script in MIGRATIONS[version:]:
            for statement in filter(str.strip, script.split(";")):
                database.execute(statement)
        for name, value in (("user_version", len(MIGRATIONS)), ("application_id", APPLICATION)):
            database.execute(f"PRAGMA {name} = {value}")
        if version < len(MIGRATIONS):
            if version < KEPT_SINCE:
                for about, first_value in {**asdict(model), "generation": 0, "slots": 0}.items():
                    set_about(database, about, first_value)
            set_about(database, PHOTOS_SUM, sum_photos(database))
            set_about(database, WORDS_SUM, sum_words(database))


def check(database: sqlite3.Connection) -> None:
    """Reads everything: the structure of the file, tables against their indexes, checksums."""
    (problem,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise sqlite3.DatabaseError(problem)
    check_sums(database)
    for (photo,) in database.execute("SELECT id FROM photos").fetchall():
        _read_checked(database, "id = ?", photo)


def check_sums(database: sqlite3.Connection) -> None:
    """Compares the rows of the photos, and the tables that words are found in, with their
    checksums.

    SQLite itself notices few damages, and FTS5 answers without those words that it cannot find.
    """
    sums = dict(database.execute("SELECT name, value FROM about").fetchall())
    if sum_photos(database) != sums[PHOTOS_SUM]:
        raise sqlite3.DatabaseError("the photos have a wrong checksum")
    if sum_words(database) != sums[WORDS_SUM]:
        raise sqlite3.DatabaseError("the words of the captions have a wrong checksum")


def sum_photos(database: sqlite3.Connection, condition: str = "true", *values: object) -> int:
    """The sum of the rows' checksums, so that it can be kept up to date row by row."""
    rows = database.execute(f"SELECT {_ROW} FROM photos WHERE {condition}", values)
    return sum(zlib.crc32(repr(row).encode()) for row in rows)


def store_sum_of_words(database: sqlite3.Connection) -> None:
    """Called before a transaction ends. FTS5 writes its tables at a savepoint or at the end."""
    database.execute("SAVEPOINT words")
    database.execute("RELEASE words")
    set_about(database, WORDS_SUM, sum_words(database))


def sum_words(database: sqlite3.Connection) -> int:
    """A checksum of FTS5's own tables: a millisecond for 10,000 photos."""
    checksum = 0
    for query in _WORD_TABLES:
        for row in database.execute(query):
            checksum = zlib.crc32(repr(row).encode(), checksum)
    return checksum


@contextmanager
def transaction(database: sqlite3.Connection, kind: str) -> Iterator[None]:
    database.execute(f"BEGIN {kind}")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # after a full disk it has already ended
            database.execute("ROLLBACK")
        raise


def set_about(database: sqlite3.Connection, name: str, value: object) -> None:
    database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))


def insert(database: sqlite3.Connection, entry: Entry, slot: tuple[int, int, int]) -> None:
    """A photo; `slot` is its number and the checksums of its vectors and details."""
    path = os.fsencode(entry.file.path)
    sealed = (secrets.token_hex(8), entry.taken, *entry.size, *_pack(entry))
    photo = (
        path,
        entry.file.size,
        entry.file.modified,
        entry.digest,
        *sealed,
        *slot,
        _seal(path, sealed),
    )
    marks = ", ?" * len(photo)
    inserted = database.execute(f"INSERT INTO photos VALUES (NULL{marks})", photo).lastrowid
    captions = (inserted, "\n".join(entry.captions))
    database.execute("INSERT INTO captions (rowid, text) VALUES (?, ?)", captions)
    _add_to_sum(database, sum_photos(database, "id = ?", inserted))


def _pack(entry: Entry) -> tuple[bytes, str]:
    """Numbers and captions of its regions. A row for each region would take twice the space."""
    regions = zip(entry.regions, entry.raw_scores, strict=True)
    rows = [
        (*region.xyxy, region.score, raw, region.logprob, region.confidence)
        for region, raw in regions
    ]
    return np.array(rows, dtype=NUMBERS).tobytes(), "\n".join(
        region.caption for region in entry.regions
    )


def _unpack(numbers: bytes, words: str) -> tuple[tuple[Region, ...], tuple[float, ...]]:
    """Regions and their raw scores."""
    rows = np.frombuffer(numbers, NUMBERS).reshape(-1, COLUMNS).tolist()
    regions = [
        Region(
            (x0, y0, x1, y1),
            score,
            caption,
            *(None if math.isnan(number) else number for number in about_caption),
        )
        for (x0, y0, x1, y1, score, _, *about_caption), caption in zip(
            rows, words.split("\n"), strict=True
        )
    ]
    return tuple(regions), tuple(row[5] for row in rows)


def _add_to_sum(database: sqlite3.Connection, difference: int) -> None:
    database.execute("UPDATE about SET value = value + ? WHERE name = ?", (difference, PHOTOS_SUM))


def delete(database: sqlite3.Connection, path: bytes) -> None:
    _add_to_sum(database, -sum_photos(database, "path = ?", path))
    database.execute(
        "DELETE FROM captions WHERE rowid = (SELECT id FROM photos WHERE path = ?)", (path,)
    )
    database.execute("DELETE FROM photos WHERE path = ?", (path,))


def rename(database: sqlite3.Connection, before: bytes, file: PhotoFile) -> None:
    path = os.fsencode(file.path)
    photo, _, sealed = _read_checked(database, "path = ?", before)
    old_sum = sum_photos(database, "id = ?", photo)
    database.execute(
        "UPDATE photos SET path = ?, bytes = ?, modified = ?, seal = ? WHERE id = ?",
        (path, file.size, file.modified, _seal(path, sealed), photo),
    )
    _add_to_sum(database, sum_photos(database, "id = ?", photo) - old_sum)


def set_date(database: sqlite3.Connection, path: bytes, taken: str) -> None:
    photo, _, (key, _, *others) = _read_checked(database, "path = ?", path)
    old_sum = sum_photos(database, "id = ?", photo)
    seal = _seal(path, (key, taken, *others))
    database.execute("UPDATE photos SET taken = ?, seal = ? WHERE id = ?", (taken, seal, photo))
    _add_to_sum(database, sum_photos(database, "id = ?", photo) - old_sum)


def read(database: sqlite3.Connection, photo: int) -> StoredPhoto:
    _, path, (key, taken, width, height, numbers, words) = _read_checked(database, "id = ?", photo)
    return StoredPhoto(
        photo, key, os.fsdecode(path), (width, height), taken, *_unpack(numbers, words)
    )


def count_regions(database: sqlite3.Connection, photo: int) -> int:
    (size,) = database.execute(
        "SELECT length(numbers) FROM photos WHERE id = ?", (photo,)
    ).fetchone()
    return int(size) // (COLUMNS * np.dtype(NUMBERS).itemsize)


def _read_checked(
    database: sqlite3.Connection, condition: str, value: object
) -> tuple[int, bytes, tuple[Any, ...]]:
    """Id, path, and the stored photo."""
    columns = "id, path, seal, key, taken, width, height, numbers, words"
    query = f"SELECT {columns} FROM photos WHERE {condition}"
    photo, path, seal, *sealed = database.execute(query, (value,)).fetchone()
    if seal != _seal(path, tuple(sealed)):
        raise sqlite3.DatabaseError("a photo has a wrong checksum")
    return photo, path, tuple(sealed)


def _seal(path: bytes, sealed: tuple[Any, ...]) -> int:
    """A checksum over the data of a photo."""
    return zlib.crc32(repr(sealed).encode(), zlib.crc32(path))
