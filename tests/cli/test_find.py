"""`regiontalk find`: lines, JSON, pictures, labels for other programs, and what it refuses."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from regiontalk.cli.main import run
from regiontalk.errors import IndexProblem
from regiontalk.model import Model

Find = Callable[..., int]


@pytest.fixture
def find(
    aligning_model: Path, scene_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Find:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    shutil.copy(scene_path, "photos/a.png")
    Image.open(scene_path).transpose(Image.Transpose.FLIP_LEFT_RIGHT).save("photos/b.png")

    def call(phrase: str, *given: str) -> int:
        return run(["find", phrase, *given, "--model", str(aligning_model)])

    return call


def test_lines_for_a_pipe(find: Find, capsys: pytest.CaptureFixture[str]) -> None:
    assert find("a red square", "scene.png", "--top", "2") == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert 1 <= len(lines) <= 2
    assert all((path, phrase) == ("scene.png", "a red square") for path, _, phrase, _, _ in lines)
    assert all(len(box.split(",")) == 4 for *_, box in lines)


def test_a_table(
    find: Find, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert find("a red square", "scene.png") == 0
    assert "phrase" in capsys.readouterr().out


def test_json_has_a_line_for_each_photo_and_phrase_best_first(
    find: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find("a red square; a blue zebra", "photos", "--json") == 0
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert sorted((one["path"], one["phrase"]) for one in found) == [
        (f"photos/{name}.png", phrase)
        for name in "ab"
        for phrase in ("a blue zebra", "a red square")
    ]
    best = [max(one["closest"] for one in found[start : start + 2]) for start in (0, 2)]
    assert best == sorted(best, reverse=True)
    assert found[1]["unknown"] == ["zebra"]
    assert "The model does not know “zebra”." in err
    assert "a red square: in 2 of 2 photos" in err


def test_nothing_found_is_said(find: Find, capsys: pytest.CaptureFixture[str]) -> None:
    assert find("a red square", "scene.png", "--threshold", "1") == 0
    assert capsys.readouterr().out == ""


def test_photos_of_an_index_are_not_looked_at_again(
    find: Find,
    aligning_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(["index", "photos", "--model", str(aligning_model), "-q"]) == 0
    Image.new("RGB", (40, 30), "red").save("photos/new.png")
    looked: list[str] = []
    look = Model.look
    monkeypatch.setattr(
        Model,
        "look",
        lambda self, source, **more: looked.append(source) or look(self, source, **more),
    )
    assert find("a red square; a green square", "photos", "--json") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert looked == ["photos/new.png"]
    assert sorted({one["path"] for one in found}) == [
        "photos/a.png",
        "photos/b.png",
        "photos/new.png",
    ]
    assert all(one["regions"] for one in found)
    assert find("a red square", "photos", "--look-again", "-q") == 0
    assert len(looked) == 4


def test_an_index_of_another_model_is_left_aside(
    find: Find, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise IndexProblem("made with another model")

    (tmp_path / "photos" / ".regiontalk").mkdir()
    monkeypatch.setattr("regiontalk.search.index.Index.find", refuse)
    assert find("a red square", "photos", "--json") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "without the index: made with another model" in err


@pytest.mark.parametrize(
    "output", ["out.html", "drawn", "one.png", "out.jsonl", "out.json", "out.csv"]
)
def test_pages_pictures_and_data(find: Find, output: str) -> None:
    assert find("a red square", "scene.png", "-o", output) == 0
    if output == "drawn":
        assert [path.name for path in Path(output).iterdir()] == ["scene.png"]
    elif output == "out.jsonl":
        assert json.loads(Path(output).read_text())["phrase"] == "a red square"
    elif output in ("out.html", "out.csv"):
        assert "a red square" in Path(output).read_text()
    assert find("a red square", "scene.png", "-o", output) == 0  # what we wrote may be replaced


def test_labels_by_prompt(find: Find, capsys: pytest.CaptureFixture[str]) -> None:
    assert find("a red square;a green square", "photos", "--format", "coco", "--top", "1") == 0
    coco = json.loads(capsys.readouterr().out)
    assert len(coco["images"]) == 2
    assert {one["caption"] for one in coco["annotations"]} == {"a red square", "a green square"}


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("", "scene.png"), 2, "no phrase"),
        ((" ; ", "scene.png"), 2, "no phrase"),
        (("; ".join(["a red square"] * 101), "scene.png"), 2, "101 phrases"),
        (("zebra", "scene.png"), 0, "does not know “zebra”"),
        (("ein Hund im Schnee", "scene.png"), 0, "looks like German"),
        (("🐈", "scene.png"), 0, "no word in “🐈”"),
        (("a red square", "scene.png", "--top", "0"), 2, "top"),
        (("a red square", "scene.png", "--threshold", "nan"), 2, "threshold"),
        (("a red square", "nowhere.png"), 4, "nowhere.png"),
        (("a red square", "scene.png", "--format", "xmp"), 2, "whole photos"),
        (("a red square", "scene.png", "--engine", "ray"), 2, "No such option"),
    ],
)
def test_exit_codes(
    find: Find, capsys: pytest.CaptureFixture[str], given: tuple[str, ...], code: int, said: str
) -> None:
    assert find(*given) == code
    assert said in capsys.readouterr().err


def test_a_broken_photo_is_named_and_skipped(
    find: Find, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("photos/c.jpg").write_text("no photo")
    assert find("a red square", "photos", "--json") == 0
    assert "skipped photos/c.jpg" in capsys.readouterr().err
    assert find("a red square", "photos", "--strict") == 3
