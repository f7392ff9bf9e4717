"""What is PostgreSQL's own: many writers, an index over vectors, a server that dies, and what can
be wrong with it."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_up_entries import MODEL, entry, vectors_of
from postgres_server import Server
from regiontalk.errors import IndexProblem
from regiontalk.search.store import Stored, Where

psycopg = pytest.importorskip("psycopg", reason="no psycopg: pip install 'regiontalk[postgres]'")

from regiontalk.search.postgres import connection as tables  # noqa: E402
from regiontalk.search.postgres import store as postgres_store  # noqa: E402
from regiontalk.search.postgres.store import PostgresStore  # noqa: E402


@pytest.fixture
def store(postgres: Server) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres.address, MODEL, rebuild=True)
    store.put([entry(number) for number in range(6)])
    yield store
    store.close()


def contents(address: str) -> dict[str, Stored]:
    """What is known of each photo; all of its regions must be there."""
    store = PostgresStore(address)
    ids = store.word_scores(vectors_of(0)[:1], Where()).ids.tolist()
    photos = {photo.path: photo for photo in store.read(ids)}
    assert all(one.shape == (MODEL.regions, MODEL.size) for one in store.vectors(ids))
    files = store.files()
    store.close()
    assert photos.keys() == files.keys()
    return files


WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from made_up_entries import MODEL, entry
from regiontalk.search.postgres.store import PostgresStore
store = PostgresStore(sys.argv[1], MODEL)
known = store.files()
print("open", flush=True)
for n in map(int, sys.argv[3].split(",")):
    if f"{n:04d}.jpg" not in known:
        store.put([entry(n)])
        print(n, flush=True)
"""


def write(address: str, numbers: list[int]) -> subprocess.Popen[str]:
    code = [
        sys.executable,
        "-c",
        WRITER,
        address,
        str(Path(__file__).parents[2]),
        ",".join(map(str, numbers)),
    ]
    return subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_many_write_the_same_photos_at_once(postgres: Server) -> None:
    """Also the tables are made by several at once."""
    with PostgresStore(postgres.address, MODEL, rebuild=True)._connection as connection:
        tables.drop(connection)
    orders = [random.Random(seed).sample(range(40), 40) for seed in range(3)]
    writers = [write(postgres.address, numbers) for numbers in orders]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 3
    assert sorted(contents(postgres.address)) == [f"{number:04d}.jpg" for number in range(40)]


def test_a_server_that_is_killed_loses_the_photo_in_flight_at_most() -> None:
    server, photos = Server(), list(range(300))
    try:
        PostgresStore(server.address, MODEL).close()
        reader = PostgresStore(server.address)
        for seen in (20, 5):
            with write(server.address, photos) as writer:
                assert writer.stdout is not None
                assert writer.stderr is not None
                for _ in range(seen):
                    last = writer.stdout.readline()
                server.kill()
                assert "IndexProblem" in writer.stderr.read()
                for line in writer.stdout:  # what it did before it noticed
                    last = line
            server.start()
            stored = contents(server.address)
            assert sorted(stored) == [
                f"{number:04d}.jpg" for number in range(len(stored))
            ]  # whole, and none lost
            assert int(last) < len(stored) <= int(last) + 2  # at most the commit was not heard of
        with pytest.raises(IndexProblem, match="no connection"):
            reader.files()
        assert reader.files() == stored  # connects again
        reader.close()
        assert write(server.address, photos).communicate()[1] == ""
        assert len(contents(server.address)) == len(photos)
    finally:
        server.stop()


