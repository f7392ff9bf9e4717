from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regiontalk
from conftest import draw_scene
from postgres_server import Server
from regiontalk.cli.main import run
from regiontalk.results import Hit, Hits, Region, Shown, WordMatch
from regiontalk.search.index import Index

Search = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, aligning_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    (folder / "trip").mkdir()
    draw_scene().save(folder / "a.png")
    draw_scene((50, 70)).save(folder / "trip" / "b.png")
    assert run(["index", str(folder), "--model", str(aligning_model), "-q"]) == 0
    return folder


@pytest.fixture
def search(photos: Path, aligning_model: Path, capsys: pytest.CaptureFixture[str]) -> Search:
    def ask(*arguments: str, expected: int = 0) -> tuple[str, str]:
        assert run(["search", *arguments, "--model", str(aligning_model)]) == expected
        out, err = capsys.readouterr()
        return out, err

    return ask


def test_hits_are_lines_for_a_pipe_and_json(photos: Path, search: Search) -> None:
    out, _ = search("red circle", str(photos))
    rows = [line.split("\t") for line in out.splitlines()]
    assert {row[0] for row in rows} == {str(photos / "a.png"), str(photos / "trip" / "b.png")}
    assert {row[3] for row in rows} <= {"likely", "less likely"}
    out, _ = search("red circle", str(photos / "trip"), "--json", "--top", "5")
    (hit,) = map(json.loads, out.splitlines())
    assert set(hit) == {"path", "score", "likely", "words", "regions"}
    assert hit["path"] == str(photos / "trip" / "b.png")
    assert [word["word"] for word in hit["words"]] == ["red", "circle"]
    assert all(set(region) == {"xyxy", "caption"} for region in hit["regions"])


def test_nothing_found_is_said(photos: Path, search: Search) -> None:
    out, err = search("red quokka", str(photos), "--threshold", "1")
    assert out == ""
    assert "The model does not know “quokka”." in err
    assert "no likely match in 2 photos" in err


@pytest.mark.parametrize("query", ["quokka", "ein Hund im Schnee", "犬", "🐈"])
def test_a_query_that_cannot_be_read_is_explained(photos: Path, search: Search, query: str) -> None:
    out, err = search(query, str(photos))
    assert out == ""
    assert f"“{query}”" in err
    assert err.count("\n") == 1


def test_typing_mistakes_are_corrected_and_it_is_said(photos: Path, search: Search) -> None:
    out, err = search("red cirlce", str(photos), "--json")
    assert out == search("red circle", str(photos), "--json")[0]
    assert "Showing “circle”. To search for “cirlce”, put it in quotes." in err
    for arguments in (("red cirlce", "--as-typed"), ('red "cirlce"',)):
        out, err = search(*arguments, "--json", str(photos))
        assert "does not know “cirlce”" in err
        assert [word["region"] for word in json.loads(out.splitlines()[0])["words"]][1] is None


def hit(path: str, likely: bool) -> Hit:
    return Hit(path, 0.9 if likely else 0.1, (), (), likely=likely)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), 5),
        (("--top", "7"), 7),
        (("--top", "2"), 2),
        (("--all",), 12),
        (("--threshold", "0.05"), 10),
    ],
)
def test_less_likely_photos_come_after_a_line(
    photos: Path,
    search: Search,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    shown: int,
) -> None:
    every = tuple(hit(f"{number}.jpg", likely=number < 3) for number in range(12))

    def find(self: Index, query: str, top: int, **options: Any) -> Hits:
        return Hits(query, every[:top], 12)

    monkeypatch.setattr(Index, "search", find)
    monkeypatch.setattr(Index, "__len__", lambda self: 12)
    out, err = search("red circle", str(photos), *options)
    cells = [line.split("\t")[3] for line in out.splitlines()]
    assert cells == ["likely"] * min(shown, 3) + ["less likely"] * (shown - 3)
    assert ("less likely:" in err) == (shown > 3)
    out, _ = search("red circle", str(photos), *options, "--json")
    assert [json.loads(line)["likely"] for line in out.splitlines()] == [
        cell == "likely" for cell in cells
    ]


