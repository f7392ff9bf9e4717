"""Boxes to caption, from the command line or a file."""

from __future__ import annotations

import json
import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.cli.boxes_option import read_boxes
from regiontalk.errors import InputError, UsageError

SIDES = st.tuples(
    *[st.floats(0, 1e4).map(lambda side: round(side, 3))] * 2, *[st.floats(1.0, 1e4)] * 2
)


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
    with pytest.raises(UsageError, match=r"deep/b\.jpg is not one of the given photos"):
        boxes.check(["a.jpg"])


def test_one_list_of_boxes_is_for_one_photo() -> None:
    with pytest.raises(UsageError, match="one list of boxes for 2 photos"):
        read_boxes("0,0,9,9").check(["a.jpg", "b.jpg"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "wrong JSON"),
        ("7", "photos: 7 is not of type dict"),
        ("[1, 2, 3, 4]", "boxes[0]: 1 is not a list"),
        ('[["1", 2, 3, 4]]', "boxes[0][0]: '1' is not a finite number"),
        ("[[true, 2, 3, 4]]", "boxes[0][0]: True is not"),
        ("[[1, 2, 3]]", "is not a list of 4 values"),
        ("[[1, 2, 3, NaN]]", "NaN is not JSON"),
        ("[[1, 2, 1, 4]]", "is not left, top, right, bottom"),
        ('{"a.jpg": [[0, 0, 1, 1], [5, 5, 1, 1]]}', "[5.0, 5.0, 1.0, 1.0] is not left"),
        (f"[[1, 2, 3, 1{'0' * 400}]]", "a number of 401 digits"),
        ("[" * 100_000, "wrong JSON"),
        ("\udce9", "wrong JSON"),
    ],
)
def test_what_is_wrong_with_a_file_of_boxes_is_said(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "boxes.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError) as caught:
        read_boxes(str(path))
    assert message in caught.value.message
    assert str(path) in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "given_boxes", ["", ";", "1,2,3", "a,b,c,d", "9,9,1,1", "0,0,nan,1", "0,0,inf,1", "gone.json"]
)
def test_what_is_wrong_with_boxes_on_the_command_line_is_said(given_boxes: str) -> None:
    with pytest.raises(UsageError, match="neither a file nor x0,y0,x1,y1"):
        read_boxes(given_boxes)


def test_a_file_of_boxes_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path, tmp_path / "pipe.json"):
        with pytest.raises(InputError, match="not a file"):
            read_boxes(str(path))
