from __future__ import annotations

import io
import json
import os
import string
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import InputError, UsageError
from regiontalk.photos import find_photos, in_order, read_boxes


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


def test_nul_separated_names_may_have_line_breaks(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_stdin(monkeypatch, b"two\nlines.jpg\0b.jpg")
    assert find_photos(["-"]).paths == ["two\nlines.jpg", "b.jpg"]


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


SIDES = st.tuples(*[st.floats(0, 1e4).map(lambda side: round(side, 3))] * 2, *[st.floats(1.0, 1e4)] * 2)


@given(st.lists(SIDES, min_size=1, max_size=5))
def test_boxes_on_the_command_line(sides: list[tuple[float, float, float, float]]) -> None:
    boxes = tuple((x, y, x + width, y + height) for x, y, width, height in sides)
    text = " ; ".join(",".join(map(repr, box)) for box in boxes)
    assert read_boxes(text).of("any.jpg") == boxes
    assert read_boxes(text + ";").single == boxes


@given(st.text(alphabet=string.printable, max_size=30))
def test_any_text_is_boxes_or_a_clear_error(text: str) -> None:
    try:
        boxes = read_boxes(text).single
    except (UsageError, InputError):
        return
    assert boxes
    assert all(x0 < x1 and y0 < y1 for x0, y0, x1, y1 in boxes)


def test_boxes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "boxes.json"
    path.write_text("[[0, 0, 10, 20.5]]")
    assert read_boxes(str(path)).of("any.jpg") == ((0.0, 0.0, 10.0, 20.5),)
    path.write_text(json.dumps({"a.jpg": [[0, 0, 10, 20]], "deep/b.jpg": []}))
    boxes = read_boxes(str(path))
    boxes.check(["./a.jpg", "deep/b.jpg", "c.jpg"])
    assert boxes.of("./a.jpg") == ((0.0, 0.0, 10.0, 20.0),)
    assert boxes.of("deep//b.jpg") == ()
    with pytest.raises(InputError, match=r"c\.jpg: no boxes for it in .*boxes\.json"):
        boxes.of("c.jpg")
    with pytest.raises(UsageError, match=r"deep/b\.jpg is none of the photos given"):
        boxes.check(["a.jpg"])


def test_one_list_of_boxes_is_for_one_photo() -> None:
    with pytest.raises(UsageError, match="one list of boxes for 2 photos"):
        read_boxes("0,0,9,9").check(["a.jpg", "b.jpg"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ("7", "7 is not a list of boxes"),
        ("[1, 2, 3, 4]", "box 0: 1 is not a list of numbers"),
        ('[["1", 2, 3, 4]]', "is not a list of numbers"),
        ("[[true, 2, 3, 4]]", "is not a list of numbers"),
        ("[[1, 2, 3]]", "is not four numbers"),
        ("[[1, 2, 3, NaN]]", "is not left, top, right, bottom"),
        ("[[1, 2, 1, 4]]", "is not left, top, right, bottom"),
        ('{"a.jpg": [[0, 0, 1, 1], [5, 5, 1, 1]]}', "a.jpg: box 1: "),
        (f"[[1, 2, 3, 1{'0' * 400}]]", "is not four numbers"),
        ("[" * 100_000, "not JSON"),
        ("\udce9", "not JSON"),
    ],
)
def test_what_is_wrong_with_a_file_of_boxes_is_said(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "boxes.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError) as caught:
        read_boxes(str(path))
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize("given_boxes", ["", ";", "1,2,3", "a,b,c,d", "9,9,1,1", "0,0,nan,1", "0,0,inf,1", "gone.json"])
def test_what_is_wrong_with_boxes_on_the_command_line_is_said(given_boxes: str) -> None:
    with pytest.raises(UsageError, match="neither a file nor x0,y0,x1,y1"):
        read_boxes(given_boxes)


def test_a_file_of_boxes_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path, tmp_path / "pipe.json"):
        with pytest.raises(InputError, match="not a file"):
            read_boxes(str(path))


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
