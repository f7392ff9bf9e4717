"""The verb from end to end, on the small model that has learned a little."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import regiontalk
from regiontalk.cli.main import run


@pytest.fixture
def desk(
    tmp_path: Path, scene: Image.Image, monkeypatch: pytest.MonkeyPatch, speaking_model: Path
) -> Path:
    """A folder with two photos, a broken one in a folder of its own, and a model as the package's
    own."""
    scene.save(tmp_path / "a.jpg")
    (tmp_path / "deep").mkdir()
    scene.resize((60, 40)).save(tmp_path / "deep" / "b.png")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "c.jpg").write_bytes(b"no photo")
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", speaking_model)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_json_lines_follow_the_schema(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["describe", "a.jpg", "deep", "--json", "--alternatives", "2"]) == 0
    first, second = lines(capsys)
    assert list(first) == [
        "schema",
        "path",
        "width",
        "height",
        "model",
        "sentence",
        "logprob",
        "sure",
        "alternatives",
    ]
    assert (first["path"], first["width"], first["height"], first["model"]) == (
        "a.jpg",
        96,
        64,
        "speaking",
    )
    assert second["path"] == "deep/b.png"
    assert [list(other) for other in first["alternatives"]] == [["sentence", "logprob", "sure"]] * 2
    assert first == regiontalk.load().describe("a.jpg", alternatives=2).to_dict()


def test_a_table_for_people(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert run(["describe", "a.jpg", "--alternatives", "1"]) == 0
    out, err = capsys.readouterr()
    said = regiontalk.load().describe("a.jpg", alternatives=1)
    assert out.splitlines()[0] == "a.jpg  96×64"
    assert out.splitlines()[1].rstrip().split(maxsplit=1) == [f"{said.logprob:.2f}", said.sentence]
    assert len(out.splitlines()) == 3
    assert err == ""


def test_finding_b12_a_pipe_gets_lines_that_do_not_wrap(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert run(["describe", "a.jpg", "deep", "--alternatives", "1"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    said = regiontalk.load().describe("a.jpg", alternatives=1)
    assert rows[:2] == [
        ["a.jpg", f"{one.logprob:.2f}", one.sentence, "sure" if one.sure else "not sure"]
        for one in said.sentences
    ]
    assert len(rows) == 4


def test_options_reach_the_model(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = regiontalk.load()
    for arguments, options in (
        (["--beam", "1"], {"beam": 1}),
        (["--beam", "3", "--alternatives", "5"], {"beam": 3, "alternatives": 5}),
        (["--sample", "--seed", "3"], {"sample": True, "seed": 3}),
        (["--sample"], {"sample": True}),
        (
            ["--sample", "--temperature", "2", "--top-p", "1"],
            {"sample": True, "temperature": 2.0, "top_p": 1.0},
        ),
        (["--size", "64"], {"size": 64}),
    ):
        assert run(["describe", "a.jpg", "--json", *arguments]) == 0
        assert lines(capsys) == [model.describe("a.jpg", **options).to_dict()]  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", ["1", "3"])
def test_a_broken_photo_among_others_is_named_and_skipped(
    desk: Path, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    arguments = ["describe", ".", "--json", "-j", workers]
    for strict, code in [([], 0), (["--strict"], 3)]:
        assert run([*arguments, *strict]) == code
        out, err = capsys.readouterr()
        assert [json.loads(line)["path"] for line in out.splitlines()] == [
            "./a.jpg",
            "./deep/b.png",
        ]
        assert err.startswith("regiontalk: skipped ./broken/c.jpg: not a photo of a supported type")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Missing argument 'PATH...'"),
        (["broken/c.jpg"], 4, "broken/c.jpg: not a photo of a supported type"),
        (["gone.jpg"], 4, "gone.jpg: No such file"),
        (["a.jpg", "--beam", "0"], 2, "0 is not in the range 1<=x<=100"),
        (["a.jpg", "--beam", "1000"], 2, "1000 is not in the range 1<=x<=100"),
        (["a.jpg", "--beam", "3", "--sample"], 2, "--sample cannot be used with --beam"),
        (["a.jpg", "--seed", "3"], 2, "--seed needs --sample"),
        (["a.jpg", "--top-p", "0.5"], 2, "--top-p needs --sample"),
        (["a.jpg", "--sample", "--temperature", "0"], 2, "0 is not in the range"),
        (["a.jpg", "--sample", "--temperature", "nan"], 2, "temperature is nan"),
        (["a.jpg", "--sample", "--top-p", "2"], 2, "2.0 is not in the range"),
        (["a.jpg", "--alternatives", "-1"], 2, "not in the range"),
        (["a.jpg", "--model", "nowhere"], 6, "nowhere: no such model folder"),
        (["a.jpg", "--model", "deep"], 6, "deep: not a model folder"),
        (["a.jpg", "--max-megapixels", "0.001"], 4, "more than 0.001"),
        (["a.jpg", "-o", "x.xyz"], 2, "x.xyz: cannot be written in this format"),
        (["a.jpg", "-o", "a.jpg"], 2, "a.jpg: already exists"),
    ],
)
def test_bad_input(
    desk: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert run(["describe", *arguments]) == code
    out, err = capsys.readouterr()
    assert message in err
    assert len(err.splitlines()) == 1
    assert out == ""


def test_a_model_without_the_head(
    desk: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["describe", "a.jpg", "deep", "--model", str(tiny_model)]) == 6
    assert "has no head 'sentence'" in capsys.readouterr().err


def test_files(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("page.html", "out.jsonl", "pictures"):
        assert run(["describe", "a.jpg", "deep", "-o", place]) == 0
        out, err = capsys.readouterr()
        assert (out, err) == ("", f"{place}: 2 photos\n")
    said = regiontalk.load().describe("a.jpg")
    assert said.sentence in Path("page.html").read_text()
    assert json.loads(Path("out.jsonl").read_text().splitlines()[0]) == said.to_dict()
    with Image.open("pictures/a.jpg") as picture:
        assert picture.width == 96
        assert picture.height > 64, "the sentence is below the photo"
