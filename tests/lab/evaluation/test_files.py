"""What is wrong with a file is named with its line, and the rest is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.evaluation.files import Problems, read_predictions, read_sentences, read_truth

SIZES = {"a.jpg": (100, 80), "b.jpg": (100, 80)}
GOOD = {"xyxy": [0, 0, 10, 10], "score": 0.5, "caption": "a dog"}


class Heard(Problems):
    def __init__(self, shown: int = 20) -> None:
        self.texts: list[str] = []
        super().__init__(tell=self.texts.append, shown=shown)


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def predictions(tmp_path: Path, *lines: Any) -> tuple[list, list[str]]:
    heard = Heard()
    found = list(read_predictions(write(tmp_path / "p.jsonl", *lines), SIZES, heard))
    return found, heard.texts


def image(path: str, *regions: Any, **more: Any) -> dict[str, Any]:
    return {"path": path, "regions": list(regions)} | more


def record(image: str, *regions: Any, **more: Any) -> dict[str, Any]:
    return {"image": image, "width": 100, "height": 80, "regions": list(regions)} | more


def test_good_predictions(tmp_path: Path) -> None:
    found, heard = predictions(tmp_path, image("a.jpg", GOOD, width=100, height=80), image("b.jpg"))
    assert [one.path for one in found] == ["a.jpg", "b.jpg"]
    assert found[0].regions[0].caption == "a dog"
    assert heard == []


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        (GOOD | {"score": None}, "score: None is not a finite number"),
        ({"xyxy": [0, 0, 1, 1], "caption": "x"}, "'score' is missing"),
        (GOOD | {"score": "high"}, "is not a finite number"),
        (GOOD | {"score": True}, "is not a finite number"),
        (GOOD | {"xyxy": [0, 0, None, 1]}, "xyxy[2]: None is not a finite number"),
        (GOOD | {"xyxy": [0, 0, 1]}, "not a list of 4 values"),
        ({"score": 1, "caption": "x", "bbox": [0, 0, 1, 1]}, "'xyxy' is missing"),
        ({"xyxy": [0, 0, 1, 1], "score": 1}, "'caption' is missing"),
        (GOOD | {"caption": 7}, "caption: 7 is not of type str"),
        ("a dog", "not of type dict"),
    ],
)
def test_a_bad_region_is_skipped(tmp_path: Path, region: Any, reason: str) -> None:
    found, heard = predictions(tmp_path, image("b.jpg"), image("a.jpg", GOOD, region, GOOD))
    assert len(found[1].regions) == 2
    assert len(heard) == 1
    assert heard[0].startswith(f"{tmp_path / 'p.jsonl'}, line 2, region 1: ")
    assert reason in heard[0]


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        (GOOD | {"caption": "  "}, "caption is empty"),
        (GOOD | {"xyxy": [10, 10, 0, 0]}, "inside out"),
    ],
)
def test_a_useless_region_is_named_and_still_counts(
    tmp_path: Path, region: Any, reason: str
) -> None:
    found, heard = predictions(tmp_path, image("a.jpg", region), image("b.jpg"))
    assert len(found[0].regions) == 1
    assert reason in heard[0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"path": "a.jpg", "regions": [', "wrong JSON"),
        ("[1, 2]", "not a JSON object"),
        ('{"regions": []}', "'path' is missing"),
        ('{"path": "a.jpg"}', "'regions' is missing"),
        ('{"path": "b.jpg", "regions": [NaN]}', "wrong JSON: NaN"),
        ('{"path": "c.jpg", "regions": []}', "'c.jpg' is not in the truth"),
        ('{"path": "b.jpg", "regions": []}', "p.jsonl, line 1 already"),
        (
            '{"path": "a.jpg", "width": 50, "height": 40, "regions": []}',
            "50×40 pixels, the truth is for 100×80",
        ),
    ],
)
def test_a_bad_line_is_skipped(tmp_path: Path, line: str, reason: str) -> None:
    found, heard = predictions(tmp_path, image("b.jpg"), line)
    assert [one.path for one in found] == ["b.jpg"]
    assert heard[0].startswith(f"{tmp_path / 'p.jsonl'}, line 2: ")
    assert reason in heard[0]


def test_images_without_a_line_are_named(tmp_path: Path) -> None:
    _, heard = predictions(tmp_path, image("a.jpg"))
    assert "no prediction for 1 of 2 images" in heard[0]
    assert "b.jpg" in heard[0]


def test_folders_before_the_name_do_not_matter(tmp_path: Path) -> None:
    found, heard = predictions(tmp_path, image("/photos/2024/a.jpg"), image("x\\b.jpg"))
    assert [one.path for one in found] == ["a.jpg", "b.jpg"]
    assert heard == []


MOVED = {
    "/photos/2024/a.jpg": (100, 80),
    "/photos/2025/a.jpg": (100, 80),
    "/photos/b.jpg": (100, 80),
}


def test_nor_do_folders_of_the_truth(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.jsonl", image("2024/a.jpg"), image("./b.jpg"), image("/other/2025/a.jpg")
    )
    found = list(read_predictions(path, MOVED, Problems()))
    assert [one.path for one in found] == [
        "/photos/2024/a.jpg",
        "/photos/b.jpg",
        "/photos/2025/a.jpg",
    ]


def test_photos_that_were_moved_are_found_by_their_file_names(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", image("C:\\new\\b.jpg"))
    assert [one.path for one in read_predictions(path, MOVED, Problems())] == ["/photos/b.jpg"]
    heard = Heard()
    path = write(tmp_path / "p.jsonl", image("x/a.jpg"), image("y/a.jpg"))
    assert [one.path for one in read_predictions(path, {"x/a.jpg": (100, 80)}, heard)] == [
        "x/a.jpg"
    ]
    assert "'y/a.jpg' is not in the truth" in heard.texts[0]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([image("a.jpg")], "line 1: 'a.jpg' may be '/photos/2024/a.jpg' or '/photos/2025/a.jpg'"),
        (
            [image("b.jpg"), image("old/b.jpg")],
            "line 2: 'old/b.jpg' and 'b.jpg' (PATH, line 1) may both be '/photos/b.jpg'",
        ),
    ],
)
def test_an_ambiguous_name_is_an_error(tmp_path: Path, lines: list[Any], reason: str) -> None:
    path = write(tmp_path / "p.jsonl", *lines)
    with pytest.raises(DataError) as caught:
        list(read_predictions(path, MOVED, Problems()))
    assert caught.value.message == f"{path}, {reason.replace('PATH', str(path))}"
    assert "more of the path" in str(caught.value.hint)


def test_no_matching_path_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no line is for an image of the truth") as caught:
        predictions(tmp_path, image("c.jpg"))
    assert "a.jpg" in str(caught.value.hint)


def test_a_file_for_resized_images_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="another size"):
        predictions(
            tmp_path, image("a.jpg", width=50, height=40), image("b.jpg", width=50, height=40)
        )


def test_problems_beyond_the_first_are_counted_only() -> None:
    heard = Heard(shown=3)
    for n in range(10):
        heard.add(f"line {n}", "bad")
    assert heard.texts == ["line 0: bad", "line 1: bad", "line 2: bad"]
    assert (heard.count, heard.hidden) == (10, 7)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        list(read_predictions(tmp_path / "nowhere.jsonl.gz", SIZES, Problems()))


def test_truth_of_a_split_from_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "annotations.jsonl", record("a", split="train"), record("b", split="test"))
    assert [one.image for one in read_truth(tmp_path, "test", Problems())] == ["b"]
    assert [one.image for one in read_truth(tmp_path, None, Problems())] == ["a", "b"]
    with pytest.raises(DataError, match=r"'dev' \(there are train: 1, test: 1\)"):
        list(read_truth(tmp_path, "dev", Problems()))


def test_bad_truth_is_named_and_left_out(tmp_path: Path) -> None:
    box = [0, 0, 10, 10]
    path = write(
        tmp_path / "t.jsonl",
        record("a", {"xyxy": box, "phrase": "x"}, {"xyxy": box, "phrase": "y"}),
        "{",
        {"image": "no size"},
        record("a"),
        record("b", {"xyxy": box, "phrase": ""}),
        record("c", {"xyxy": box, "phrase": "x", "phrases": "x"}),
    )
    heard = Heard()
    found = list(read_truth(path, None, heard))
    assert [(one.image, len(one.regions)) for one in found] == [("a", 2), ("b", 1)]
    places = [text.removeprefix(f"{path}, ").split(":")[0] for text in heard.texts]
    assert places == ["line 2", "line 3", "line 4", "line 5, region 0", "line 6"]
    assert "t.jsonl, line 1 already" in heard.texts[2]


def test_empty_truth_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("\n\n")
    with pytest.raises(DataError, match="no record"):
        list(read_truth(path, None, Problems()))


def test_sentences(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        {"path": "a.jpg", "sentence": "a dog", "logprob": -3.2},
        {"path": "a.jpg", "sentence": "again"},
        {"path": "b.jpg"},
        {"path": "b.jpg", "sentence": " "},
    )
    heard = Heard()
    assert read_sentences(path, SIZES, heard) == {"a.jpg": "a dog", "b.jpg": " "}
    assert [text.split(": ")[0].rsplit(" ", 1)[-1] for text in heard.texts] == ["2", "3", "4"]
