"""`caption --names`: one's own list of names, with the package's model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from regiontalk.cli.main import run

PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
CAPTION = ("caption", "chelsea.jpg", "--words-book", "none", "--names", "names.txt")


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The list, beside a photo of a cat."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGIONTALK_THREADS", "1")
    shutil.copy(PHOTOS / "chelsea.jpg", tmp_path)
    return tmp_path / "names.txt"


def test_things_are_called_by_the_names_of_the_list(
    names: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names.write_text("animals\nquokka\n\n  animals\nspoons\n", encoding="utf-8-sig")
    assert run([*CAPTION, "--json"]) == 0
    out, err = capsys.readouterr()
    first = json.loads(out)["regions"][0]
    assert (first["caption"], first["name"]) == ("animals", "animals")
    assert err == "names.txt: left out 1 name that the model does not know: 'quokka'\n"
    assert run([*CAPTION, "--tags", "-q"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("chelsea.jpg\tanimals\n", "")


def test_a_long_list_is_no_problem(names: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And one with a very long line, repeats and another script."""
    lines = [f"name {number}" for number in range(100_000)]
    names.write_text("\n".join(["x" * 10_000, *lines, "кошка", "cat", "cat", "cat"]), "utf-8")
    assert run([*CAPTION, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["regions"][0]["name"] == "cat"
    assert "left out 100002 names" in err
    assert len(err) < 300


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", 2, "no names in it"),
        (b"\n \n", 2, "no names in it"),
        ("犬\nquokka".encode(), 2, "knows none of its names: '犬', 'quokka'"),
        (b"\xff\xfe\x00", 4, "not a text in UTF-8"),
        (b"cat\n" * 600_000, 4, "larger than 2 MiB"),
        (None, 4, "No such file"),
    ],
)
def test_a_list_that_cannot_be_used_is_told_in_a_line(
    names: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, code: int, said: str
) -> None:
    if content is not None:
        names.write_bytes(content)
    assert run([*CAPTION]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
