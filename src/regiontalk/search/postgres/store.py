"""An index in PostgreSQL (`postgres`), which many processes on many machines write and search at
the same time.

Every photo is a separate transaction: writers wait at most for one photo of each other, and cannot
deadlock. A query over few photos reads all their vectors. Over many, pgvector's index (HNSW) gives
the regions nearest to each word; their photos, and those whose captions have all words of a phrase,
are scored exactly.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg.pq import TransactionStatus

from regiontalk.errors import IndexProblem
from regiontalk.results import Region
from regiontalk.search.postgres import connection as postgres
from regiontalk.search.postgres.connection import Connection, explaining
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

MAX_EXACT = 2000  # photos, of which every one is scored
NEAREST_PER_QUERY = 1200  # regions that are looked up for a query; its words share them
MIN_NEAREST = 200  # of them, for each word
MAX_NEAREST = 1000  # pgvector looks up no more at a time
MAX_CAPTIONED = 400  # photos that are looked up for each phrase in captions
STATE = np.dtype("<f2")  # of a photo's state
MIN_NEAR = 100
"""Photos that must be left of those near the words when only some photos are meant; with fewer, all
that are meant are scored."""


class PostgresStore:
    """`address`: postgresql://user@host/database. With `model` it is opened for writing, and
    created if necessary."""

    def __init__(
        self, address: str, model: IndexedModel | None = None, *, rebuild: bool = False
    ) -> None:
        self.address = address
        self.name = postgres.name_of(address)
        self._mutex = threading.RLock()
        with explaining(self.name):
            self._connection = postgres.connect(address)
            try:
                if rebuild:
                    postgres.drop(self._connection)
                self.model = postgres.prepare(self._connection, self.name, model)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self._connection.close()

    # What is kept of files

    def files(self, folder: str = "") -> dict[str, Stored]:
        those, values = conditions(Where(folder), "%s")
        with self.reading():
            return to_files(
                self._rows(
                    f"SELECT path, bytes, modified, digest FROM photos WHERE {those}", values
                )
            )

    def put(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            with self._writing():
                self._put_one(entry)

    def _put_one(self, entry: Entry) -> None:
        """If another writer has just put the same photo, it is replaced."""
        file = (os.fsencode(entry.file.path), entry.file.size, entry.file.modified, entry.digest)
        state = entry.state.astype(STATE).tobytes()
        about = (secrets.token_hex(8), entry.taken, *entry.size, "\n".join(entry.captions), state)
        ((photo,),) = self._rows(
            "INSERT INTO photos (path, bytes, modified, digest, key, taken, width, height, words, "
            "state)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, to_tsvector('captions', %s), %s) ON CONFLICT "
            "(path) DO UPDATE"
            " SET (bytes, modified, digest, key, taken, width, height, words, state) = "
            "(excluded.bytes,"
            " excluded.modified, excluded.digest, excluded.key, excluded.taken, excluded.width, "
            "excluded.height,"
            " excluded.words, excluded.state) RETURNING id",
            (*file, *about),
        )
        self._connection.execute("DELETE FROM regions WHERE photo = %s", [photo])
        with self._connection.cursor().copy("COPY regions FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int8", "int2", *["float8"] * 5, "text", *["float8"] * 3, "vector"])
            regions = zip(entry.regions, entry.raw_scores, entry.vectors, strict=True)
            for number, (region, raw, vector) in enumerate(regions):
                box = map(float, region.xyxy)
                about_caption = (region.caption, region.logprob, region.confidence)
                copy.write_row((photo, number, *box, region.score, *about_caption, raw, vector))

    def forget(self, paths: Iterable[str]) -> None:
        with self._writing():
            self._connection.execute(
                "DELETE FROM photos WHERE path = ANY(%s)", [[os.fsencode(path) for path in paths]]
            )

    def rename(self, files: Mapping[str, PhotoFile]) -> None:
        with self._writing():
            for before, file in files.items():
                path = os.fsencode(before)
                now = os.fsencode(file.path)
                self._connection.execute(
                    "DELETE FROM photos WHERE path = %s AND path <> %s", [now, path]
                )
                self._connection.execute(
                    "UPDATE photos SET path = %s, bytes = %s, modified = %s WHERE path = %s",
                    [now, file.size, file.modified, path],
                )

    def date(self, taken: Mapping[str, str]) -> None:
        with self._writing():
            for path, when in taken.items():
                self._connection.execute(
                    "UPDATE photos SET taken = %s WHERE path = %s", [when, os.fsencode(path)]
                )

    def compact(self) -> None:
        """Makes the index over vectors once there are many photos. The server frees space
        itself."""
        with self._mutex, explaining(self.name):
            photos = self._rows(
                "SELECT count(*) FROM (SELECT 1 FROM photos LIMIT %s) few", [MAX_EXACT + 1]
            )[0][0]
            if photos > MAX_EXACT and not postgres.has_near(self._connection):
                postgres.make_near(self._connection)

    # Queries

    def word_scores(
        self, words: Floats, where: Where, said: Sequence[Sequence[str]] = ()
    ) -> Scored:
        those, values = conditions(where, "%s")
        with self.reading():
            searched = self._rows(f"SELECT count(*) FROM photos WHERE {those}", values)[0][0]
            if searched > MAX_EXACT and postgres.has_near(self._connection):
                near = self._near(words, where, said)
                if where == Where() or len(near) >= MIN_NEAR:
                    return Scored(
                        *self._score(words, "photo = ANY(%s)", [near]), searched, exact=True
                    )
            meant = (
                "true" if where == Where() else f"photo IN (SELECT id FROM photos WHERE {those})"
            )
            return Scored(*self._score(words, meant, values), searched, exact=True)

    def _near(self, words: Floats, where: Where, phrases: Sequence[Sequence[str]]) -> list[int]:
        """The photos of the regions nearest to each word, and some whose captions say all words of
        a phrase."""
        those, meant = conditions(where, "%s")
        nearest = min(max(NEAREST_PER_QUERY // len(words), MIN_NEAREST), MAX_NEAREST)
        for setting in (f"hnsw.ef_search = {nearest}", "enable_seqscan = off"):
            self._connection.execute(f"SET LOCAL {setting}")
        near = ["SELECT photo FROM regions ORDER BY vector <#> %s LIMIT %s"] * len(words)
        values: list[Any] = list(chain.from_iterable((word, nearest) for word in words))
        for phrase in filter(None, phrases):
            near.append(
                f"SELECT id FROM photos WHERE words @@ plainto_tsquery('captions', %s) AND {those} "
                "LIMIT %s"
            )
            values += [" ".join(phrase), *meant, MAX_CAPTIONED]
        query = " UNION ".join(f"({part})" for part in near)
        if where != Where():
            query = f"SELECT id FROM photos WHERE id IN ({query}) AND {those}"
            values = [*values, *meant]
        return [photo for (photo,) in self._rows(query, values)]

    def _score(self, words: Floats, meant: str, values: Sequence[object]) -> tuple[Ids, Floats]:
        """MaxSim (`inference.maxsim.word_scores`) where the vectors are: photos by rising id, and
        (P, W)."""
        best = "".join(", max(-(vector <#> %s))" for _ in words)
        rows = self._rows(
            f"SELECT photo{best} FROM regions WHERE {meant} GROUP BY photo ORDER BY photo",
            [*words, *values],
        )
        table = np.array(rows, dtype=np.float64).reshape(len(rows), 1 + len(words))
        return table[:, 0].astype(np.int64), table[:, 1:].astype(np.float32)

    def said(self, words: Collection[str], scored: Scored) -> NDArray[np.bool_]:
        either = " OR ".join(f'"{word}"' for word in words)
        query = (
            "SELECT id FROM photos WHERE id = ANY(%s) "
            "AND words @@ websearch_to_tsquery('captions', %s)"
        )
        with self.reading():
            photos = [photo for (photo,) in self._rows(query, [scored.ids.tolist(), either])]
        return np.isin(scored.ids, np.array(photos, dtype=np.int64))

    def read(self, ids: Iterable[int]) -> list[StoredPhoto]:
        chosen = list(ids)
        with self.reading():
            query = "SELECT id, key, path, width, height, taken FROM photos WHERE id = ANY(%s)"
            photos = {photo: about for photo, *about in self._rows(query, [chosen])}
            columns = "x0, y0, x1, y1, score, caption, logprob, confidence, raw_score"
            query = (
                f"SELECT photo, {columns} FROM regions WHERE photo = ANY(%s) ORDER BY photo, number"
            )
            regions = defaultdict[int, list[Any]](list)
            for photo, *region in self._rows(query, [chosen]):
                regions[photo].append(region)
        return [_to_photo(id, photos[id], regions[id]) for id in chosen]

    def vectors(self, ids: Iterable[int]) -> list[Floats]:
        chosen = list(ids)
        query = (
            "SELECT photo, string_agg(vector_send(vector), ''::bytea ORDER BY number) FROM regions"
            " WHERE photo = ANY(%s) GROUP BY photo"
        )
        with self.reading():
            bytes_of = dict(self._rows(query, [chosen]))
        sent = np.dtype([("length", ">u4"), ("vector", ">f4", self.model.size)])
        return [
            np.frombuffer(bytes_of[photo], sent)["vector"].astype(np.float32) for photo in chosen
        ]

    def states(self, ids: Iterable[int]) -> Floats:
        chosen = list(ids)
        with self.reading():
            bytes_of = dict(self._rows("SELECT id, state FROM photos WHERE id = ANY(%s)", [chosen]))
        rows = np.frombuffer(b"".join(bytes_of[photo] for photo in chosen), STATE)
        return rows.astype(np.float32).reshape(len(chosen), self.model.state)

    def count(self, folder: str = "") -> int:
        those, values = conditions(Where(folder), "%s")
        with self.reading():
            return int(self._rows(f"SELECT count(*) FROM photos WHERE {those}", values)[0][0])

    def newest(self, where: Where, offset: int, limit: int) -> Ids:
        those, values = conditions(where, "%s")
        query = (
            f"SELECT id FROM photos WHERE {those} ORDER BY taken DESC, id DESC LIMIT %s OFFSET %s"
        )
        with self.reading():
            return np.array(
                [photo for (photo,) in self._rows(query, [*values, limit, offset])], dtype=np.int64
            )

    def find_key(self, key: str) -> int | None:
        with self.reading():
            rows = self._rows("SELECT id FROM photos WHERE key = %s", [key])
        return rows[0][0] if rows else None

    # The database

    def _rows(self, query: str, values: Sequence[object]) -> list[Any]:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(query, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Lets one thread read at a time, in one transaction. Reentrant."""
        with self._mutex, explaining(self.name):
            if self._connection.info.transaction_status == TransactionStatus.INTRANS:
                yield
                return
            with self._reconnected().transaction():
                self._connection.execute(
                    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
                )
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Opens a transaction; raises an error if the index was rebuilt with another model."""
        with self._mutex, explaining(self.name), self._reconnected().transaction():
            self._check(postgres.read_model(self._connection))
            yield

    def _reconnected(self) -> Connection:
        """Reconnects if the server was restarted."""
        if self._connection.closed:
            self._connection = postgres.connect(self.address)
            self._check(postgres.prepare(self._connection, self.name, None))
        return self._connection

    def _check(self, model: IndexedModel) -> None:
        if model != self.model:
            raise IndexProblem(
                f"{self.name}: was rebuilt with another model", hint="--model names that one"
            )


def _to_photo(photo: int, about: Sequence[Any], rows: Sequence[Sequence[Any]]) -> StoredPhoto:
    key, path, width, height, taken = about
    regions = tuple(
        Region((x0, y0, x1, y1), *about_caption) for x0, y0, x1, y1, *about_caption, _ in rows
    )
    return StoredPhoto(
        photo,
        key,
        os.fsdecode(path),
        (width, height),
        taken,
        regions,
        tuple(row[-1] for row in rows),
    )
