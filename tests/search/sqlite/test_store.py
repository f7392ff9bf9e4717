from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_up_entries import MODEL, entry, vectors_of
from regiontalk.errors import IndexProblem
from regiontalk.search.sqlite import database
from regiontalk.search.sqlite import store as sqlite_store
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Scored, Where


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "index", MODEL)
    store.put([entry(number) for number in range(6)])
    yield store
    store.close()


def contents(folder: Path) -> dict[str, object]:
    """All that an index says of each photo."""
    store = SqliteStore(folder)
    scored = store.word_scores(vectors_of(0)[:1], Where())
    ids = scored.ids.tolist()
    words = np.stack([store.said(word, scored) for word in ("dog", "3", "10", "5")], axis=1)
    numbers = zip(store.read(ids), store.vectors(ids), store.states(ids).tolist(), strict=True)
    found = {
        photo.path: (photo[3:], own.tolist(), state, words[row].tolist())
        for row, (photo, own, state) in enumerate(numbers)
    }
    files = store.files()
    store.close()
    return {path: (files[path], *found[path]) for path in found}


def listings(folder: Path) -> list[list[str]]:
    """Paths of photos by time, by date, by folder and by key."""
    store = SqliteStore(folder)
    newest = store.read(store.newest(Where(), 0, 1000).tolist())
    dated = store.read(store.newest(Where(since="2020", until="2021-05-30"), 0, 1000).tolist())
    keyed = store.read([store.find_key(photo.key) or -1 for photo in newest])
    found = [[photo.path for photo in photos] for photos in (newest, dated, keyed)]
    found.append(list(store.files("trip")))
    store.close()
    return found


