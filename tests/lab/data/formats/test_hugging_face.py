"""Hugging Face's `metadata.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.exports import exporting
from regiontalk.lab.data.formats.hugging_face import to_hugging_face
from regiontalk.lab.data.prepare import prepare
from regiontalk.lab.data.records import Dataset, TrueRegion
from regiontalk.results import ImageRegions, Region


def test_a_list_for_each_property() -> None:
    mug, spoon = (
        Region((10.0, 20.0, 60.504, 70.0), 0.9, "a red mug", -3.2),
        Region((0, 0, 200, 100), 0.25, "a spoon"),
    )
    line = to_hugging_face(ImageRegions("a.jpg", 200, 100, "tiny", (mug, spoon)))
    assert line["file_name"] == "a.jpg"
    assert line["objects"] == {
        "id": [0, 1],
        "bbox": [[10.0, 20.0, 50.5, 50.0], [0, 0, 200, 100]],
        "caption": ["a red mug", "a spoon"],
        "score": [0.9, 0.25],
    }


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_other_peoples_folders(tmp_path: Path, scene_path: Path) -> None:
    objects = {"bbox": [[1, 2, 3, 4]], "category": ["dog"], "area": [12]}
    line = {"file_name": scene_path.name, "text": " A dog. ", "objects": objects}
    prepare("hf", write(tmp_path, line), tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert (record.image, record.width, record.height) == (str(scene_path), 96, 64)
    assert record.sentences == ("A dog.",)
    assert record.regions == (TrueRegion((1, 2, 4, 6), "dog"),)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({}, "there is no 'file_name'"),
        ({"file_name": 5}, "file_name is not text: 5"),
        ({"file_name": "a", "objects": [1]}, r"\[1\] is not a JSON object"),
        (
            {"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "caption": []}},
            "1 boxes and 0 captions",
        ),
        ({"file_name": "a", "objects": {"bbox": [[1, 2]], "caption": ["x"]}}, "missing 2 required"),
        (
            {"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "category": [7]}},
            "caption is not text: 7",
        ),
        (
            {"file_name": "a", "objects": {"bbox": [[1, 2, 3, 4]], "caption": ["x"], "score": []}},
            "index out of range",
        ),
        ({"file_name": "a", "objects": {"bbox": 7, "caption": ["x"]}}, "has no len"),
        ({"file_name": "a", "width": 5}, "there is no 'height'"),
    ],
)
def test_bad_input_is_named_with_its_line(
    line: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=rf"metadata\.jsonl, line 2: .*{problem}"):
        prepare("hf", write(tmp_path, {"file_name": "good.jpg"}, line), tmp_path / "out")


def test_absolute_paths_in_the_folder_become_relative(tmp_path: Path) -> None:
    """`datasets` 5.2 refuses a file_name that is absolute."""
    photos = [
        ImageRegions(str(path), 9, 9, "toy", ())
        for path in (tmp_path / "in" / "a.jpg", Path("/elsewhere/b.jpg"))
    ]
    written: list[bytes] = []
    with exporting("hf", lambda line: written.append(bytes(line)), tmp_path) as put:
        for photo in photos:
            put(photo)
    names = [json.loads(line)["file_name"] for line in written if line]
    assert names == ["in/a.jpg", "/elsewhere/b.jpg"]
