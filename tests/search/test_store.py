"""What every `Store` must do, over both of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_up_entries import MODEL, entry, vectors_of
from postgres_server import Server
from regiontalk.inference import maxsim
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import PhotoFile, Store, Where

Open = Callable[[], Store]


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same index for writing, empty at first."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "index", MODEL)
    server: Server = request.getfixturevalue("postgres")
    from regiontalk.search.postgres.store import PostgresStore

    PostgresStore(server.address, MODEL, rebuild=True).close()
    return lambda: PostgresStore(server.address, MODEL)


@pytest.fixture
def store(open_store: Open) -> Iterator[Store]:
    store = open_store()
    store.put([entry(number) for number in range(6)])
    yield store
    store.close()


def paths(store: Store, where: Where = Where(), said: str = "") -> list[str]:  # noqa: B008
    """Of the photos that are meant; of those among them in whose captions a word stands."""
    scored = store.word_scores(vectors_of(9)[:1], where)
    assert scored.searched == len(scored.ids)
    ids = scored.ids
    if said:
        ids = ids[store.said([said], scored)]
    return [photo.path for photo in store.read(ids.tolist())]


def names(*numbers: int) -> list[str]:
    return [f"{number:04d}.jpg" for number in numbers]


def test_photos_come_back(store: Store) -> None:
    assert store.files()["0003.jpg"] == (PhotoFile("0003.jpg", 103, 5), (3).to_bytes(16, "big"))
    ids = store.word_scores(vectors_of(9), Where()).ids[[3]].tolist()
    (photo,) = store.read(ids)
    assert (photo.path, photo.regions) == ("0003.jpg", entry(3).regions)
    assert (photo.id, photo.size, photo.taken) == (ids[0], (20, 30), "2021-05-30T18:05:12")
    np.testing.assert_allclose(store.vectors(ids)[0], entry(3).vectors, atol=2e-4)
    assert store.read(ids)[0].raw_scores == entry(3).raw_scores
    np.testing.assert_allclose(store.states(ids), entry(3).state[None], atol=0.02)


def test_photos_are_read_in_the_order_asked_for(store: Store) -> None:
    rows = {6: 2, 0: 5, 3: 5}
    store.put([entry(6, rows=2)])
    numbered = dict(enumerate(store.word_scores(vectors_of(9)[:1], Where()).ids.tolist()))
    ids = [numbered[number] for number in rows]
    expected = [entry(number, rows=count) for number, count in rows.items()]
    photos = store.read(ids)
    assert [(photo.path, photo.regions) for photo in photos] == [
        (one.file.path, one.regions) for one in expected
    ]
    for own, one in zip(store.vectors(ids), expected, strict=True):
        np.testing.assert_allclose(own, one.vectors, atol=2e-4)
    np.testing.assert_allclose(store.states(ids), [one.state for one in expected], atol=0.02)
    assert store.read([]) == store.vectors([]) == []
    assert store.states([]).shape == (0, MODEL.state)


def test_photos_are_listed_newest_first_and_known_by_keys(store: Store) -> None:
    store.put(
        [
            entry(7, "trip/a.jpg", "2019-12-31T23:59:59"),
            entry(8, "trip/b.jpg", "2022-01-15T00:00:00"),
        ]
    )
    assert store.count() == 8

    def newest(where: Where, offset: int, limit: int) -> list[str]:
        return [photo.path for photo in store.read(store.newest(where, offset, limit).tolist())]

    assert newest(Where(), 0, 3) == ["trip/b.jpg", *names(5, 4)]
    assert newest(Where(), 6, 5) == [*names(0), "trip/a.jpg"]
    assert newest(Where("trip"), 0, 5) == ["trip/b.jpg", "trip/a.jpg"]
    (photo,) = store.read(store.newest(Where("trip"), 1, 1).tolist())
    store.rename({photo.path: PhotoFile("else.jpg", 1, 2)})
    assert store.find_key(photo.key) == photo.id
    store.put([entry(9, "else.jpg")])
    assert store.find_key(photo.key) is None
    assert store.find_key("1") is None


def test_they_are_there_when_it_is_opened_again(store: Store, open_store: Open) -> None:
    before = store.files()
    store.close()
    again = open_store()
    assert again.model == MODEL
    assert again.files() == before
    again.close()


def test_scores_are_those_of_maxsim(store: Store) -> None:
    words = vectors_of(9)[:3]
    scored = store.word_scores(words, Where())
    exact = maxsim.word_scores(np.stack([vectors_of(number) for number in range(6)]), words)
    assert [photo.path for photo in store.read(scored.ids.tolist())] == names(*range(6))
    np.testing.assert_allclose(scored.scores, exact, atol=0.01)
    if scored.exact:
        own = maxsim.word_scores(np.stack(store.vectors(scored.ids.tolist())), words)
        np.testing.assert_allclose(scored.scores, own, atol=1e-6)


def test_words_of_captions_are_found_in_any_form(store: Store) -> None:
    store.put([replace(entry(7), captions=("the man is running",))])
    assert paths(store, said="dog") == paths(store, said="dogs") == names(*range(6))
    assert paths(store, said="run") == paths(store, said="the") == names(7)
    assert paths(store, said="nothing") == []


def test_folders_and_dates_narrow_the_search(store: Store) -> None:
    store.put(
        [
            entry(7, "trip/a.jpg", "2019-12-31T23:59:59"),
            entry(8, "trip-2/b.jpg", "2020-01-15T00:00:00"),
        ]
    )
    a, b = "trip/a.jpg", "trip-2/b.jpg"
    for where, expected in (
        (Where(folder="trip"), [a]),
        (Where(until="2019"), [a]),
        (Where(until="2020-01-14"), [a]),
        (Where(until="2020-01-15"), [a, b]),
        (Where(since="2020", until="2020"), [b]),
        (Where(since="2021-05"), names(*range(6))),
        (Where(folder="nowhere"), []),
    ):
        assert paths(store, where) == expected
        assert paths(store, where, said="dog") == expected
    assert list(store.files("trip")) == [a]


def test_a_photo_of_the_same_path_is_replaced(store: Store) -> None:
    store.put([entry(50, "0002.jpg", rows=3)])
    assert len(store.files()) == 6
    assert paths(store, said="50") == ["0002.jpg"]
    assert sorted(paths(store, said="3")) == names(
        0, 1, 3, 4, 5
    )  # "3 dogs of …", the old one no more
    assert store.files()["0002.jpg"].file.size == 150


def test_photos_are_renamed_and_forgotten(store: Store) -> None:
    store.rename({"0001.jpg": PhotoFile("neu\udcff/x.jpg", 1, 2)})
    store.forget(["0002.jpg", "never.jpg"])
    expected = [*names(0, 3, 4, 5), "neu\udcff/x.jpg"]
    assert (
        sorted(store.files())
        == sorted(paths(store))
        == sorted(paths(store, said="dog"))
        == expected
    )


def test_a_state_can_be_kept_while_others_write(store: Store, open_store: Open) -> None:
    reader = open_store() if store.name.startswith("postgres") else SqliteStore(Path(store.name))
    with reader.reading():
        first = reader.word_scores(vectors_of(1), Where())
        store.forget(names(0, 2, 4))
        store.compact()
        again = reader.word_scores(vectors_of(1), Where())
        assert (first.scores == again.scores).all()
        assert len(reader.read(first.ids.tolist())) == 6
    assert paths(reader) == names(1, 3, 5)
    reader.close()


def test_an_empty_index_answers(open_store: Open) -> None:
    store = open_store()
    assert paths(store) == paths(store, said="dog") == []
    assert store.files() == {}
    store.compact()
    store.close()


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(["put", "forget", "rename"]), st.integers(0, 7), st.integers(0, 7)),
    max_size=12,
)


def apply(store: Store, step: Step) -> None:
    what, one, other = step
    if what == "put":
        store.put(
            [
                entry(
                    10 * one + other,
                    f"{one}.jpg",
                    f"20{10 + other}-05-30T18:05:12",
                    rows=1 + other % 5,
                )
            ]
        )
    elif what == "forget":
        store.forget([f"{one}.jpg", f"{other}.jpg"])
    elif f"{one}.jpg" in store.files() and f"{other}.jpg" not in store.files():
        store.rename({f"{one}.jpg": PhotoFile(f"{other}.jpg", one, other)})


@given(steps)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_both_answer_the_same(
    tmp_path_factory: pytest.TempPathFactory, postgres: Server, changes: list[Step]
) -> None:
    from regiontalk.search.postgres.store import PostgresStore

    stores = (
        SqliteStore(tmp_path_factory.mktemp("index"), MODEL),
        PostgresStore(postgres.address, MODEL, rebuild=True),
    )
    answers = []
    for store in stores:
        for step in changes:
            apply(store, step)
        scored = store.word_scores(vectors_of(99), Where(since="2012"))
        photos = store.read(scored.ids.tolist())
        said = store.said(["3"], scored)
        order = np.argsort([photo.path for photo in photos])
        told = [(photos[place].path, photos[place].regions, said[place]) for place in order]
        answers.append((store.files(), told, scored.scores[order]))
        store.close()
    assert answers[0][:2] == answers[1][:2]
    np.testing.assert_allclose(answers[0][2], answers[1][2], atol=0.01)
