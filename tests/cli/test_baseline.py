"""`regiontalk baseline`, snippets and predicted sentences: files that the evaluator takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.cli.main import run
from regiontalk.lab.data.records import Dataset


@pytest.fixture
def data(untrained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(untrained_run / "data")


def lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def evaluated(kind: str, data: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    files = ["--truth", data, "--split", "dev", "--predictions", "out.jsonl"]
    assert run(["evaluate", kind, *files, "--without", "meteor", "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_sentences_of_neighbours(
    data: str, sentences_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = str(sentences_run / "codes.npz")
    assert (
        run(["baseline", "nearest-neighbour", data, codes, "-o", "out.jsonl", "--split", "dev"])
        == 0
    )
    assert capsys.readouterr().err == "out.jsonl: 4 photos\n"
    known = {sentence for record in Dataset(data, "train") for sentence in record.sentences}
    assert all(line["sentence"] in known for line in lines("out.jsonl"))
    assert evaluated("captions", data, capsys)["sentences"] == 4


def test_pieces_for_true_boxes(
    data: str, sentences_run: Path, alignment_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, truths = str(sentences_run / "codes.npz"), str(sentences_run / "truths.npz")
    asked = [
        "baseline",
        "region-ranking",
        data,
        codes,
        "-o",
        "out.jsonl",
        "--split",
        "dev",
        "--truths",
        truths,
    ]
    assert run([*asked, "--alignment", str(alignment_run), "--beta", "0.2", "-q"]) == 0
    assert evaluated("regions", data, capsys)["missing"] == 0


def test_snippets_of_a_data_set(
    data: str, sentences_run: Path, alignment_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "data",
        "snippets",
        data,
        str(sentences_run / "codes.npz"),
        "out.jsonl",
        "--beta",
        "0.1",
    ]
    assert run([*asked, "--alignment", str(alignment_run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    photos = lines("out.jsonl")
    assert len(photos) == 10
    assert found["snippets"] == sum(len(photo["snippets"]) for photo in photos) > 0
    sentence_net = ["--sentence-net", str(sentences_run / "run"), "--split", "dev"]
    assert run([*asked, "--alignment", str(alignment_run), *sentence_net, "-q"]) == 0
    weights = [one["weight"] for photo in lines("out.jsonl") for one in photo["snippets"]]
    assert all(0.1 <= weight <= 1 for weight in weights)
    assert run([*asked, "--alignment", "nowhere"]) == 6


def test_predicted_sentences(
    data: str, sentences_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["predict", str(sentences_run / "run"), data, "-o", "out.jsonl", "--split", "dev"]
    assert run([*asked, "--codes", str(sentences_run / "codes.npz"), "--beam", "3"]) == 0
    names = [record.image for record in Dataset(data, "dev")]
    assert [line["path"] for line in lines("out.jsonl")] == sorted(names)
    assert evaluated("captions", data, capsys)["sentences"] == 4
    assert (
        run([*asked, "--codes", str(sentences_run / "truths.npz"), "--regions", "truth", "-q"]) == 0
    )
    assert evaluated("regions", data, capsys)["missing"] == 0


def test_what_predicting_sentences_needs(
    data: str, sentences_run: Path, untrained_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [data, "-o", "out.jsonl", "--split", "dev"]
    assert run(["predict", str(sentences_run / "run"), *asked]) == 2
    assert "a run of this kind needs codes" in capsys.readouterr().err
    assert (
        run(
            [
                "predict",
                str(untrained_run / "run"),
                *asked,
                "--codes",
                str(sentences_run / "codes.npz"),
            ]
        )
        == 2
    )
    assert "runs of kind sentences" in capsys.readouterr().err
    assert run(["predict", str(sentences_run / "run"), *asked, "--codes", "gone.npz"]) == 4
