from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.files import Problems
from regiontalk.lab.evaluation.retrieval import (
    Answer,
    Caption,
    Query,
    QuerySet,
    evaluate_retrieval,
    read_answers,
    read_queries,
    sample_queries,
)

BOX = (0.0, 0.0, 10.0, 10.0)


def query(name: str, image: str, captions: int = 2) -> Query:
    return Query(name, image, tuple(Caption(phrase, BOX) for phrase in "xyz"[:captions]))


ASKED = QuerySet(("a", "b", "c"), (query("0", "a"), query("1", "b")))


def test_by_hand() -> None:
    answers = {
        "0": Answer({"a": 3, "b": 2, "c": 1}, (BOX, None)),
        "1": Answer({"a": 3, "b": 2, "c": 2}, ((0, 0, 10, 5), (0, 0, 10, 1))),  # c ties: b is third
    }
    data = evaluate_retrieval(ASKED, answers)
    assert (data["r1"], data["r5"], data["median_rank"]) == (50, 100, 2)
    # IoU 1, 0, .5, .1; a threshold must be exceeded
    assert (data["iou@0.1"], data["iou@0.3"], data["iou@0.5"]) == (50, 50, 25)
    assert data["median_iou"] == pytest.approx(0.3)
    assert (data["queries"], data["images"], data["captions"]) == (2, 3, 4)
    assert data["intervals"]["r1"] == [0, 100]  # of two queries, none or both may be drawn
    assert data["intervals"]["r5"] == [100, 100]
    assert data["intervals"]["median_rank"] == [1, 3]


def test_whole_image_models_have_no_grounding() -> None:
    data = evaluate_retrieval(ASKED, {"0": Answer({"a": 1})})
    assert "median_iou" not in data
    assert data["queries"] == 1


def test_an_image_without_a_score_is_last() -> None:
    assert evaluate_retrieval(ASKED, {"0": Answer({"b": 1})})["median_rank"] == 3


def test_no_answer_at_all() -> None:
    with pytest.raises(DataError, match="no query"):
        evaluate_retrieval(ASKED, {})


def records(count: int, regions: int) -> list[Record]:
    found = tuple(TrueRegion(xyxy=BOX, phrase=f"phrase {n}") for n in range(regions))
    return [Record(f"{n}.jpg", 20, 20, regions=found) for n in range(count)]


def test_queries_are_drawn_as_in_the_paper_and_survive_the_file(tmp_path: Path) -> None:
    asked = sample_queries(records(30, 6), images=20, queries=15, seed=3)
    assert len(set(asked.images)) == 20
    assert len(asked.queries) == 15
    for one in asked.queries:
        assert one.image in asked.images
        assert len(set(one.captions)) == 4  # without repetition
    assert asked == sample_queries(records(30, 6), images=20, queries=15, seed=3)
    assert asked != sample_queries(records(30, 6), images=20, queries=15, seed=4)
    (tmp_path / "q.json").write_text(json.dumps(asdict(asked)))
    assert read_queries(tmp_path / "q.json") == asked


def test_too_few_regions_for_a_query() -> None:
    with pytest.raises(DataError, match="4 regions"):
        sample_queries(records(5, 3))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"images": []}', '{"images": ["a"], "queries": [{"query": 1}]}']
)
def test_broken_queries(tmp_path: Path, text: str) -> None:
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(DataError, match=r"q\.json") as caught:
        read_queries(tmp_path / "q.json")
    assert "evaluate queries" in str(caught.value.hint)


def answers(tmp_path: Path, *lines: Any) -> tuple[dict[str, Answer], list[str]]:
    path = tmp_path / "a.jsonl"
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    heard: list[str] = []
    return read_answers(path, ASKED, Problems(tell=heard.append)), heard


def test_scores_and_rankings(tmp_path: Path) -> None:
    found, heard = answers(
        tmp_path,
        {"query": "0", "scores": {"a": 1, "b": 2, "c": 3}, "groundings": [list(BOX), None]},
        {"query": 1, "ranking": ["b", "a", "c"]},
    )
    assert found["0"] == Answer({"a": 1, "b": 2, "c": 3}, (BOX, None))
    assert found["1"].scores["b"] > found["1"].scores["a"] > found["1"].scores["c"]
    assert heard == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "wrong JSON"),
        ({"query": "9", "ranking": ["a"]}, "'9' is unknown"),
        ({"query": "0", "ranking": ["a"]}, "'0' is repeated"),
        ({"query": "1"}, "neither"),
        (
            {"query": "1", "ranking": ["a"], "groundings": [list(BOX), [-1e308, 0, 1e308, 1]]},
            "outside of any photo",
        ),
        ({"query": "1", "scores": {"a": float("nan")}}, "wrong JSON: NaN"),
        (
            {"query": "1", "ranking": ["a", "b", "c"], "groundings": [list(BOX)]},
            "1 groundings for 2 captions",
        ),
        (
            {"query": "1", "ranking": ["a", "b", "c"], "groundings": [list(BOX), [1, 2]]},
            "groundings[1]: [1, 2] is not a list of 4 values",
        ),
    ],
)
def test_bad_answers_are_named(tmp_path: Path, line: Any, reason: str) -> None:
    found, heard = answers(tmp_path, {"query": "0", "ranking": ["a", "b", "c"]}, line)
    assert set(found) == {"0"}
    assert heard[0].startswith(f"{tmp_path / 'a.jsonl'}, line 2: ")
    assert reason in heard[0]
    assert "1 queries have no answer" in heard[1]


def test_unscored_images_are_named(tmp_path: Path) -> None:
    _, heard = answers(
        tmp_path, {"query": "0", "ranking": ["a"]}, {"query": "1", "ranking": ["b", "a", "c"]}
    )
    assert "only 1 of 3 images" in heard[0]


def test_images_are_found_by_their_file_names_and_ambiguous_ones_are_an_error(
    tmp_path: Path,
) -> None:
    asked = QuerySet(("x/a.jpg", "y/a.jpg", "b.jpg"), (query("0", "b.jpg"),))
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps({"query": "0", "ranking": ["/photos/b.jpg", "/photos/x/a.jpg", "y/a.jpg"]})
    )
    assert list(read_answers(path, asked, Problems())["0"].scores) == [
        "b.jpg",
        "x/a.jpg",
        "y/a.jpg",
    ]
    path.write_text(json.dumps({"query": "0", "ranking": ["b.jpg", "a.jpg"]}))
    with pytest.raises(DataError, match=r"'a.jpg' may be 'x/a.jpg' or 'y/a.jpg'"):
        read_answers(path, asked, Problems())