def test_captions_that_are_not_sure_say_so(
    photos: Path, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = (0.0, 0.0, 9.0, 9.0)
    regions = tuple(
        Region(box, 0.9, caption, confidence=confidence)
        for caption, confidence in [("a dog", 0.9), ("a robot", 0.2), ("", None)]
    )
    words = tuple(WordMatch(word, 0.5, row) for row, word in enumerate(["dog", "cup", "street"]))
    shown = Shown(sure_confidence=0.55)
    hit = Hit("a.png", 0.9, words, regions, shown=shown)
    monkeypatch.setattr(Index, "search", lambda *_, **__: Hits("", (hit,), 1))
    out, _ = search("dog cup street", str(photos))
    cell = out.split("\t")[2]
    assert cell == "dog (a dog); cup (a robot, not sure); street (the whole photo)"
    like = replace(hit, words=(), regions=regions[:2])
    monkeypatch.setattr(Index, "search", lambda *_, **__: Hits("", (like,), 1))
    out, _ = search("dog cup street", str(photos))
    assert out.split("\t")[2] == "a dog; a robot, not sure"
    assert like.labels() == ["a dog", "a robot (not sure)"]


def test_pages_and_pictures(photos: Path, tmp_path: Path, search: Search) -> None:
    search("red circle", str(photos), "-o", str(tmp_path / "page.html"))
    assert "circle" in (tmp_path / "page.html").read_text()
    search("red circle", str(photos), "-o", str(tmp_path / "pictures"))
    assert len(list((tmp_path / "pictures").iterdir())) == 2
    search("red circle", str(photos), "-o", str(tmp_path / "x.csv"), expected=2)


def test_photos_like_a_part_of_one(photos: Path, search: Search, aligning_model: Path) -> None:
    out, _ = search(
        "--like", str(photos / "a.png"), "--box", "0.1,0.1,0.5,0.5", str(photos), "--json"
    )
    (other,) = map(json.loads, out.splitlines())
    assert other["path"] == str(photos / "trip" / "b.png")
    hits = Index.open(photos, model=regiontalk.load(aligning_model)).like(photos / "a.png")
    assert hits.closest == max(hit.score for hit in hits), "not that of the photo itself"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        ([""], 2),
        (["-x-"], 2),
        (["red", "FOLDER", "more"], 2),
        (["red", "--box", "1,2,3,4"], 2),
        (["red", "--top", "0"], 2),
        (["red", "--top", "2", "--all"], 2),
        (["red", "FOLDER", "--all"], 0),
        (["red", "--threshold", "nan"], 2),
        (["red", "--since", "soon"], 2),
        (["quokka"], 0),
        (["ein Hund im Schnee"], 0),
        (["犬"], 0),
        (["a;" * 30], 2),
        (["red", "NOWHERE"], 5),
        (["red", "FOLDER", "--top", "1000000000"], 0),
    ],
)
def test_exit_codes(
    photos: Path,
    search: Search,
    arguments: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(photos)
    places = {"FOLDER": str(photos), "NOWHERE": str(tmp_path)}
    search(*(places.get(one, one) for one in arguments), expected=code)


def test_a_shared_index_answers_as_the_one_in_the_folder(
    photos: Path, tmp_path: Path, aligning_model: Path, search: Search, postgres: Server
) -> None:
    """Two folders in one database, each brought up to date by itself."""
    draw_scene((60, 60)).save(tmp_path / "c.png")
    model, store = ["--model", str(aligning_model), "-q"], ["--store", postgres.address]
    assert run(["index", str(photos), *store, "--rebuild", *model]) == 0
    assert run(["index", str(tmp_path), *store, *model]) == 0
    assert run(["index", str(photos), *store, *model]) == 0

    def hits(*arguments: str) -> list[dict[str, Any]]:
        return [
            json.loads(line) for line in search("red circle", *arguments, "--json")[0].splitlines()
        ]

    assert len(hits(*store)) == 3
    shared, own = hits(str(photos), *store), hits(str(photos))
    for one, other in zip(shared, own, strict=True):
        assert one.pop("score") == pytest.approx(other.pop("score"), abs=1e-4)
        assert [word.pop("score") for word in one["words"]] == pytest.approx(
            [word.pop("score") for word in other["words"]], abs=1e-3
        )
    assert shared == own
    assert [hit["path"] for hit in hits(str(photos / "trip"), *store)] == [
        str(photos / "trip" / "b.png")
    ]


def test_a_wrong_store_is_said(search: Search, aligning_model: Path, tmp_path: Path) -> None:
    _, err = search(
        "red circle", "--store", "postgresql://me:secret@127.0.0.1:1/photos", expected=5
    )
    assert "no connection" in err
    assert "secret" not in err
    assert err.count("\n") == 1
    search("red circle", "--store", "mysql://here", expected=2)
    search("red circle", "--store", "postgresql://x/y", "--index", str(tmp_path), expected=2)
