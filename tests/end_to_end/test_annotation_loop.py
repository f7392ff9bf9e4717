"""An annotator's whole loop: the model's captions, corrected in Label Studio, teach the model
(issue 14)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regiontalk.cli.main import run
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.training.checkpoints import latest_checkpoint, load_fcln

RECIPE = Path(__file__).parents[2] / "recipes" / "tiny.toml"
WORDS = ("a lighthouse", "a lighthouse in fog", "a lighthouse keeper")


def correct(task: dict[str, Any], number: int) -> dict[str, Any]:
    """What Label Studio exports after somebody kept two regions, moved one of them and wrote new
    captions."""
    kept = [
        part | {"origin": "prediction-changed"} for part in task["predictions"][0]["result"][:4]
    ]
    for part in kept:
        if part["type"] == "textarea":
            part["value"]["text"] = [WORDS[number % len(WORDS)]]
    for part in kept[:2]:
        part["value"] |= {"x": 10.0, "y": 12.5, "width": 50.0, "height": 60.0}
    annotation = {
        "id": number,
        "was_cancelled": False,
        "updated_at": "2024-05-01T10:00:00Z",
        "result": kept,
    }
    return {**task, "id": number, "annotations": [annotation], "drafts": [], "file_upload": ""}


@pytest.mark.usefixtures("desk_with_run")
def test_captions_are_corrected_and_learnt(
    tmp_path: Path, tiny_model: Path, scene: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / "photos").mkdir(exist_ok=True)
        scene.resize((96 + number, 64)).save(tmp_path / "photos" / f"{number}.jpg")
    shutil.copytree(tiny_model, tmp_path / "weights")
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", tmp_path / "weights")
    assert run(["caption", "photos", "--format", "labelstudio", "-o", "tasks.json", "-q"]) == 0
    tasks = json.loads(Path("tasks.json").read_text())
    Path("project.json").write_text(
        json.dumps([correct(task, number) for number, task in enumerate(tasks)])
    )
    assert run(["data", "prepare", "labelstudio", "project.json", "mine", "--strict", "-q"]) == 0
    assert run(["data", "check", "mine", "-q"]) == 0
    assert [{region.phrase for region in record.regions} for record in Dataset("mine")] == [
        {word} for word in WORDS
    ]
    changes = (
        "data=[{path='mine'}]",
        "run.steps=2",
        "run.batch=2",
        "run.evaluate_every=100",
        "run.pictures=0",
    )
    sets = [word for change in changes for word in ("--set", change)]
    train = [
        "train",
        str(RECIPE),
        "--from",
        "embedded",
        "-o",
        "tuned",
        "--device",
        "cpu",
        "-q",
        *sets,
    ]
    assert run(train) == 0
    checkpoint = latest_checkpoint(Path("tuned/checkpoints"))
    assert checkpoint is not None
    assert "lighthouse" in load_fcln(checkpoint).words.words
