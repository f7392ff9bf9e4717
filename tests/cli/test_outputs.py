"""What `-o` writes, and what it never writes over."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regiontalk.cli import outputs
from regiontalk.cli.main import run
from regiontalk.images.photo import open_photo
from regiontalk.lab.data.formats import exports, xmp
from regiontalk.lab.data.formats.sources import Source


@pytest.fixture
def desk(
    tmp_path: Path,
    make_scene: Callable[..., Image.Image],
    monkeypatch: pytest.MonkeyPatch,
    stand_in: Any,
) -> Path:
    for number, name in enumerate(
        ["one/x.jpg", "two/x.jpg", "two/X.JPG", "two/y.tiff", "two/z.png"]
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        make_scene((90 + number, 60)).save(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_annotated_pictures_have_their_photos_names(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    photo, drawn = (
        np.asarray(open_photo(path)).astype(int) for path in ("two/z.png", "out/new/z.png")
    )
    assert (np.abs(photo - drawn).max(axis=2) > 0).mean() > 0.02, "something was drawn"
    assert {
        name: content for name, content in files(desk).items() if not name.startswith("out")
    } == originals


def test_again_into_the_same_folder(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our own pictures are replaced, and are no photos to caption when they lie below the
    photos."""
    assert run(["caption", ".", "-o", "out", "-q"]) == 0
    before = files(desk)
    assert run(["caption", ".", "-o", "out", "-q"]) == 0
    assert files(desk) == before


@pytest.mark.parametrize(
    "output", ["one/x.jpg", "one", "./two/../one/x.jpg", "linked.jpg", "hard.jpg", "other.png"]
)
def test_originals_are_never_written_over(
    desk: Path, capsys: pytest.CaptureFixture[str], output: str, scene: Image.Image
) -> None:
    (desk / "linked.jpg").symlink_to("one/x.jpg")
    os.link(desk / "one" / "x.jpg", desk / "hard.jpg")
    scene.save(desk / "other.png")
    before = files(desk)
    assert run(["caption", "one/x.jpg", "-o", output]) == 2
    assert "already exists and will not be overwritten" in capsys.readouterr().err
    assert files(desk) == before


