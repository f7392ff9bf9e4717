from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import pytest

from conftest import draw_scene
from regiontalk.cli.main import run
from regiontalk.search.sqlite import database


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    draw_scene().save(folder / "a.png")
    draw_scene((50, 70)).save(folder / "b.png")
    return folder


def test_it_says_what_it_did(
    photos: Path, aligning_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    arguments = ["index", str(photos), "--model", str(aligning_model), "-j", "2"]
    assert run([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["added"] == 2
    assert "skipped" in err
    assert "broken.jpg" in err
    assert "2 photos in the index (2 added, 1 skipped)" in err
    assert run([*arguments, "--strict"]) == 3
    assert sorted(path.name for path in photos.iterdir()) == [
        ".regiontalk",
        "a.png",
        "b.png",
        "broken.jpg",
    ]


def test_the_index_may_be_elsewhere(
    photos: Path, tmp_path: Path, aligning_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", str(aligning_model), "--index", str(tmp_path / "index"), "-q"]
    assert run(["index", str(photos), *options]) == 0
    assert not (photos / ".regiontalk").exists()
    assert run(["search", "red circle", str(photos), *options]) == 0
    out, err = capsys.readouterr()
    assert str(photos / "a.png") in out
    assert err == ""


@pytest.mark.parametrize(
    ("what", "code"),
    [("nothing: no such folder", 4), ("empty", 4), ("broken", 4), ("file: not a folder", 4)],
)
def test_without_photos_there_is_no_index(
    tmp_path: Path, aligning_model: Path, what: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "x.jpg").touch()
    (tmp_path / "file").touch()
    arguments = [str(tmp_path / what.partition(":")[0]), "--model", str(aligning_model)]
    assert run(["index", *arguments]) == code
    assert what in capsys.readouterr().err
    assert run(["search", "red circle", *arguments]) in (0, 5)
    assert re.search("no photo to search|no index there", capsys.readouterr().err)


def test_photos_that_are_gone_need_prune(
    photos: Path, aligning_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["index", str(photos), "--model", str(aligning_model)]
    assert run(arguments) == 0
    (photos / "a.png").unlink()
    (photos / "b.png").unlink()
    assert run(arguments) == 5
    assert "--prune" in capsys.readouterr().err


def test_a_second_writer_is_told_before_a_model_is_loaded(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = photos / database.FOLDER
    place.mkdir()
    with closing(database.take_lock(place)):
        assert run(["index", str(photos), "--model", "no-such-model"]) == 5
    assert "another process is writing the index" in capsys.readouterr().err
    assert run(["index", str(photos), "--model", "no-such-model"]) == 6


def test_damaged_vectors_are_an_error_with_the_command_that_fixes_it(
    photos: Path, aligning_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["index", str(photos), "--model", str(aligning_model), "-q"]
    assert run(arguments) == 0
    vectors = photos / database.FOLDER / "vectors-0.bin"
    data = bytearray(vectors.read_bytes())
    data[len(data) // 3] ^= 4
    vectors.write_bytes(data)
    assert run(arguments) == 5
    assert f"regiontalk index {photos} --rebuild makes a new one" in capsys.readouterr().err
    assert run([*arguments, "--rebuild"]) == 0
    assert run(arguments) == 0


def test_many_files_of_one_kind_are_grouped(
    photos: Path, aligning_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1500):
        (photos / f"empty {number:04}.jpg").touch()
    (photos / "text.jpg").write_text("this is no photo, and longer than a header is")
    (photos / "out.jpg").symlink_to("/nowhere/../etc/passwd")
    (photos / "home").symlink_to("/")
    assert run(["index", str(photos), "--model", str(aligning_model), "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["skipped"]) == 1502
    lines = err.splitlines()
    assert sum("empty" in line for line in lines) == 11
    assert "regiontalk: skipped 1,490 more: empty" in lines
    assert any("text.jpg" in line for line in lines)
    assert f"regiontalk: left out 1 link to places outside of {photos}" in lines
