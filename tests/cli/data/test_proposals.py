"""`regiontalk data proposals`: regions without words, into a file that `predict --regions`
reads."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

from regiontalk.cli.main import run
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.data.region_files import read_region_file


def test_a_models_proposals_best_first(desk_with_run: Path) -> None:
    asked = [
        "data",
        "proposals",
        "run",
        "data",
        "own.jsonl.gz",
        "--split",
        "dev",
        "--count",
        "20",
        "-q",
    ]
    assert run(asked) == 0
    records = list(Dataset("data", "dev"))
    for found in read_region_file(Path("own.jsonl.gz"), records).values():
        assert 0 < len(found.scores) <= 20
        assert sorted(found.scores, reverse=True) == found.scores.tolist()
    record = json.loads(Path("own.run.json").read_text())
    assert (record["settings"]["count"], record["data"][0]["split"]) == (20, "dev")
    predicting = [
        "predict",
        "run",
        "data",
        "--split",
        "dev",
        "--regions",
        "own.jsonl.gz",
        "-o",
        "said.jsonl",
        "-q",
    ]
    assert run(predicting) == 0
    assert all(json.loads(line)["regions"] for line in Path("said.jsonl").read_text().splitlines())


def test_edge_boxes_of_every_split(desk_with_run: Path) -> None:
    pytest.importorskip("cv2")
    assert run(["data", "proposals", "edgeboxes", "data", "boxes.jsonl.gz", "-q"]) == 0
    lines = [
        json.loads(line)
        for line in gzip.decompress(Path("boxes.jsonl.gz").read_bytes()).splitlines()
    ]
    assert {line["path"] for line in lines} == {record.image for record in Dataset("data")}
    assert {line["source"] for line in lines} == {"EdgeBoxes on gradient edges"}


def test_edge_boxes_need_their_extra(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "cv2" else found(name)
    )
    assert run(["data", "proposals", "edgeboxes", "data", "boxes.jsonl"]) == 7
    assert "regiontalk[edgeboxes]" in capsys.readouterr().err


def test_an_edge_model_is_for_edge_boxes(
    desk_with_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "data",
        "proposals",
        "run",
        "data",
        "boxes.jsonl",
        "--edge-model",
        "data/annotations.jsonl",
    ]
    assert run(asked) == 2
    assert "is for edgeboxes" in capsys.readouterr().err
