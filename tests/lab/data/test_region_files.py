"""Files of regions: what is written comes back, and what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record
from regiontalk.lab.data.region_files import ScoredBoxes, read_region_file, region_line

PHOTO = Record("a.jpg", 40, 30)
BOXES = ScoredBoxes(
    np.array([[1.0, 2.0, 20.06, 30.0], [0.0, 0.0, 40.0, 30.0]]), np.array([0.5, 0.25])
)


def write(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return path


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    line = region_line(PHOTO, BOXES, "made up")
    assert line["regions"][0] == {"xyxy": [1, 2, 20.1, 30], "score": 0.5}
    other = region_line(Record("b.jpg", 9, 9), BOXES, "made up")
    found = read_region_file(write(tmp_path / "regions.jsonl", other, line), [PHOTO])
    assert set(found) == {"a.jpg"}, "lines about other photos are passed over"
    np.testing.assert_allclose(found["a.jpg"].boxes_xyxy, BOXES.boxes_xyxy, atol=0.05)
    assert found["a.jpg"].scores.tolist() == [0.5, 0.25]


def test_boxes_are_cut_to_the_photo_and_dropped_outside(tmp_path: Path) -> None:
    regions = [
        {"xyxy": [-5, -5, 10, 10], "score": 1},
        {"xyxy": [50, 0, 60, 10], "score": 1, "caption": "a cat"},
    ]
    line = {"path": "a.jpg", "width": 40, "height": 30, "regions": regions}
    found = read_region_file(write(tmp_path / "regions.jsonl", line), [PHOTO])["a.jpg"]
    assert found.boxes_xyxy.tolist() == [[0, 0, 10, 10]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"width": 80}, "boxes for 80×30 pixels, but a.jpg has 40×30"),
        ({"path": "c.jpg"}, "no regions of a.jpg"),
        ({"regions": [{"xyxy": [1, 2, 3], "score": 1}]}, "four numbers"),
        ({"regions": [{"score": 1}]}, "four numbers"),
        ({"regions": [{"xyxy": [1, 2, 3, 4], "score": 7}]}, "from 0 to 1"),
        ({"regions": 5}, "regions"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], said: str, tmp_path: Path) -> None:
    file = write(tmp_path / "regions.jsonl", region_line(PHOTO, BOXES, "made up") | change)
    with pytest.raises(DataError, match=said):
        read_region_file(file, [PHOTO])
