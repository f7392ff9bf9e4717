"""`regiontalk align`: table, JSON, picture, and what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from PIL import Image

from regiontalk.cli.main import run


@pytest.fixture
def align(aligning_model: Path, scene_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(sentence: str, *options: str) -> int:
        return run(["align", "scene.png", sentence, "--model", str(aligning_model), *options])

    return call


def test_a_table(align, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert align("a red square .") == 0
    out, err = capsys.readouterr()
    assert "scene.png" in out.splitlines()[0]
    assert "a red" in out
    assert err == ""


def test_finding_b12_a_pipe_gets_a_line_for_each_stretch(align, capsys) -> None:
    assert align("a red square", "--beta", "100") == 0
    path, score, words, box = capsys.readouterr().out.rstrip("\n").split("\t")
    assert (path, words) == ("scene.png", "a red square")
    assert float(score) == pytest.approx(float(score))
    assert len(box.split(",")) == 4


def test_json_is_the_schema(align, capsys) -> None:
    assert align("a red zebra", "--json", "--beta", "100") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert set(found) == {"path", "sentence", "segments", "unknown"}
    assert (found["path"], found["sentence"], found["unknown"]) == (
        "scene.png",
        "a red zebra",
        ["zebra"],
    )
    (segment,) = found["segments"]
    assert (segment["text"], segment["words"]) == ("a red zebra", [0, 3])
    assert "unknown words: zebra" in err


def test_a_page(align, capsys) -> None:
    assert align("a red square", "-o", "out.html") == 0
    assert capsys.readouterr().err == "out.html: the page\n"
    assert '"sentence": "a red square"' in Path("out.html").read_text()


def test_a_picture(align, capsys) -> None:
    assert align("a red square", "-o", "out.png", "-q") == 0
    with Image.open("out.png") as picture:
        assert picture.width == 96
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("sentence", ["", "🐈", "zebra", "der Hund läuft"])
def test_nothing_to_align_is_a_usage_error(sentence: str, align, capsys) -> None:
    assert align(sentence) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_other_failures(align, tiny_model: Path, scene_path: Path, capsys) -> None:
    assert align("red", "-o", "out.txt") == 2
    assert align("red", "-o", "nowhere/else.png") == 0, "a folder is made"
    assert align("red", "--beta", "-1") == 2
    assert align("red", "--beta", "nan") == 2
    assert run(["align", "scene.png", "red", "--model", str(tiny_model)]) == 6
    assert run(["align", "none.png", "red", "--model", "nowhere"]) == 6


def test_a_photo_that_cannot_be_read(aligning_model: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "broken.png").write_bytes(b"x")
    assert run(["align", str(tmp_path / "broken.png"), "red", "--model", str(aligning_model)]) == 4
    assert run(["align", str(tmp_path / "none.png"), "red", "--model", str(aligning_model)]) == 4