def test_room_is_given_back(store: SqliteStore, tmp_path: Path) -> None:
    before = contents(tmp_path / "index")
    reader = SqliteStore(tmp_path / "index")
    with reader.reading():
        first = reader.word_scores(vectors_of(1), Where())
        store.forget([f"{number:04d}.jpg" for number in (0, 2, 4)])
        store.compact()
        again = reader.word_scores(vectors_of(1), Where())  # as if nothing had happened
        assert (first.scores == again.scores).all()
    assert len(reader.word_scores(vectors_of(1), Where()).ids) == 3
    reader.close()
    after = contents(tmp_path / "index")
    assert after == {path: before[path] for path in ("0001.jpg", "0003.jpg", "0005.jpg")}
    store.close()
    SqliteStore(tmp_path / "index", MODEL).close()
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "index").glob("*.bin")}
    assert sizes == {
        "vectors-1.bin": 3 * (5 * 4 + 5 * 12),
        "details-1.bin": 3 * (5 * 12 // 2 + 2 * (4 + 128) + 2),
    }


def test_a_second_writer_is_told_at_once_and_readers_are_not(
    store: SqliteStore, tmp_path: Path
) -> None:
    with pytest.raises(IndexProblem, match="another process is writing"):
        SqliteStore(tmp_path / "index", MODEL)
    assert len(contents(tmp_path / "index")) == 6


def test_a_transaction_that_fails_leaves_nothing(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(store.folder)
    insert = database.insert
    calls: list[int] = []

    def fail(*arguments: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise sqlite3.OperationalError("database or disk is full")
        insert(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "insert", fail)
    with pytest.raises(IndexProblem):
        store.put([entry(20), entry(21)])
    assert contents(store.folder) == before
    monkeypatch.setattr(database, "insert", insert)
    store.put([entry(20)])  # over what was appended in vain
    assert store.read([7])[0].path == "0020.jpg"


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from made_up_entries import MODEL, entry
from regiontalk.search.sqlite.store import SqliteStore
store = SqliteStore(Path(sys.argv[1]), MODEL)
known = store.files()
print("open", flush=True)
left = [n for n in range(int(sys.argv[3])) if f"{n:04d}.jpg" not in known]
for start in range(0, len(left), 4):
    store.put([entry(n) for n in left[start:start + 4]])
store.forget([f"{n:04d}.jpg" for n in range(0, int(sys.argv[3]), 2)])
store.compact()
"""


def write(folder: Path, photos: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-c",
        WRITER,
        str(folder),
        str(Path(__file__).parents[2]),
        str(photos),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_killed_at_any_moment_it_becomes_what_it_should(tmp_path: Path) -> None:
    rng, photos = random.Random(5), 400
    write(tmp_path / "clean", photos).communicate()
    for _ in range(4):
        with write(tmp_path / "killed", photos) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
        if (tmp_path / "killed" / database.NAME).exists():
            contents(tmp_path / "killed")  # a reader gets on with whatever is there
    write(tmp_path / "killed", photos).communicate()
    clean = contents(tmp_path / "clean")
    assert len(clean) == photos // 2
    assert contents(tmp_path / "killed") == clean


def test_what_is_damaged_is_said_and_never_answered(store: SqliteStore, tmp_path: Path) -> None:
    """Bytes are flipped all over the files."""
    store.close()
    before, rng = contents(tmp_path / "index"), random.Random(0)
    listed = listings(tmp_path / "index")
    noticed = 0
    for name in ("index.sqlite", "vectors-0.bin", "details-0.bin"):
        for _ in range(60):
            folder = tmp_path / "damaged"
            shutil.copytree(tmp_path / "index", folder)
            data = bytearray((folder / name).read_bytes())
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            (folder / name).write_bytes(data)
            try:
                assert contents(folder) == before
                assert listings(folder) == listed
            except IndexProblem:
                noticed += 1
            shutil.rmtree(folder)
    assert noticed >= 60  # all in the vectors, some of the others


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE captions_data SET block = zeroblob(length(block)) WHERE id > 10",
        "DELETE FROM captions_idx",
        "DELETE FROM photos WHERE id = 3",
        "UPDATE photos SET slot = 5 - slot WHERE id IN (1, 6)",
        "UPDATE photos SET id = 77 WHERE id = 3",
        "UPDATE photos SET taken = '1999' WHERE id = 3",
        "UPDATE about SET value = value + 1 WHERE name = 'words_sum'",
        "UPDATE about SET value = value + 1 WHERE name = 'photos_sum'",
    ],
)
def test_tables_that_were_damaged_are_refused(
    store: SqliteStore, tmp_path: Path, damage: str
) -> None:
    """As damages do that leave the file sound for SQLite: readers and writers notice them."""
    store.close()
    with sqlite3.connect(tmp_path / "index" / database.NAME) as connection:
        connection.execute(damage)
    connection.close()
    for model in (None, MODEL):
        with pytest.raises(IndexProblem, match="damaged") as problem:
            SqliteStore(tmp_path / "index", model).said("dog", Scored(np.arange(1), np.ones(1), 1))
        assert "--rebuild" in (problem.value.hint or "")


@pytest.mark.parametrize("name", ["vectors-0.bin", "details-0.bin"])
def test_a_writer_notices_damaged_vectors(store: SqliteStore, tmp_path: Path, name: str) -> None:
    store.close()
    path = tmp_path / "index" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(IndexProblem, match="wrong checksum"):
        SqliteStore(tmp_path / "index", MODEL)


def test_a_damaged_index_of_the_database_answers_no_differently(
    store: SqliteStore, tmp_path: Path
) -> None:
    """Bytes of its pages are zeroed: photos by date, path and key still are those of the rows."""
    store.put([entry(7, "trip/a.jpg", "2019-12-31T23:59:59")])
    store.close()
    before = contents(tmp_path / "index"), listings(tmp_path / "index")
    path = tmp_path / "index" / database.NAME
    with sqlite3.connect(path) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'photos' AND type = 'index'"
        roots = [root for (root,) in connection.execute(query)]
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    assert len(roots) == 3
    data = bytearray(path.read_bytes())
    for root in roots:
        data[(root - 1) * page_size + 3 : (root - 1) * page_size + 5] = bytes(2)  # no entry
    path.write_bytes(data)
    assert (contents(tmp_path / "index"), listings(tmp_path / "index")) == before
    with pytest.raises(IndexProblem, match="damaged"):
        SqliteStore(tmp_path / "index", MODEL)


def test_a_key_that_leads_to_another_photo_is_noticed(store: SqliteStore, tmp_path: Path) -> None:
    """In the database's index, the number of a photo follows its key."""
    ids = store.newest(Where(), 0, 10).tolist()
    keys = {photo.key.encode(): photo.id for photo in store.read(ids)}
    store.close()
    path = tmp_path / "index" / database.NAME
    data = bytearray(path.read_bytes())
    for key, photo in keys.items():
        if photo > 1:  # of 1 no byte is stored
            data[data.index(key + bytes([photo])) + len(key)] = photo % 5 + 2
    path.write_bytes(data)
    reader = SqliteStore(tmp_path / "index")
    assert {key: reader.find_key(key.decode()) for key in keys} == keys
    reader.close()


def test_a_damaged_log_gives_an_earlier_state_or_is_said(tmp_path: Path) -> None:
    """The write-ahead log of a writer that was killed."""
    folder, rng = tmp_path / "index", random.Random(3)
    store = SqliteStore(folder, MODEL)
    states: list[object] = []
    for start in range(0, 40, 4):
        store.put([entry(number) for number in range(start, start + 4)])
        states.append(contents(folder))
        if start == 20:
            store._database.execute("PRAGMA wal_checkpoint(PASSIVE)")
    shutil.copytree(folder, tmp_path / "killed")
    store.close()
    assert (tmp_path / "killed" / f"{database.NAME}-wal").stat().st_size
    outcomes = set()
    for _ in range(40):
        shutil.copytree(tmp_path / "killed", tmp_path / "damaged")
        (tmp_path / "damaged" / f"{database.NAME}-shm").unlink(missing_ok=True)
        log = tmp_path / "damaged" / f"{database.NAME}-wal"
        data = bytearray(log.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        log.write_bytes(data)
        try:
            found = contents(tmp_path / "damaged")
            assert found in states
            outcomes.add(len(found))
        except IndexProblem:
            outcomes.add(0)
        shutil.rmtree(tmp_path / "damaged")
    assert len(outcomes) > 1


@pytest.mark.parametrize("name", ["index.sqlite", "vectors-0.bin"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_files_that_were_cut_off_are_refused(
    store: SqliteStore, tmp_path: Path, name: str, share: float
) -> None:
    store.close()
    path = tmp_path / "index" / name
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(IndexProblem):
        contents(tmp_path / "index")
    if (name, share) != ("index.sqlite", 0.0):  # which is as good as none
        with pytest.raises(IndexProblem, match="damaged"):
            SqliteStore(tmp_path / "index", MODEL)


def test_newer_and_foreign_files_are_refused(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    for setting, message in (
        ("user_version = 99", "format 99"),
        ("application_id = 7", "another program"),
    ):
        with sqlite3.connect(tmp_path / "index" / database.NAME) as connection:
            connection.execute(f"PRAGMA {setting}")
        connection.close()
        for model in (None, MODEL):
            with pytest.raises(IndexProblem, match=message):
                SqliteStore(tmp_path / "index", model)
        with sqlite3.connect(tmp_path / "index" / database.NAME) as connection:
            connection.execute(f"PRAGMA user_version = {len(database.MIGRATIONS)}")
        connection.close()


def test_an_index_of_an_earlier_format_is_filled_anew(store: SqliteStore, tmp_path: Path) -> None:
    store.close()
    with sqlite3.connect(tmp_path / "index" / database.NAME) as connection:
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    with pytest.raises(IndexProblem, match="earlier regiontalk") as problem:
        SqliteStore(tmp_path / "index")
    assert "updates it" in (problem.value.hint or "")
    again = SqliteStore(tmp_path / "index", MODEL)
    assert again.count() == 0
    again.put([entry(3)])
    again.close()
    assert list(contents(tmp_path / "index")) == ["0003.jpg"]


def test_photos_of_the_last_format_stay(store: SqliteStore, tmp_path: Path) -> None:
    """It had no checksums of tables."""
    store.close()
    before = contents(tmp_path / "index")
    with sqlite3.connect(tmp_path / "index" / database.NAME) as connection:
        connection.execute("PRAGMA user_version = 2")
        connection.execute("DELETE FROM about WHERE name IN ('photos_sum', 'words_sum')")
    connection.close()
    with pytest.raises(IndexProblem, match="earlier regiontalk") as problem:
        SqliteStore(tmp_path / "index")
    assert "again" not in (problem.value.hint or "")
    SqliteStore(tmp_path / "index", MODEL).close()
    assert contents(tmp_path / "index") == before


def test_an_index_whose_first_write_was_stopped_is_none_yet(
    store: SqliteStore, tmp_path: Path
) -> None:
    """SQLite's journal is left, and half a page."""
    store.close()
    folder = tmp_path / "stopped"
    folder.mkdir()
    (folder / f"{database.NAME}-journal").write_bytes(bytes(512))
    first_page = (tmp_path / "index" / database.NAME).read_bytes()[:2048]
    (folder / database.NAME).write_bytes(first_page)
    with pytest.raises(IndexProblem, match="no index there"):
        SqliteStore(folder)


def test_a_missing_index_is_said(tmp_path: Path) -> None:
    with pytest.raises(IndexProblem, match="no index there") as problem:
        SqliteStore(tmp_path / "nothing")
    assert problem.value.hint == f"regiontalk index PHOTOS --index {tmp_path / 'nothing'} makes one"
    with pytest.raises(IndexProblem, match="no index there") as problem:
        SqliteStore(tmp_path / "my photos" / database.FOLDER)
    assert problem.value.hint == f"regiontalk index '{tmp_path / 'my photos'}' makes one"
    assert not (tmp_path / "nothing").exists()


def test_a_full_disk_is_said_and_the_old_index_answers(tmp_path: Path) -> None:
    """The system lets no file grow over a limit."""
    code = WRITER.replace("store.forget", "sys.exit('never')  # store.forget").replace(
        "left = ",
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); left = ",
    )
    folder = tmp_path / "index"
    command = [sys.executable, "-c", code, str(folder), str(Path(__file__).parents[2]), "5000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "IndexProblem" in done.stderr
    assert "cannot be written" in done.stderr
    assert len(contents(folder)) > 0


def test_an_index_in_a_folder_that_cannot_be_written_answers(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    before = contents(tmp_path / "index")
    opened = database._open

    def refuse(path: Path, mode: str, wait: float = 1) -> sqlite3.Connection:
        """As SQLite does where it cannot write; a test may run as root, who can."""
        if "immutable" not in mode:
            raise sqlite3.OperationalError("unable to open database file")
        return opened(path, mode, wait)

    monkeypatch.setattr(database, "_open", refuse)
    assert contents(tmp_path / "index") == before


def test_many_photos_are_scored_in_blocks(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = store.word_scores(vectors_of(3), Where())
    monkeypatch.setattr(sqlite_store.vector_file, "BLOCK_PRODUCTS", 1)
    store.put([replace(entry(30), vectors=vectors_of(30, rows=2))])
    again = store.word_scores(vectors_of(3), Where())
    np.testing.assert_allclose(again.scores[:6], whole.scores, rtol=1e-5)
