"""`regiontalk evaluate objects`, `chair`, `diversity`, `context` and `shown` on the example
photos."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.cli.main import run


@pytest.fixture
def marked(examples: Path, tmp_path: Path) -> Path:
    """The example photos as a data set of objects, with a sentence each."""
    lines = [json.loads(line) for line in (examples / "annotations.jsonl").read_text().splitlines()]
    for line in lines:
        line["image"] = str((examples / line["image"]).absolute())
        line["split"] = "dev"
        line["sentences"] = ["a man with a dog", "somebody"]
        middle = [line["width"] / 4, line["height"] / 4, line["width"] / 2, line["height"] / 2]
        line["regions"] = [{"xyxy": middle, "phrase": "person", "type": "object"}]
    lines[0]["regions"][0]["phrase"] = "cat"
    (tmp_path / "annotations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return tmp_path


def measured(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run(["evaluate", *words, "--split", "dev", "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def test_objects(marked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "kept"
    words = ["objects", "fast", "--truth", str(marked), "--record", str(place)]
    found = measured(capsys, *words)
    assert (found["photos"], found["classes"]) == (8, 2)
    assert set(found["presence"]) == {"random", "popular", "adversarial"}
    assert set(found["detection"]["classes"]) == {"cat", "person"}
    kept = json.loads((place / "metrics.json").read_text())
    assert (kept["kind"], kept["settings"]) == ("objects", {"seed": 0})
    assert kept["record"]["inputs"][0]["role"] == "model"
    assert run(["evaluate", *words[:4], "--split", "dev"]) == 0
    assert "cgf1" in capsys.readouterr().out


@pytest.fixture
def sentences(marked: Path, tmp_path: Path) -> Path:
    """A cat is invented in all photos but the first, where the dog is people's."""
    lines = [json.loads(line) for line in (marked / "annotations.jsonl").read_text().splitlines()]
    said = [{"path": line["image"], "sentence": "a cat and a dog"} for line in lines]
    path = tmp_path / "said.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in said))
    return path


def test_chair(marked: Path, sentences: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["chair", "--truth", str(marked), "--predictions", str(sentences)]
    found = measured(capsys, *words)
    assert (found["chair_i"], found["chair_s"]) == (100 * 7 / 16, 100 * 7 / 8)
    assert found["invented"] == {"cat": 7}
    assert run(["evaluate", *words]) == 0
    assert "16 mentions" in capsys.readouterr().out


def test_diversity(marked: Path, sentences: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diversity", "--truth", str(marked), "--predictions", str(sentences)]
    text = (marked / "annotations.jsonl").read_text().replace('"dev"', '"train"')
    training = marked / "train.jsonl"
    training.write_text(text)
    found = measured(capsys, *words, "--training", str(training))
    assert (found["captions"], found["different_captions"], found["in_training"]) == (8, 1, 0)
    assert (found["people"]["captions"], found["people"]["in_training"]) == (8, 100)
    regions = marked / "regions.jsonl"
    captions = [{"xyxy": [0, 0, 9, 9], "score": 1, "caption": text} for text in ("a cat", "a dog")]
    lines = [json.loads(line) for line in sentences.read_text().splitlines()]
    regions.write_text(
        "".join(json.dumps({"path": one["path"], "regions": captions}) + "\n" for one in lines)
    )
    found = measured(capsys, *words[:3], "--predictions", str(regions))
    assert (found["captions"], found["different_captions"]) == (16, 2)
    assert found["people"]["different_captions"] == 2  # the phrases of the regions
    assert "in_training" not in found


def test_context(marked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(capsys, "context", "fast", "--truth", str(marked), "--photos", "2")
    assert found["regions"] == 2
    assert found["together"] == found["alone"]  # the only region of a photo
    assert found["cut_out"]["same_as_together"] <= 100


def test_shown(marked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measured(capsys, "shown", "fast", "--truth", str(marked), "--photos", "3")
    assert found["photos"] == 3
    assert found["counts"]["first_things"] == 0, "no phrase on a box"
    assert found["captions_per_photo"] == found["counts"]["captions"] / 3
    words = ["evaluate", "shown", "fast", "--truth", str(marked), "--split", "dev", "--photos", "1"]
    assert run(words) == 0
    assert "first_things_named" in capsys.readouterr().out
