"""`regiontalk evaluate` from the command line: what it prints, what it names, how it fails."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.cli.main import run
from regiontalk.errors import MissingExtra
from regiontalk.lab.evaluation import meteor
from regiontalk.lab.runs import fingerprint, measured_models, read_looks, recording

LEFT, RIGHT = [0, 0, 40, 40], [50, 10, 90, 60]
NO_METEOR = ["--without", "meteor"]


@pytest.fixture(scope="session")
def tables() -> None:
    try:
        meteor.Meteor.load()
    except MissingExtra as error:
        pytest.skip(f"METEOR's tables are not installed: {error}")


def write(path: Path, *lines: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def record(name: str, split: str = "test") -> dict[str, Any]:
    regions = [{"xyxy": LEFT, "phrase": "a red mug"}, {"xyxy": RIGHT, "phrase": "the table"}]
    sentences = ["A red mug stands on the table .", "a mug"]
    return {
        "image": name,
        "width": 100,
        "height": 80,
        "split": split,
        "regions": regions,
        "sentences": sentences,
    }


def prediction(name: str, *regions: tuple[list[int], float, str]) -> dict[str, Any]:
    found = [{"xyxy": box, "score": score, "caption": text} for box, score, text in regions]
    return {"path": name, "width": 100, "height": 80, "regions": found}


PERFECT = [(LEFT, 0.9, "a red mug"), (RIGHT, 0.8, "the table")]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Truth and perfect predictions of two images, as arguments."""
    truth = write(
        tmp_path / "data" / "annotations.jsonl",
        record("a.png"),
        record("b.png"),
        record("c.png", "train"),
    )
    found = write(
        tmp_path / "p.jsonl", prediction("a.png", *PERFECT), prediction("b.png", *PERFECT)
    )
    return ["--truth", str(truth.parent), "--predictions", str(found), "--split", "test"]


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    result: dict[str, Any] = json.loads(out)
    return result


def test_dense_with_meteor(
    files: list[str], tables: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", "dense", *files, "--json"]) == 0
    data = printed(capsys)
    assert {"map", "map_strict", "detection_map", "meteor", "ap", "images", "protocol"} <= set(data)
    assert (data["map"], data["meteor"], data["images"], data["protocol"]) == (1, 1, 2, "densecap")
    assert len(data["ap"]) == 30
    assert data["reference_scores"]["constant"]["map"] < 1


def test_dense_protocols(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "dense", *files, *NO_METEOR, "--json", "--protocol", "joint"]) == 0
    data = printed(capsys)
    assert (data["map"], data["protocol"]) == (pytest.approx(0.99), "joint")
    assert (
        run(
            [
                "evaluate",
                "dense",
                *files,
                *NO_METEOR,
                "--json",
                "--last-truth-slip",
                "--no-reference-scores",
            ]
        )
        == 0
    )
    data = printed(capsys)
    assert data["protocol"] == "densecap with last-truth slip"
    assert data["reference_scores"] == {}


