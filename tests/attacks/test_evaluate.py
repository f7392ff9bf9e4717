"""Hostile input to `regiontalk evaluate`: our own error, never a hang, nothing half-written."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regiontalk.cli.main import run
from regiontalk.lab.evaluation import ranking

BOX = [0, 0, 40, 40]
REGION = {"xyxy": BOX, "score": 0.9, "caption": "a mug"}
NO_METEOR = ["--without", "meteor"]
QUERIES = {"images": ["a.png"], "queries": [{"query": "0", "image": "a.png", "captions": []}]}

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    regions = [{"xyxy": BOX, "phrase": "cup", "type": "object"}]
    record = {
        "image": "a.png",
        "width": 100,
        "height": 80,
        "split": "dev",
        "sentences": ["A cup."],
        "regions": regions,
    }
    path.write_text(json.dumps(record) + "\n")
    return path


def verbs(truth: Path, predictions: Path) -> dict[str, list[str]]:
    """Every verb that reads a file of predictions."""
    files = ["--truth", str(truth), "--predictions", str(predictions)]
    queries = truth.with_name("queries.json")
    queries.write_text(json.dumps(QUERIES))
    return {
        "dense": [*files, *NO_METEOR],
        "captions": [*files, *NO_METEOR],
        "regions": [*files, *NO_METEOR],
        "names": files,
        "judge": [*files, "-o", str(truth.with_name("page.html"))],
        "retrieval": ["--queries", str(queries), *files[2:]],
        "ranking": [str(predictions)],
    }


VERBS = ("dense", "captions", "regions", "names", "judge", "retrieval", "ranking")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", ["fifo", "/dev/zero", "folder"])
def test_what_is_no_file_is_refused(verb: str, place: str, truth: Path, tmp_path: Path) -> None:
    path = Path(place) if place.startswith("/") else tmp_path / place
    if place == "fifo":
        os.mkfifo(path)
    elif place == "folder":
        path.mkdir()
    assert run(["evaluate", verb, *verbs(truth, path)[verb]]) == 4
    assert not truth.with_name("page.html").exists()


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_scores_that_are_a_pipe(suffix: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"s{suffix}")
    assert run(["evaluate", "ranking", str(tmp_path / f"s{suffix}")]) == 4


def test_scores_that_unpack_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(ranking, "LARGEST_ARRAYS", 1 << 20)
    np.savez_compressed(tmp_path / "s.npz", scores=np.zeros((1000, 1000)))
    assert run(["evaluate", "ranking", str(tmp_path / "s.npz")]) == 4
    assert "unpacked" in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr(
            "scores.npy",
            b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (1000000000, 1000000), }",
        )
    assert run(["evaluate", "ranking", str(tmp_path / "t.npz")]) == 4


LINES: dict[str, Callable[[], str]] = {
    "deep": lambda: '{"path": "a.png", "regions": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "many digits": lambda: json.dumps(
        {"path": "a.png", "sentence": "x", "regions": [REGION | {"score": 10**400}]}
    ),
    "too many digits": lambda: (
        '{"path": "a.png", "sentence": "x", "regions": [{"score": ' + "9" * 5000 + "}]}"
    ),
    "wide": lambda: json.dumps(
        {"path": "a.png", "width": 10**400, "height": -1, "regions": [REGION]}
    ),
    "NaN": lambda: (
        '{"path": "a.png", "sentence": "x", "scores": [NaN], "regions": [{"score": NaN}]}'
    ),
    "too large": lambda: '{"path": "a.png", "sentence": "x", "regions": [{"score": 1e999}]}',
    "huge boxes": lambda: json.dumps(
        {"path": "a.png", "regions": [REGION | {"xyxy": [-1e308, -1e308, 1e308, 1e308]}]}
    ),
    "other types": lambda: (
        '{"path": 5, "sentence": [], "query": {}, "scores": {"a": []}, "regions": {"a": 1}}'
    ),
    "no path": lambda: '{"path": "", "regions": [], "query": "0", "scores": {}}',
    "NUL": lambda: '{"path": "a\\u0000.png", "regions": [], "query": "0", "ranking": ["\\ud800"]}',
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", LINES)
def test_lines_that_nobody_writes(verb: str, kind: str, truth: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(LINES[kind]() + "\n")
    assert run(["evaluate", verb, *verbs(truth, path)[verb]]) in (0, 4)


@pytest.mark.parametrize(
    "text", ['{"judge": ' + "[" * 99_999, "[1e999]", '{"items": [{"xyxy": [NaN]}]}', "\x00", ""]
)
def test_judgings_that_nobody_writes(text: str, tmp_path: Path) -> None:
    (tmp_path / "j.json").write_text(text)
    assert run(["evaluate", "judge", "--judged", str(tmp_path / "j.json")]) == 4


def test_judgings_that_are_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "j.json")
    assert run(["evaluate", "judge", "--judged", str(tmp_path / "j.json")]) == 4


def test_a_report_is_written_whole_or_not_at_all(
    truth: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"path": "a.png", "regions": [REGION]}) + "\n")
    report = tmp_path / "report.html"
    report.write_text("old")
    options = ["evaluate", "dense", *verbs(truth, path)["dense"], "-o", str(report)]

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", fail)
        assert run(options) == 5
    assert report.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "p.jsonl",
        "queries.json",
        "report.html",
        "t.jsonl",
    ]
    assert run(options) == 0
    assert report.read_text().startswith("<!doctype html>")
