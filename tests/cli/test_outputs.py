"""What `-o` writes, and what it never writes over."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regiontalk.cli import outputs
from regiontalk.cli.main import run
from regiontalk.images import open_photo


@pytest.fixture
def desk(
    tmp_path: Path, make_scene: Callable[..., Image.Image], monkeypatch: pytest.MonkeyPatch, stand_in: Any
) -> Path:
    for number, name in enumerate(["one/x.jpg", "two/x.jpg", "two/X.JPG", "two/y.tiff", "two/z.png"]):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        make_scene((90 + number, 60)).save(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_annotated_pictures_have_their_photos_names(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    originals = files(desk)
    assert run(["caption", "one", "two", "-o", "out/new"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "out/new: 5 photos\n")
    sizes = {path.name: open_photo(path).size for path in Path("out", "new").iterdir()}
    assert sizes == {
        "x.jpg": (90, 60),
        "X-2.JPG": (92, 60),  # upper case sorts first
        "x-3.jpg": (91, 60),
        "y.tiff.jpg": (93, 60),
        "z.png": (94, 60),
    }
    photo, drawn = (np.asarray(open_photo(path)).astype(int) for path in ("two/z.png", "out/new/z.png"))
    assert (np.abs(photo - drawn).max(axis=2) > 0).mean() > 0.02, "something was drawn"
    assert {name: content for name, content in files(desk).items() if not name.startswith("out")} == originals


def test_again_into_the_same_folder(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our own pictures are replaced, and are no photos to caption when they lie below the photos."""
    assert run(["caption", ".", "-o", "out", "-q"]) == 0
    before = files(desk)
    assert run(["caption", ".", "-o", "out", "-q"]) == 0
    assert files(desk) == before


@pytest.mark.parametrize("output", ["one/x.jpg", "one", "./two/../one/x.jpg", "linked.jpg", "hard.jpg", "other.png"])
def test_originals_are_never_written_over(
    desk: Path, capsys: pytest.CaptureFixture[str], output: str, scene: Image.Image
) -> None:
    (desk / "linked.jpg").symlink_to("one/x.jpg")
    os.link(desk / "one" / "x.jpg", desk / "hard.jpg")
    scene.save(desk / "other.png")
    before = files(desk)
    assert run(["caption", "one/x.jpg", "-o", output]) == 2
    assert "is there already and will not be written over" in capsys.readouterr().err
    assert files(desk) == before


def test_a_page_or_data_onto_a_photo(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("photo.html", "photo.json"):
        Path(name).write_bytes(Path("one/x.jpg").read_bytes())
        assert run(["caption", name, "-o", name]) == 2
        assert "will not be written over" in capsys.readouterr().err


def test_one_picture(desk: Path) -> None:
    for _ in range(2):
        assert run(["caption", "one/x.jpg", "-o", "new/one.webp", "-q"]) == 0
    with Image.open("new/one.webp") as picture:
        assert (picture.format, picture.size) == ("WEBP", (90, 60))


def test_a_page(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["caption", "one", "two", "-o", "page.html"]) == 0
    assert "two/y.tiff" in Path("page.html").read_text()
    assert run(["caption", "one", "-o", "page.html", "--json"]) == 0
    assert "two/y.tiff" not in Path("page.html").read_text()
    assert json.loads(capsys.readouterr().out)["path"] == "one/x.jpg"


def test_data_in_a_file_is_what_would_be_printed(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in (["--json"], *(["--format", name] for name in ("coco", "vg", "hf", "labelstudio"))):
        assert run(["caption", "one", "two", *form, "-q"]) == 0
        printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert run(["caption", "one", "two", *form, "-q", "-o", "out.json"]) == 0
        assert capsys.readouterr().out == ""
        assert [json.loads(line) for line in Path("out.json").read_text().splitlines()] == printed
        assert len(printed) == (5 if form[-1] in ("--json", "hf") else 1)


def test_what_cannot_be_written_is_said(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk / "file").touch()
    assert run(["caption", "one", "-o", "file"]) == 2
    assert "file: a file, not a folder" in capsys.readouterr().err
    assert run(["caption", "one", "-o", "file/page.html"]) == 2
    assert "file/page.html: cannot be written" in capsys.readouterr().err

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fail)
    before = files(desk)
    assert run(["caption", "one", "-o", "out"]) == 2
    assert capsys.readouterr().err == "regiontalk: out/x.jpg: cannot be written: No space left on device\n"
    assert run(["caption", "one", "-o", "page.html"]) == 2
    assert files(desk) == before


def test_the_mark_is_read_from_every_kind_of_picture(desk: Path) -> None:
    for suffix in outputs.PICTURES:
        assert run(["caption", "one/x.jpg", "-o", f"new/picture{suffix}", "-q"]) == 0
        assert outputs._may_be_replaced(Path("new", f"picture{suffix}"))