def test_a_photo_that_fails_leaves_nothing(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = store.files()
    broken = replace(entry(2), file=entry(2).file._replace(size=999), vectors=vectors_of(2)[:3])
    with pytest.raises(ValueError, match="shorter"):
        store.put([broken])
    for error in (
        psycopg.errors.DiskFull("no space left"),
        psycopg.errors.IoError("could not extend file"),
    ):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(psycopg.Copy, "write_row", fail)
        with pytest.raises(IndexProblem, match="cannot be written") as caught:
            store.put([entry(20)])
        assert "free space" in str(caught.value.hint)
        monkeypatch.undo()
    assert store.files() == before == contents(store.address)


def test_an_index_made_anew_by_another_model_takes_no_more_photos(store: PostgresStore) -> None:
    PostgresStore(
        store.address, replace(MODEL, name="other", fingerprint="ffff"), rebuild=True
    ).close()
    with pytest.raises(IndexProblem, match="another model"):
        store.put([entry(3)])
    assert contents(store.address) == {}


def test_a_large_index_scores_what_is_near_and_what_is_said(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "MAX_EXACT", 100)
    monkeypatch.setattr(postgres_store, "NEAREST_PER_QUERY", 80)
    monkeypatch.setattr(postgres_store, "MIN_NEAREST", 1)
    monkeypatch.setattr(postgres_store, "MIN_NEAR", 10)
    store.put([entry(number, f"{'ab'[number % 2]}/{number}.jpg") for number in range(6, 400)])
    words = vectors_of(4000)[:2]
    exact = store.word_scores(words, Where())
    store.compact()
    store.compact()  # has it already
    assert tables.has_near(store._connection)
    found = store.word_scores(words, Where(), [("dogs", "397")])
    assert found.searched == len(exact.ids) == 400 > len(found.ids) > 40
    rows = np.searchsorted(exact.ids, found.ids)
    np.testing.assert_array_equal(found.scores, exact.scores[rows])
    assert exact.ids[exact.scores[:, 0].argmax()] in found.ids
    assert exact.ids[exact.scores[:, 1].argmax()] in found.ids
    assert store.said(["397"], found).sum() == 1
    assert store.said(["nothing", "397"], found).sum() == 1
    assert store.said(["dog"], found).all()
    below = store.word_scores(words, Where("a"))
    assert below.searched == 197
    assert {photo.path[:2] for photo in store.read(below.ids.tolist())} == {"a/"}
    few = store.word_scores(words, Where("b"), [("399",)])
    assert len(few.ids) < few.searched
    monkeypatch.setattr(postgres_store, "MIN_NEAR", 150)
    assert (
        len(store.word_scores(words, Where("b")).ids) == 197
    )  # too few of the nearest are there: all are scored


def test_many_photos_take_no_more_statements_than_one(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, sent, rows = store.newest(Where(), 0, 6).tolist(), list[str](), store._rows

    def count(query: str, values: Sequence[object]) -> list[Any]:
        sent.append(query)
        return rows(query, values)

    monkeypatch.setattr(store, "_rows", count)
    for read in (store.read, store.vectors, store.states):
        assert len(read(ids[:1])) == 1
        for_one = sent.copy()
        sent.clear()
        assert len(read(ids)) == 6
        assert sent == for_one
        sent.clear()


def test_several_threads_may_ask(store: PostgresStore) -> None:
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(len(store.files()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [6] * 8


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://nobody:secret@127.0.0.1:1/photos", "127.0.0.1:1/photos: no connection"),
        ("postgresql://user:secret@%zz/photos", "postgresql"),
    ],
)
def test_a_wrong_address_is_said_without_its_password(address: str, message: str) -> None:
    with pytest.raises(IndexProblem, match=message) as caught:
        PostgresStore(address)
    assert "secret" not in str(caught.value.message) + str(caught.value.hint)


def test_a_data_base_without_index_or_pgvector_is_said(
    postgres: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.drop(store._connection)
    with pytest.raises(IndexProblem, match="no index there"):
        PostgresStore(postgres.address)
    with pytest.raises(IndexProblem, match="no index there"):
        store.files()
    store._connection.execute("DROP EXTENSION vector")
    real = tables._one
    monkeypatch.setattr(
        tables,
        "_one",
        lambda connection, query, *values: real(
            connection, query.replace("'vector'", "'none'"), *values
        ),
    )
    with pytest.raises(IndexProblem, match="has no pgvector"):
        PostgresStore(postgres.address, MODEL)
    monkeypatch.undo()
    with pytest.raises(IndexProblem, match="no index there"):  # nothing half-made
        PostgresStore(postgres.address)


def test_what_is_not_allowed_is_said(postgres: Server, store: PostgresStore) -> None:
    store._connection.execute("DROP ROLE IF EXISTS guest")
    store._connection.execute("CREATE ROLE guest LOGIN")
    with pytest.raises(IndexProblem, match="not allowed"):
        PostgresStore(postgres.address.replace("postgres:@", "guest:@"))
    tables.drop(store._connection)
    store._connection.execute("DROP EXTENSION vector")
    with pytest.raises(IndexProblem, match=r"not enabled|not allowed"):
        PostgresStore(postgres.address.replace("postgres:@", "guest:@"), MODEL)
    store._connection.execute("DROP ROLE guest")


def test_a_newer_format_is_refused(postgres: Server, store: PostgresStore) -> None:
    store._connection.execute("UPDATE about SET format = 99")
    for model in (None, MODEL):
        with pytest.raises(IndexProblem, match="format 99"):
            PostgresStore(postgres.address, model)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM regiontalk.about",
        "INSERT INTO regiontalk.about SELECT * FROM regiontalk.about",
        "ALTER TABLE regiontalk.about ALTER format TYPE text",
        "ALTER TABLE regiontalk.about DROP COLUMN fingerprint",
        "ALTER TABLE regiontalk.photos DROP COLUMN key",
        "DROP SCHEMA regiontalk CASCADE; CREATE SCHEMA regiontalk;"
        " CREATE TABLE regiontalk.about (mine text)",
    ],
)
def test_tables_of_another_program_are_refused_and_replaced_on_request(
    store: PostgresStore, postgres: Server, change: str
) -> None:
    store.close()
    with psycopg.connect(postgres.address) as connection:
        connection.execute(change)

    def put_one() -> None:
        with closing(PostgresStore(postgres.address, MODEL)) as again:
            again.put([entry(1)])

    with pytest.raises(IndexProblem, match="damaged") as problem:
        put_one()
    assert "--rebuild" in (problem.value.hint or "")
    PostgresStore(postgres.address, MODEL, rebuild=True).close()
    assert contents(postgres.address) == {}
