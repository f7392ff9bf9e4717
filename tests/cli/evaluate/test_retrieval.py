"""`regiontalk evaluate retrieval` on a model: figures, what is recorded, sources of regions, what
it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regiontalk.cli.main import run
from regiontalk.lab.data.records import Dataset

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def queries(scenes: Path, tmp_path: Path, capsys: Captured) -> Path:
    drawn = ["--images", "6", "--count", "4", "--captions", "2"]
    assert run(["evaluate", "queries", "--truth", str(scenes), "--split", "train", *drawn]) == 0
    path = tmp_path / "queries.json"
    path.write_text(capsys.readouterr().out)
    return path


@pytest.mark.parametrize("by", ["likelihood", "alignment", "both"])
def test_a_model_answers(
    by: str, aligning_model: Path, scenes: Path, queries: Path, tmp_path: Path, capsys: Captured
) -> None:
    options = [
        "--queries",
        str(queries),
        "--truth",
        str(scenes),
        "--split",
        "train",
        "--by",
        by,
        "--json",
    ]
    kept = tmp_path / "kept"
    assert (
        run(
            [
                "evaluate",
                "retrieval",
                "--model",
                str(aligning_model),
                *options,
                "--record",
                str(kept),
            ]
        )
        == 0
    )
    figures = json.loads(capsys.readouterr().out)
    assert (figures["queries"], figures["images"], figures["captions"]) == (4, 6, 8)
    assert set(figures["seconds"]) == {"looking", "answering"}
    stored = json.loads((kept / "metrics.json").read_text())
    assert (stored["kind"], stored["settings"]) == ("retrieval", {"by": by, "boxes": "own"})
    assert {one["role"] for one in stored["record"]["inputs"]} == {"queries", "model"}


def test_the_gpu_that_answers_is_recorded(
    aligning_model: Path,
    scenes: Path,
    queries: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("regiontalk.cli.options.device_name", lambda *_: "a large GPU")
    given = [
        "--queries",
        str(queries),
        "--truth",
        str(scenes),
        "--split",
        "train",
        "--record",
        str(tmp_path),
    ]
    assert (
        run(["evaluate", "retrieval", "--model", str(aligning_model), *given, "--regions", "whole"])
        == 0
    )
    assert json.loads((tmp_path / "metrics.json").read_text())["device"] == "a large GPU"


def test_regions_from_elsewhere(
    aligning_model: Path, scenes: Path, queries: Path, tmp_path: Path, capsys: Captured
) -> None:
    options = ["--queries", str(queries), "--truth", str(scenes), "--split", "train", "--json"]
    lines = [
        {
            "path": record.image, "width": record.width, "height": record.height,
            "regions": [{"xyxy": list(region.xyxy), "score": 0.5} for region in record.regions],
        }
        for record in Dataset(scenes, "train")
    ]  # fmt: skip
    file = tmp_path / "regions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (
        run(
            [
                "evaluate",
                "retrieval",
                "--model",
                str(aligning_model),
                *options,
                "--regions",
                str(file),
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["captions"] == 8
    assert (
        run(
            [
                "evaluate",
                "retrieval",
                "--model",
                str(aligning_model),
                *options,
                "--regions",
                "whole",
            ]
        )
        == 0
    )
    assert "median_iou" not in json.loads(capsys.readouterr().out)


def test_what_is_refused(
    aligning_model: Path, scenes: Path, queries: Path, capsys: Captured
) -> None:
    evaluate, model, data = (
        ["evaluate", "retrieval"],
        ["--model", str(aligning_model)],
        ["--truth", str(scenes)],
    )
    for options, said in (
        ([], "either --predictions or --model"),
        ([*model, "--predictions", str(queries)], "either --predictions or --model"),
        (["--predictions", str(queries)], "answers to --queries"),
        (model, "--truth DATA"),
        ([*model, *data, "--split", "dev", "--queries", str(queries)], "which the queries ask for"),
        (
            [*model, *data, "--split", "dev", "--regions", "nowhere"],
            "--regions nowhere: no such file",
        ),
    ):
        assert run([*evaluate, *options]) == 2
        assert said in capsys.readouterr().err
