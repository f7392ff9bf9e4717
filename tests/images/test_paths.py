from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest
from PIL import Image

from regiontalk.errors import InputError, ModelError
from regiontalk.images.limits import Limits
from regiontalk.images.paths import attempts, find_photos, in_order


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    photos = ["b.jpg", "a.PNG", "a[1].jpg", "deep/er/c.webp", "deep/d.jpeg"]
    for name in [*photos, "notes.txt", "._b.jpg", ".hidden/x.jpg"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_folder_gives_its_photos_sorted_and_no_hidden_ones(tree: Path) -> None:
    found = find_photos(["."])
    assert found.paths == ["./a.PNG", "./a[1].jpg", "./b.jpg", "./deep/d.jpeg", "./deep/er/c.webp"]
    assert found.hidden == ["./._b.jpg"]
    assert not found.skipped


def test_what_is_named_is_taken_as_it_is(tree: Path) -> None:
    names = ["notes.txt", "gone.jpg", "._b.jpg", "a[1].jpg", "http://x/y.jpg?z=1", "b.jpg", "b.jpg"]
    assert find_photos(names).paths == names[:-1]


def test_patterns_are_expanded(tree: Path) -> None:
    assert find_photos(["*.jpg"]).paths == ["a[1].jpg", "b.jpg"]
    assert find_photos(["**/*.jp*g"]).paths == ["a[1].jpg", "b.jpg", "deep/d.jpeg"]
    assert find_photos(["de*"]).paths == ["deep/d.jpeg", "deep/er/c.webp"]
    assert find_photos(["*.gif"]).paths == ["*.gif"], "to be named as missing"


@pytest.mark.parametrize("separator", [b"\n", b"\r\n", b"\0"])
def test_paths_on_stdin(tree: Path, monkeypatch: pytest.MonkeyPatch, separator: bytes) -> None:
    give_stdin(monkeypatch, separator.join([b"b.jpg", b"deep", b"caf\xe9 *.jpg", b"-", b""]))
    assert find_photos(["a.PNG", "-"]).paths == [
        *["a.PNG", "b.jpg", "deep/d.jpeg", "deep/er/c.webp"],
        *[os.fsdecode(b"caf\xe9 *.jpg"), "-"],
    ]


def test_nul_separated_names_may_have_line_breaks(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, b"two\nlines.jpg\0b.jpg")
    assert find_photos(["-"]).paths == ["two\nlines.jpg", "b.jpg"]


def test_finding_b8_a_photo_on_stdin_is_known_by_its_first_bytes(
    tree: Path, monkeypatch: pytest.MonkeyPatch, scene: Image.Image
) -> None:
    for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"):
        buffer = io.BytesIO()
        scene.save(buffer, kind)
        give_stdin(monkeypatch, buffer.getvalue())
        found = find_photos(["-"])
        assert found.paths == ["-"]
        assert found.source("-") == buffer.getvalue()
    for path in ("BMs cat.jpg", "GIF89a"):  # names that start as a photo does
        (tree / path).touch()
        give_stdin(monkeypatch, f"{path}\nb.jpg\n".encode())
        assert find_photos(["-"]).paths == [path, "b.jpg"]


def test_finding_c13_whether_any_photo_can_be_opened(tree: Path, scene: Image.Image) -> None:
    found = find_photos(["b.jpg", "gone.jpg"])
    assert not found.can_be_opened(Limits())
    scene.save("good.png")
    found.paths.append("good.png")
    assert found.can_be_opened(Limits())
    assert not found.can_be_opened(Limits(megapixels=0.001))


def test_linked_folders_are_followed_once(tree: Path) -> None:
    (tree / "deep" / "up").symlink_to(tree)
    (tree / "deep" / "again").symlink_to(tree / "deep" / "er")
    (tree / "self").symlink_to("self")
    (tree / "self.jpg").symlink_to("self.jpg")
    (tree / "dangling.jpg").symlink_to("gone.jpg")
    names = sorted(Path(path).name for path in find_photos([str(tree)]).paths)
    assert names == ["a.PNG", "a[1].jpg", "b.jpg", "c.webp", "d.jpeg", "dangling.jpg", "self.jpg"]


def test_the_folder_for_results_is_not_entered_unless_given(tree: Path) -> None:
    assert find_photos(["."], leave_out=tree / "deep").paths == ["./a.PNG", "./a[1].jpg", "./b.jpg"]
    assert find_photos(["deep"], leave_out=tree / "deep").paths == ["deep/d.jpeg", "deep/er/c.webp"]


def test_an_unreadable_folder_is_named(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    def scandir(folder: str) -> object:
        if folder.endswith("deep"):
            raise PermissionError(13, "Permission denied")
        return real(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert find_photos(["."]).skipped == ["./deep: Permission denied"]


def test_results_keep_their_order_and_work_is_bounded() -> None:
    gate = threading.Event()
    started: list[str] = []

    def work(photo: str) -> str:
        started.append(photo)
        if photo == "0":
            gate.wait(10)
        return photo

    results = in_order(work, map(str, range(50)), workers=2)
    threading.Timer(0.05, gate.set).start()
    assert next(results) == "0"
    assert len(started) <= 4
    assert list(results) == [str(n) for n in range(1, 50)]


def test_a_photos_fault_is_a_result_and_a_models_fault_ends_it() -> None:
    def ask(photo: str) -> str:
        if photo == "broken":
            raise InputError("broken: no photo")
        if photo == "trap":
            raise ModelError("the graph does not run")
        return photo

    first, second = attempts(ask, ["broken", "fine"], workers=1)
    assert isinstance(first, InputError)
    assert second == "fine"
    with pytest.raises(ModelError):
        list(attempts(ask, ["fine", "trap"], workers=2))
