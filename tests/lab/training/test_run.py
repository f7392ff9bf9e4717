"""Starting a run: what is checked before any work is done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regiontalk.errors import DiskFull, RegionTalkError, UsageError
from regiontalk.lab.runs import find_record, fingerprint, recipe_fingerprint
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.run import start_run

TINY = Path(__file__).parents[3] / "recipes" / "tiny.toml"


class Silent:
    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, *_: object) -> None: ...
    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def begin(quick_changes, tmp_path):
    def start(
        *more: str, resume: bool = False, minutes: float | None = None, folder: Path | None = None
    ) -> Silent:
        watcher = Silent()
        start_run(
            TINY,
            (*quick_changes, *more),
            folder or tmp_path / "run",
            resume,
            minutes,
            "cpu",
            watcher,
        )
        return watcher

    return start


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def test_a_run_says_what_it_has_and_records_itself(begin, scenes, tmp_path):
    watcher = begin()
    assert any("words, 8 photos of" in text for text in watcher.said)
    record = record_of(tmp_path / "run")
    assert record["recipe"]["file"] == str(TINY)
    assert "run.steps=6" in record["recipe"]["overrides"]
    assert record["recipe"]["as_used"]["run"]["steps"] == 6
    assert record["recipe"]["sha256"] == recipe_fingerprint(record["recipe"]["as_used"])
    assert (record["data"][0]["name"], record["data"][0]["images"]) == (scenes.name, 12)
    assert record["seed"] == 1
    checkpoint = tmp_path / "run" / "checkpoints" / "step-00000006"
    assert record["output"] == {"path": checkpoint.name, "sha256": fingerprint(checkpoint)}
    assert find_record(checkpoint) == record


def test_a_run_goes_on_where_it_was(begin, tmp_path):
    begin(minutes=0)
    assert (tmp_path / "run" / "checkpoints" / "step-00000001").is_dir()
    first = record_of(tmp_path / "run")
    assert "resumed at step 1" in begin(resume=True).said
    assert (tmp_path / "run" / "checkpoints" / "step-00000006").is_dir()
    (earlier,) = record_of(tmp_path / "run")["earlier"]
    assert (earlier["started"], earlier["seconds"]) == (first["started"], first["seconds"])


def test_a_run_that_breaks_off_has_a_record_too(begin, tmp_path, monkeypatch):
    monkeypatch.setattr(Engine, "train", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        begin()
    assert record_of(tmp_path / "run")["seconds"] is None


def test_a_run_from_a_model_names_it(begin, tiny_model, tmp_path):
    begin(f"init_from={tiny_model}", "run.steps=1")
    (model,) = record_of(tmp_path / "run")["inputs"]
    assert (model["role"], model["sha256"]) == ("model", fingerprint(tiny_model))


def test_no_room_is_noticed_before_the_first_step(begin, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(DiskFull, match="no room"):
        begin()
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_a_run_that_goes_on_needs_room_for_what_is_missing_only(
    begin, quick_recipe, tmp_path, monkeypatch
):
    """Two kept ones, the best and one being written make four; one of them is there when the run
    resumes."""
    engine = Engine(FCLNTask.begin(quick_recipe()), tmp_path, torch.device("cpu"), Silent())
    room = SimpleNamespace(free=3.5 * engine.checkpoint_bytes())
    begin(minutes=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    with pytest.raises(DiskFull, match="no room"):
        begin(folder=tmp_path / "fresh")
    begin(resume=True)


def test_a_log_that_cannot_be_written_is_one_line(begin, tmp_path):
    (tmp_path / "run" / "log.jsonl").mkdir(parents=True)
    with pytest.raises(RegionTalkError) as caught:
        begin()
    assert caught.value.exit_code == 2
    assert str(tmp_path / "run") in caught.value.message


def test_a_folder_that_cannot_be_made(begin, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        begin(folder=tmp_path / "file" / "run")


def test_the_recipe_is_read_before_anything_else(begin, tmp_path):
    with pytest.raises(UsageError, match="stepps"):
        begin("run.stepps=3")
    assert not (tmp_path / "run").exists()