def test_a_page_or_data_onto_a_photo(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("photo.html", "photo.json"):
        Path(name).write_bytes(Path("one/x.jpg").read_bytes())
        assert run(["caption", name, "-o", name]) == 2
        assert "will not be overwritten" in capsys.readouterr().err


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


FILES = {"coco": "x.json", "vg": "x.json", "labelstudio": "x.json", "hf": "x.jsonl", "csv": "x.csv"}


@pytest.mark.parametrize(("form", "name"), FILES.items())
def test_data_in_a_file_is_what_would_be_printed(
    form: str, name: str, desk: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["caption", "one", "two", "--format", form, "-q"]) == 0
    printed = capfdbinary.readouterr().out
    assert run(["caption", "one", "two", "--format", form, "-q", "-o", name]) == 0
    assert capfdbinary.readouterr().out == b""
    assert Path(name).read_bytes() == printed
    wrong = next(other for other in FILES.values() if other != name)
    assert run(["caption", "one", "--format", form, "-o", wrong]) == 2
    assert f"gives a {Path(name).suffix} file" in capfdbinary.readouterr().err.decode()


def test_finding_b12_json_files_are_json(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["caption", "one", "two", "--json"]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(printed) == 5
    assert run(["caption", "one", "two", "-o", "x.json"]) == 0
    assert json.loads(Path("x.json").read_text()) == printed
    assert run(["caption", "one", "two", "-o", "x.jsonl"]) == 0
    assert [json.loads(line) for line in Path("x.jsonl").read_text().splitlines()] == printed
    assert run(["caption", "one", "-o", "x.json"]) == 0, "our own file is replaced"
    assert len(json.loads(Path("x.json").read_text())) == 1


def test_finding_b12_csv(desk: Path) -> None:
    assert run(["caption", "one", "two", "-o", "x.csv"]) == 0
    rows = list(csv.DictReader(Path("x.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 10
    assert (rows[0]["path"], rows[0]["phrase"], rows[0]["x1"]) == ("one/x.jpg", "thing 0", "45.0")
    assert run(["caption", "one", "two", "-o", "x.csv", "--alt"]) == 0
    rows = list(csv.DictReader(Path("x.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["phrase"], row["x0"]) for row in rows] == [("thing 0 and thing 1", "")] * 5


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
    assert run(["caption", "one", "-o", "out"]) == 5
    assert (
        capsys.readouterr().err
        == "regiontalk: out/x.jpg: cannot be written: No space left on device\n"
    )
    assert run(["caption", "one", "-o", "page.html"]) == 5
    assert files(desk) == before


def test_the_mark_is_read_from_every_kind_of_picture(desk: Path) -> None:
    for suffix in outputs.PICTURES:
        for _ in range(2):
            assert run(["caption", "one/x.jpg", "-o", f"new/picture{suffix}", "-q"]) == 0


@pytest.mark.parametrize("name", ["page.html", "x.json", "x.jsonl", "x.csv", "picture.png"])
def test_finding_b17_files_of_others_are_replaced_by_force_alone(
    name: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = {
        ".html": "<!doctype html><title>My site</title>",
        ".json": '{"name": "my-app"}',
        ".png": "x",
    }
    theirs = contents.get(Path(name).suffix, "mine\n")
    Path(name).write_text(theirs)
    assert run(["caption", "one/x.jpg", "-o", name]) == 2
    assert f"{name}: already exists and will not be overwritten" in capsys.readouterr().err
    assert Path(name).read_text() == theirs
    assert run(["caption", "one/x.jpg", "-o", name, "--force"]) == 0
    assert Path(name).read_bytes() != theirs.encode()
    assert run(["caption", "one/x.jpg", "-o", name]) == 0, "now it is ours"
    assert run(["caption", "one/x.jpg", "-o", "one/x.jpg", "--force"]) == 2, "an original never"


def test_finding_c5_one_photo_does_not_end_the_run(
    desk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Larger than JPEG or WebP can be, and names as long as they may be."""
    (desk / "odd").mkdir()
    Image.new("RGB", (70_000, 3)).save("odd/wide.png")
    Path("odd/wide.png").rename("odd/wide.jpg")
    Image.new("RGB", (20_000, 1)).save("odd/long.png")
    Path("odd/long.png").rename("odd/long.webp")
    long_name, tiff_name = "x" * 250 + ".jpg", "y" * 249 + ".tiff"
    shutil.copy("one/x.jpg", f"odd/{long_name}")
    shutil.copy("two/y.tiff", f"odd/{tiff_name}")
    assert run(["caption", "odd", "one", "-o", "out"]) == 0
    assert capfd.readouterr().err.splitlines() == [  # and nothing that libjpeg says itself (C12)
        "regiontalk: skipped odd/long.webp: its picture cannot be written: "
        "out/long.webp: .webp allows at most 16,383 pixels per side",
        "regiontalk: skipped odd/wide.jpg: its picture cannot be written: "
        "out/wide.jpg: .jpg allows at most 65,500 pixels per side",
        "out: 3 photos",
    ]
    names = sorted(path.name for path in Path("out").iterdir())
    assert [(name[:3], Path(name).suffix) for name in names] == [
        ("x.j", ".jpg"),
        ("xxx", ".jpg"),
        ("yyy", ".jpg"),
    ]
    assert run(["caption", "odd/wide.jpg", "-o", "out"]) == 4, "alone it is an error"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("output", ["pipe.jpg", "pipe.html", "pipe.json", "pipe", "folder"])
def test_finding_c6_no_pipe_is_opened(
    output: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "folder").mkdir()
    os.mkfifo(desk / "folder" / "x.jpg")
    if output != "folder":
        os.mkfifo(desk / output)
    for force in ([], ["--force"]):
        assert run(["caption", "one/x.jpg", "-o", output, *force]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.timeout(60)
def test_finding_c9_many_photos_of_one_name(desk: Path) -> None:
    photos = [f"{number}/x.jpg" for number in range(20_000)]
    with outputs.opening(outputs.Wanted(Path("out")), photos):
        pass


def test_finding_c5_a_picture_of_align_may_be_too_large(
    aligning_model: Path,
    desk: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(desk)
    Image.new("RGB", (20_000, 1)).save("long.png")
    assert run(["align", "long.png", "red", "--model", str(aligning_model), "-o", "long.webp"]) == 2
    assert (
        "long.webp: .webp allows at most 16,383 pixels per side  (PNG allows more)"
        in capsys.readouterr().err
    )


def test_finding_c6_a_device_is_no_place_for_align(
    aligning_model: Path,
    desk: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(desk)
    os.mkfifo("pipe.png")
    asked = ["align", "one/x.jpg", "red", "--model", str(aligning_model), "-o"]
    assert run([*asked, "pipe.png"]) == 2
    assert run([*asked, "one/x.jpg", "--force"]) == 2
    assert run([*asked, "two/z.png"]) == 2
    assert "will not be overwritten" in capsys.readouterr().err
    assert run([*asked, "new.png"]) == 0
    assert run([*asked, "new.png"]) == 0, "our own"


class TestSidecars:
    def test_beside_the_photos(self, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["caption", "one", "two/z.png", "--format", "xmp"]) == 0
        assert capsys.readouterr().err == "next to the photos: 2 photos\n"
        first, second = (
            item.record for folder in ("one", "two") for item in xmp.read(Source(desk / folder))
        )
        assert first.sentences == ("thing 0 and thing 1",)
        assert (first.regions[0].phrase, first.regions[0].xyxy) == (
            "thing 0",
            (0.0, 0.0, 45.0, 60.0),
        )
        assert second.image == str(desk / "two" / "z.png")
        before = files(desk)
        assert run(["caption", "one", "two/z.png", "--format", "xmp"]) == 0
        assert files(desk) == before

    def test_texts_alone_in_a_folder(self, desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["caption", "one", "two", "--format", "xmp", "--alt", "-o", "out"]) == 0
        assert "skipped two/x.jpg: out/x.jpg.xmp belongs to one/x.jpg" in capsys.readouterr().err
        assert sorted(path.name for path in Path("out").iterdir()) == [
            "X.JPG.xmp",
            "x.jpg.xmp",
            "y.tiff.xmp",
            "z.png.xmp",
        ]
        (item, *_) = xmp.read(Source(Path("out"), images=desk / "one"))
        assert item.record.regions == ()

    def test_a_sidecar_that_cannot_be_merged_is_left_alone(
        self, desk: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("one/x.jpg.xmp").write_text("not XML")
        os.mkfifo("two/z.png.xmp")
        assert run(["caption", "one", "two", "--format", "xmp"]) == 0
        err = capsys.readouterr().err
        assert "skipped one/x.jpg.xmp: wrong XML" in err
        assert "skipped two/z.png.xmp: a pipe, not a file" in err
        assert Path("one/x.jpg.xmp").read_text() == "not XML"

    @pytest.mark.parametrize(
        "more", [["-o", "x.json"], ["--boxes", "0,0,9,9"], ["--json"], ["--beam", "3"]]
    )
    def test_what_does_not_go_together(self, more: list[str], desk: Path) -> None:
        assert run(["caption", "one/x.jpg", "--format", "xmp", *more]) == 2


def test_there_is_a_writer_for_every_format() -> None:
    assert sorted(outputs.FORMATS) == sorted([*exports.FORMATS, exports.VTT, outputs.XMP])
    assert tuple(exports.FOLDERS) == outputs.FOLDERS
