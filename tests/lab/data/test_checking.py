"""What is wrong with a data set."""

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.checking import Checker, Problem, box_problem
from regiontalk.lab.data.packing import Packer
from regiontalk.lab.data.records import Record

GOOD = {
    "image": "scene.png",
    "width": 96,
    "height": 64,
    "split": "train",
    "sentences": ["A house."],
    "regions": [],
}


def region(*box: float, phrase: str = "a sun") -> dict[str, Any]:
    return {"xyxy": list(box), "phrase": phrase}


def write(folder: Path, *lines: Any) -> Path:
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "annotations.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def problems(folder: Path, quick: bool = False) -> list[Problem]:
    return list(Checker(folder, quick).problems())


def test_a_good_data_set_has_no_problem(tmp_path, scene_path):
    checker = Checker(
        write(tmp_path, GOOD | {"regions": [region(0, 0, 96, 64), region(-0.4, 0, 96.4, 64)]})
    )
    assert list(checker.problems()) == []
    assert checker.records == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"width": 64, "height": 96}, "the photo has 96×64 pixels, the record says 64×96"),
        ({"width": 0}, "an image of 0×64 pixels"),
        ({"image": "none.png"}, "none.png: No such file or directory"),
        ({"image": "annotations.jsonl"}, "annotations.jsonl: not a photo of a supported type"),
        ({"image": "."}, "a folder, not a photo"),
        ({"split": "validation"}, "split is 'validation', not one of train, dev, test"),
        ({"sentences": ["A house.", " "]}, "an empty sentence"),
        (
            {"regions": [region(1, 1, 5, 5), region(5, 5, 5, 9)]},
            "region 2: a box without area: [5.0, 5.0, 5.0, 9.0]",
        ),
        (
            {"regions": [region(90, 5, 99, 9)]},
            "region 1: a box outside the image: [90.0, 5.0, 99.0, 9.0] in 96×64",
        ),
        ({"regions": [region(-9, 5, 9, 9)]}, "region 1: a box outside"),
        ({"regions": [region(1, 1, 5, 5, phrase="")]}, "region 1: an empty phrase"),
        ({"regions": [region(1, 1, 5, 5) | {"phrases": ["x", " "]}]}, "region 1: an empty phrase"),
        (
            {"regions": [region(1, 1, 5, 5) | {"phrases": ["x", "y"]}]},
            "region 1: phrase is not the first of phrases",
        ),
        (
            {"regions": [region(1, 1, 5, 5) | {"sentences": [0]}]},
            "region 1: sentences [0] of 0 entity_sentences",
        ),
        ({"entity_sentences": [" "]}, "an empty sentence"),
        (
            {"regions": [region(1, 1, 5, 5) | {"boxes_xyxy": [[1, 1, 5, 500]]}]},
            "region 1: a box outside",
        ),
        ({"shard": "none.tar"}, "none.tar: No such file or directory"),
    ],
)
def test_a_broken_record_is_named_with_its_line(tmp_path, scene_path, change, problem):
    found, *_ = problems(write(tmp_path, GOOD | {"image": "./scene.png"}, GOOD | change))
    assert found.line == 2
    assert problem in found.problem
    assert found.image == (GOOD | change)["image"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{oops", "wrong JSON at character 2"),
        ("[1]", "[1] is not of type dict"),
        ('{"image": "a.jpg", "width": 5}', "'height' is missing"),
        (
            json.dumps(GOOD | {"width": 1e999}).replace("Infinity", "1e999"),
            "wrong JSON: the number '1e999' is too large",
        ),
        (
            json.dumps(GOOD | {"regions": [{"xyxy": [1, 2], "phrase": "x"}]}),
            "regions[0].xyxy: [1, 2] is not",
        ),
        ("[" * 100_000, "wrong JSON: "),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, scene_path, line, problem):
    [found] = problems(write(tmp_path, GOOD, "", line))
    assert (found.line, found.image) == (3, None)
    assert found.problem.startswith(problem)
    assert "\n" not in found.problem


def test_a_duplicate_names_the_first_line(tmp_path, scene_path):
    [found] = problems(write(tmp_path, GOOD, GOOD))
    assert found == Problem(2, "scene.png", "the same image as in line 1")


def test_a_truncated_photo_is_found_unless_quick(tmp_path, scene):
    scene.save(tmp_path / "cut.jpg")
    data = (tmp_path / "cut.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    folder = write(tmp_path, GOOD | {"image": "cut.jpg"})
    [found] = problems(folder)
    assert "a broken photo" in found.problem
    assert problems(folder, quick=True) == []


def test_quick_still_misses_a_missing_photo(tmp_path, scene_path):
    [found] = problems(write(tmp_path, GOOD, GOOD | {"image": "none.png"}), quick=True)
    assert found.line == 2


@pytest.mark.parametrize("quick", [False, True])
def test_photos_in_shards_are_checked(tmp_path, scene, quick):
    packer = Packer(tmp_path, 96)
    packed = packer.pack(Record("a.jpg", 96, 64), scene)
    packer.close()
    folder = write(tmp_path, packed.to_dict(), packed.to_dict() | {"image": "b.jpg"})
    [found] = problems(folder, quick)
    assert (found.line, found.image) == (2, "b.jpg")
    assert "no member 'b.jpg'" in found.problem


def test_an_empty_or_missing_data_set_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no data set here"):
        problems(tmp_path)
    (tmp_path / "annotations.jsonl").write_text("\n")
    with pytest.raises(DataError, match="an empty data set"):
        problems(tmp_path)


def test_a_problem_reads_as_one_line_that_names_the_image_once():
    assert str(Problem(2, "a.jpg", "an empty phrase")) == "line 2: a.jpg: an empty phrase"
    assert str(Problem(2, "a.jpg", "x/a.jpg: empty")) == "line 2: x/a.jpg: empty"
    assert str(Problem(2, None, "not a record")) == "line 2: not a record"


def test_a_problem_of_a_box():
    assert box_problem((0, 0, 10, 10), 10, 10) is None
    assert box_problem((0, 0, 0, 10), 10, 10) == "a box without area"
