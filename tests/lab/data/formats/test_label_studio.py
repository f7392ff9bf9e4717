"""Label Studio: from our predictions through an annotator's hands to records (finding B16)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.label_studio import photo_name, to_label_studio
from regiontalk.lab.data.prepare import Prepared, prepare
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.results import ImageRegions, Region

MUG = Region((10.0, 20.0, 60.504, 70.0), 0.9, "a red mug", -3.2)
SPOON = Region((0.0, 0.0, 200.0, 100.0), 0.25, "a spoon")
TASKS = to_label_studio([ImageRegions("my photos/a.jpg", 200, 100, "tiny", (MUG, SPOON))])


def corrected(*annotations: dict[str, Any], image: str | None = None) -> dict[str, Any]:
    """A task as Label Studio exports it: our predictions, and beside them what people made of
    them."""
    task: dict[str, Any] = copy.deepcopy(TASKS[0]) | {
        "id": 7,
        "annotations": list(annotations),
        "drafts": [],
    }
    task["data"]["image"] = image or task["data"]["image"]
    return task


def annotation(results: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    when = {"created_at": "2024-05-01T10:00:00Z", "updated_at": "2024-05-01T10:00:00Z"}
    return {
        "id": 3,
        "completed_by": 1,
        "was_cancelled": False,
        "ground_truth": False,
        **when,
        "result": results,
    } | more


def results() -> list[dict[str, Any]]:
    """Our own, as they are copied when an annotator begins."""
    return [
        part | {"origin": "prediction"}
        for part in copy.deepcopy(TASKS[0]["predictions"][0]["result"])
    ]


def read(folder: Path, *tasks: dict[str, Any]) -> list[Record]:
    make(folder, *tasks)
    return list(Dataset(folder / "data"))


def make(folder: Path, *tasks: dict[str, Any]) -> Prepared:
    (folder / "export.json").write_text(json.dumps(tasks))
    return prepare("labelstudio", folder / "export.json", folder / "data")


def said(record: Record) -> list[tuple[str, tuple[float, ...]]]:
    return [(region.phrase, region.xyxy) for region in record.regions]


def test_b16_predictions_have_a_score_and_local_files_their_prefix() -> None:
    (task,) = TASKS
    assert task["data"] == {"image": "/data/local-files/?d=my%20photos/a.jpg"}
    (prediction,) = task["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("tiny", 0.575)
    rectangle, text, *others = prediction["result"]
    box = {"x": 5.0, "y": 20.0, "width": 25.25, "height": 50.0, "rotation": 0}
    assert rectangle["value"] == {**box, "rectanglelabels": ["region"]}
    assert text["value"] == {**box, "text": ["a red mug"]}
    assert rectangle["id"] == text["id"] != others[0]["id"]
    assert (rectangle["type"], text["type"]) == ("rectanglelabels", "textarea")
    assert (rectangle["original_width"], rectangle["original_height"], rectangle["score"]) == (
        200,
        100,
        0.9,
    )
    assert others[0]["value"]["width"] == others[0]["value"]["height"] == 100.0


def test_what_was_corrected_is_read_and_not_the_prediction(tmp_path: Path) -> None:
    rectangle, text, *_ = results()  # the spoon was deleted
    text["value"]["text"] = ["a red mug of tea"]
    rectangle["value"] |= {"x": 10.0, "width": 20.0}
    drawn = rectangle | {
        "id": "Zx_9",
        "origin": "manual",
        "value": rectangle["value"] | {"y": 0.0, "height": 5.5},
    }
    named = drawn | {
        "id": "Zx_10",
        "value": drawn["value"] | {"rectanglelabels": ["cup", "region"]},
    }
    [record] = read(tmp_path, corrected(annotation([rectangle, text, drawn, named])))
    assert record.image == str(tmp_path / "my photos/a.jpg")
    assert (record.width, record.height) == (200, 100)
    assert said(record) == [
        ("a red mug of tea", (20.0, 20.0, 60.0, 70.0)),
        ("cup", (20.0, 0.0, 60.0, 5.5)),
    ]
    assert {region.score for region in record.regions} == {None}, "people have no score"
    description = json.loads((tmp_path / "data/dataset.json").read_text())
    assert description["dropped_regions"] == {"empty phrase": 1}


def test_the_latest_annotation_that_was_not_cancelled_counts(tmp_path: Path) -> None:
    old, new, cancelled, truth = (results()[:2] for _ in range(4))
    for number, result in enumerate((old, new, cancelled, truth)):
        result[1]["value"]["text"] = [f"answer {number}"]
    late = {"updated_at": "2024-06-01T10:00:00Z"}
    answers = [
        annotation(new, **late),
        annotation(old),
        annotation(cancelled, updated_at="2025-01-01T10:00:00Z", was_cancelled=True),
    ]
    assert said(read(tmp_path, corrected(*answers))[0])[0][0] == "answer 1"
    (tmp_path / "again").mkdir()
    [record] = read(tmp_path / "again", corrected(annotation(truth, ground_truth=True), *answers))
    assert said(record)[0][0] == "answer 3"


def test_photos_that_nobody_annotated_are_left_out(tmp_path: Path) -> None:
    tasks = [
        corrected(image="none.jpg"),
        corrected(annotation(results(), was_cancelled=True), image="skipped.jpg"),
        corrected(annotation(results()), image="done.jpg"),
    ]
    done = make(tmp_path, *tasks)
    assert [Path(record.image).name for record in Dataset(tmp_path / "data")] == ["done.jpg"]
    assert len(done.skipped) == 2, "their size is nowhere, and neither are the photos"


@pytest.mark.parametrize(
    ("rotation", "box"),
    [
        (0, (100.0, 40.0, 140.0, 50.0)),
        (90, (90.0, 40.0, 100.0, 80.0)),
        (180, (60.0, 30.0, 100.0, 40.0)),
        (30, (95.0, 40.0, 134.641, 68.66)),
    ],
)
def test_a_turned_rectangle_becomes_the_box_around_it(
    rotation: float, box: tuple[float, ...], tmp_path: Path
) -> None:
    rectangle, text, *_ = results()
    rectangle["value"] |= {"x": 50, "y": 40, "width": 20, "height": 10, "rotation": rotation}
    [record] = read(tmp_path, corrected(annotation([rectangle, text])))
    assert record.regions[0].xyxy == box


def test_texts_of_the_photo_and_several_of_a_region(tmp_path: Path) -> None:
    rectangle, text, _, orphan = results()
    text["value"]["text"] = ["a mug", " the red mug "]
    sentence = {
        "id": "t1",
        "from_name": "about",
        "to_name": "image",
        "type": "textarea",
        "value": {"text": "A table."},
    }
    choice = {
        "id": "t2",
        "from_name": "q",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": ["indoors"]},
    }
    [record] = read(tmp_path, corrected(annotation([sentence, rectangle, text, choice, orphan])))
    assert [phrase for phrase, _ in said(record)] == ["a mug", "the red mug"]
    assert record.sentences == ("A table.",)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/data/local-files/?d=a%20b/%23c%26.jpg", "a b/#c&.jpg"),
        ("/data/local-files/?d=/abs/x.jpg", "/abs/x.jpg"),
        ("/data/upload/12/1a2b3c4d-cat%20one.jpg", "cat one.jpg"),
        ("https://host/some/cat.jpg?token=1", "cat.jpg"),
        ("s3://bucket/deep/cat.jpg", "cat.jpg"),
        ("photos/cat.jpg", "photos/cat.jpg"),
    ],
)
def test_where_label_studio_has_its_photos_from(address: str, name: str) -> None:
    assert photo_name(address) == name


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"type": 5}, "type is not text: 5"),
        ({"value": {}}, "there is no 'x'"),
        (
            {"value": {"x": "1", "y": 1, "width": 1, "height": 1}},
            "non-int of type 'float'|unsupported operand",
        ),
        ({"original_width": 0}, "an image of 0×100 pixels"),
        ({"image_rotation": 90}, "the photo was turned in Label Studio"),
        (
            {"value": {"x": 1, "y": 1, "width": 1, "height": 1, "rectanglelabels": [3]}},
            "label is not text: 3",
        ),
    ],
)
def test_bad_input_is_named_with_its_task(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    rectangle = results()[0] | change
    with pytest.raises(DataError, match=f"export.json, item 2: .*({problem})"):
        make(
            tmp_path,
            corrected(annotation(results())),
            corrected(annotation([rectangle]), image="b.jpg"),
        )
