"""`regiontalk evaluate alignment`, `grounding` and `magnitudes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regiontalk.cli.main import run
from regiontalk.training.heads import alignment_model


@pytest.fixture
def options(sentences_run: Path, untrained_run: Path) -> list[str]:
    return ["--codes", str(sentences_run / "codes.npz"), "--truth", str(untrained_run / "data"), "--split", "dev"]


def test_ranking_is_the_mean_of_the_best(alignment_run: Path, options: list[str], capsys) -> None:
    assert run(["evaluate", "alignment", str(alignment_run), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["images"], found["models"]) == (4, 2)
    assert set(found["image_to_text"]) == {"r1", "r5", "r10", "median_rank"}
    assert run(["evaluate", "alignment", str(alignment_run), *options]) == 0
    assert "sentence → image" in capsys.readouterr().out


def test_grounding(alignment_run: Path, sentences_run: Path, untrained_run: Path, tmp_path: Path, capsys) -> None:
    lines = (untrained_run / "data" / "annotations.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        record["entity_sentences"] = [region["phrase"] for region in record["regions"]]
        for number, region in enumerate(record["regions"]):
            region |= {"sentences": [number], "type": "shape"}
    (tmp_path / "annotations.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    options = ["--codes", str(sentences_run / "codes.npz"), "--truth", str(tmp_path), "--split", "dev"]
    assert run(["evaluate", "grounding", str(alignment_run), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mentions"] == sum(len(record["regions"]) for record in records if record["split"] == "dev")
    assert set(found["types"]) == {"shape"}
    assert run(["evaluate", "grounding", str(alignment_run), *options, "--beta", "0.1"]) == 0
    assert "centre box" in capsys.readouterr().out


def test_grounding_needs_phrases(alignment_run: Path, options: list[str], capsys) -> None:
    assert run(["evaluate", "grounding", str(alignment_run), *options]) == 4
    assert "no phrase" in capsys.readouterr().err


def test_magnitudes_are_drawn(
    alignment_run: Path, options: list[str], tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_model, "FEWEST", 1)
    picture = tmp_path / "words.svg"
    assert run(["evaluate", "magnitudes", str(alignment_run), *options, "-o", str(picture)]) == 0
    assert "longest of" in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")


def test_what_is_no_run(tmp_path: Path, options: list[str], shaken_checkpoint: Path) -> None:
    assert run(["evaluate", "alignment", str(tmp_path), *options]) == 6
    assert run(["evaluate", "alignment", str(shaken_checkpoint), *options]) == 6