def test_dense_table_names_the_stand_in(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", "dense", *files, *NO_METEOR]) == 0
    captured = capsys.readouterr()
    assert "unigram_f1" in captured.out
    assert "100.00" in captured.out
    assert "meteor" not in captured.out.lower()
    assert "do not compare with published figures" in captured.err


def test_dense_report_with_photos(files: list[str], tmp_path: Path) -> None:
    Image.new("RGB", (100, 80), (0, 180, 0)).save(tmp_path / "data" / "a.png")  # b.png is not there
    out = tmp_path / "report.html"
    assert run(["evaluate", "dense", *files, *NO_METEOR, "-o", str(out), "-q"]) == 0
    assert out.read_text(encoding="utf-8").count("data:image/jpeg") == 4


def test_a_report_that_cannot_be_written(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no").write_text("")
    assert (
        run(["evaluate", "dense", *files, *NO_METEOR, "-o", str(tmp_path / "no" / "r.html")]) == 2
    )
    assert "r.html: cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(("strict", "exit_code"), [([], 0), (["--strict"], 3)])
def test_problems_are_named_and_strict_fails(
    files: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    strict: list[str],
    exit_code: int,
) -> None:
    write(
        tmp_path / "p.jsonl",
        prediction("a.png", *PERFECT, (LEFT, None, "x")),
        prediction("z.png"),
        prediction("a.png"),
        '{"path": "b.png", "reg',
    )
    assert run(["evaluate", "dense", *files, *NO_METEOR, "--json", *strict]) == exit_code
    captured = capsys.readouterr()
    for said in (
        "line 1, region 2: score",
        "line 2: 'z.png' is not",
        "line 3: 'a.png' has",
        "line 4: wrong JSON",
    ):
        assert said in captured.err
    assert "no prediction for 1 of 2 images" in captured.err
    data = json.loads(captured.out)
    assert data["detection_map"] == pytest.approx(51 / 101)  # b.png counts as not found


def test_many_problems_are_counted(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "p.jsonl", prediction("a.png", *[(LEFT, 0.5, "")] * 50), prediction("b.png"))
    assert run(["evaluate", "dense", *files, *NO_METEOR]) == 0
    assert "and 30 more" in capsys.readouterr().err


def test_wrong_boxes_are_an_error_that_can_be_overruled(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = [([0, 0, 0.4, 0.5], 0.9, "a red mug")]
    write(tmp_path / "p.jsonl", prediction("a.png", *tiny), prediction("b.png", *tiny))
    assert run(["evaluate", "dense", *files, *NO_METEOR]) == 4
    assert "normalised" in capsys.readouterr().err
    assert run(["evaluate", "dense", *files, *NO_METEOR, "--no-box-check"]) == 0


@pytest.mark.parametrize("verb", ["dense", "captions", "regions"])
def test_without_meteors_tables(
    verb: str, files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(notify: object = None) -> None:
        raise MissingExtra("METEOR's tables are not installed", extra="evaluate")

    monkeypatch.setattr(meteor.Meteor, "load", missing)
    assert run(["evaluate", verb, *files]) == 7
    assert "pip install 'regiontalk[evaluate]'" in capsys.readouterr().err


def test_captions(
    files: list[str], tmp_path: Path, tables: None, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path / "p.jsonl",
        {"path": "a.png", "sentence": "A red mug stands on the table."},
        {"path": "b.png", "sentence": "a mug !"},
    )
    training = ["--training", files[1]]
    assert run(["evaluate", "captions", *files, *training, "--json"]) == 0
    data = printed(capsys)
    assert {"bleu1", "bleu2", "bleu3", "bleu4", "meteor", "cider", "rouge_l"} <= set(data)
    assert data["bleu1"] == pytest.approx(1)
    assert (data["in_training"], data["sentences"]) == (1, 2)
    assert data["meteor"] == pytest.approx(1)


def test_without_meteor_nothing_of_its_extra_is_imported(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "regiontalk.lab.evaluation.scoring_pool", None)
    assert run(["evaluate", "dense", *files, *NO_METEOR]) == 0, capsys.readouterr().err


def test_captions_without_meteor(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "p.jsonl", {"path": "a.png", "sentence": "a mug"})
    assert run(["evaluate", "captions", *files, *NO_METEOR]) == 0
    captured = capsys.readouterr()
    assert "bleu4" in captured.out
    assert "meteor" not in captured.out
    assert "without METEOR" in captured.err
    assert (
        run(["evaluate", "captions", *files, *NO_METEOR, "--strict", "-q"]) == 3
    )  # b.png has no sentence


def test_regions(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "regions", *files, *NO_METEOR, "--json"]) == 0
    data = printed(capsys)
    assert data["bleu1"] == pytest.approx(1)
    assert (data["sentences"], data["missing"]) == (4, 0)


def test_ranking_of_several_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = np.repeat(np.eye(4), 5, axis=1)
    np.save(tmp_path / "good.npy", good)
    np.save(tmp_path / "bad.npy", -good)
    both = [str(tmp_path / "good.npy"), str(tmp_path / "bad.npy")]
    assert run(["evaluate", "ranking", *both, "--json"]) == 0
    data = printed(capsys)
    assert data["image_to_text"] == {"r1": 50, "r5": 50, "r10": 50, "median_rank": 8.5}
    assert data["text_to_image"]["median_rank"] == 2.5
    assert run(["evaluate", "ranking", both[0], "--first", "2"]) == 0
    assert "2 images, 10 sentences" in capsys.readouterr().out


def test_retrieval_from_queries_to_figures(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--images", "2", "--count", "3", "--captions", "2"]
    assert run(["evaluate", "queries", "--truth", files[1], "--split", "test", *asked]) == 0
    queries = printed(capsys)
    assert len(queries["queries"]) == 3
    path = write(tmp_path / "queries.json", queries)
    lines = [
        {
            "query": query["query"],
            "scores": {image: float(image == query["image"]) for image in queries["images"]},
            "groundings": [caption["xyxy"] for caption in query["captions"]],
        }
        for query in queries["queries"]
    ]
    answers = write(tmp_path / "answers.jsonl", *lines)
    assert (
        run(
            [
                "evaluate",
                "retrieval",
                "--queries",
                str(path),
                "--predictions",
                str(answers),
                "--json",
            ]
        )
        == 0
    )
    data = printed(capsys)
    assert (data["r1"], data["median_rank"], data["median_iou"], data["queries"]) == (100, 1, 1, 3)


@pytest.fixture
def made(
    files: list[str], tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A model folder; `files` holds its predictions, with their record."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_model, tmp_path / "model")
    with recording("predict", tmp_path / "p.jsonl", boxes="true") as record:
        record.uses("model", Path("model"))
        record.uses_data(tmp_path / "data", "test", 2)
    return tmp_path / "model"


def test_figures_are_kept_with_their_record(
    files: list[str], made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ["--record", str(tmp_path / "runs" / "mine"), "--note", "a remark"]
    assert run(["evaluate", "dense", *files, *NO_METEOR, *kept, "--json"]) == 0
    figures = printed(capsys)
    stored = json.loads((tmp_path / "runs" / "mine" / "metrics.json").read_text())
    assert figures.items() <= stored.items()
    assert "record" not in figures
    assert (stored["kind"], stored["data"], stored["note"]) == (
        "dense",
        "data, test (2 photos)",
        "a remark",
    )
    assert stored["settings"] == {"boxes": "true"}
    (model,) = measured_models(stored["record"])
    assert model["sha256"] == fingerprint(made)
    assert len(read_looks(tmp_path / "runs" / "mine")) == 1


def test_looks_at_test_are_counted_in_the_models_folder(files: list[str], made: Path) -> None:
    for _ in range(2):
        assert run(["evaluate", "regions", *files, *NO_METEOR, "-q"]) == 0
    assert [look["kind"] for look in read_looks(made)] == ["regions", "regions"]
    assert (
        run(["evaluate", "regions", *files[:-1], "train", *NO_METEOR, "-q"]) == 4
    )  # no prediction for train
    regiontalk.load(made)  # the log does no harm
    assert len(read_looks(made)) == 2


def test_a_look_that_cannot_be_counted_is_named(
    files: list[str], made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(made)
    assert run(["evaluate", "dense", *files, *NO_METEOR]) == 0
    assert "not counted: model has no log; use --record DIR" in capsys.readouterr().err


def test_predictions_of_other_data_are_named(
    files: list[str], made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "data" / "annotations.jsonl", record("a.png"), record("b.png"))
    assert run(["evaluate", "dense", *files, *NO_METEOR]) == 0
    assert "made from another version of the data: data" in capsys.readouterr().err


def test_figures_without_any_record_are_kept_too(files: list[str], tmp_path: Path) -> None:
    assert (
        run(["evaluate", "dense", *files, *NO_METEOR, "-q", "--record", str(tmp_path / "mine")])
        == 0
    )
    stored = json.loads((tmp_path / "mine" / "metrics.json").read_text())
    assert stored["recipe"] is None
    assert len(read_looks(tmp_path / "mine")) == 1
    np.save(tmp_path / "scores.npy", np.repeat(np.eye(4), 5, axis=1))
    assert (
        run(
            [
                "evaluate",
                "ranking",
                str(tmp_path / "scores.npy"),
                "--record",
                str(tmp_path / "ranked"),
            ]
        )
        == 0
    )
    stored = json.loads((tmp_path / "ranked" / "metrics.json").read_text())
    assert stored["record"]["inputs"][0]["sha256"] == fingerprint(tmp_path / "scores.npy")


@pytest.mark.parametrize(
    "arguments",
    [
        ["dense", "--truth", "nowhere", "--predictions", "nowhere"],
        ["dense"],
        ["ranking"],
        ["ranking", "nowhere.npy"],
        ["dense", "--protocol", "coco"],
    ],
)
def test_usage_errors(arguments: list[str]) -> None:
    assert run(["evaluate", *arguments]) == 2


def test_an_unknown_split(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "dense", *files[:-1], "dev", *NO_METEOR]) == 4
    assert "there are test: 2, train: 1" in capsys.readouterr().err


def test_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = prediction(
        "a.png", (LEFT, 0.9, "a mug"), (RIGHT, 0.6, "a cat"), ([90, 70, 99, 79], 0.5, "a spoon")
    )
    for region, sure in zip(found["regions"], (0.8, 0.6, 0.7), strict=True):
        region["confidence"] = sure
    truth, predictions = (
        write(tmp_path / "t.jsonl", record("a.png")),
        write(tmp_path / "p.jsonl", found),
    )
    arguments = [
        "evaluate",
        "calibration",
        "--truth",
        str(truth),
        "--predictions",
        str(predictions),
    ]
    assert run([*arguments, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert {name: (one["regions"], one["right"]) for name, one in figures.items()} == {
        "score": (3, pytest.approx(2 / 3)),
        "confidence": (2, 0.5),  # nobody said what is in the corner
    }
    assert figures["confidence"]["expected_calibration_error"] == pytest.approx((0.2 + 0.6) / 2)
    assert run(arguments) == 0
    assert "expected_calibration_error" in capsys.readouterr().out


def test_names_of_objects(tmp_path, capsys):
    objects = [
        {"xyxy": LEFT, "phrase": "dog", "type": "object"},
        {"xyxy": RIGHT, "phrase": "person", "type": "object"},
    ]
    truth = write(tmp_path / "t.jsonl", record("a.png") | {"regions": objects})
    found = write(
        tmp_path / "p.jsonl",
        prediction("a.png", (LEFT, 0.5, "a puppy on a bed"), (RIGHT, 0.5, "a bed")),
    )
    arguments = ["evaluate", "names", "--truth", str(truth), "--predictions", str(found)]
    assert run([*arguments, "--json", "--classes"]) == 0
    figures = printed(capsys)
    assert (figures["right"], figures["right_without_people"], figures["objects"]) == (50, 100, 2)
    assert figures["classes"]["person"] == {"right": 0.0, "objects": 1}
    assert run([*arguments, "--classes"]) == 0
    assert "50.00" in capsys.readouterr().out
    assert run([*arguments, "--smallest", "42", "--json"]) == 0
    assert printed(capsys)["objects"] == 1  # the dog's box has 40 × 40 pixels
    assert run([*arguments, "--smallest", "500"]) == 4
    assert "no object to name" in capsys.readouterr().err


def test_objects_without_captions_are_told_of(tmp_path, capsys):
    objects = [{"xyxy": LEFT, "phrase": "dog", "type": "object"}]
    truth = write(tmp_path / "t.jsonl", record("a.png") | {"regions": objects})
    found = write(tmp_path / "p.jsonl", prediction("a.png", (RIGHT, 0.5, "a dog")))
    arguments = ["evaluate", "names", "--truth", str(truth), "--predictions", str(found), "--json"]
    assert run([*arguments, "--strict"]) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["missing"] == 1
    assert "no caption for 1 objects" in captured.err
