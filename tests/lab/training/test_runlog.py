"""The log: one JSON object a line, cut back when a run resumes from an earlier step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regiontalk.lab.training.runlog import RunLog

LOSSES = {"caption": 1.25, "final_box": 0.5}


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.fixture
def folder(tmp_path) -> Path:
    log = RunLog(tmp_path / "run", 0)
    for step in range(1, 6):
        log.step(step, LOSSES if step % 2 else None, photos=8, rate=0.1)
    log.metrics(4, {"dense_map": 0.3})
    log.close()
    return tmp_path / "run"


def test_steps_and_metrics_are_noted(folder):
    noted = lines(folder)
    assert [entry["step"] for entry in noted] == [1, 3, 5, 4]
    assert noted[0]["caption"] == 1.25
    assert noted[0]["rate"] == 0.1
    assert noted[-1]["dev"] == {"dense_map": 0.3}
    assert all(entry["seconds"] >= 0 for entry in noted)
    assert list((folder / "tensorboard").glob("events.*"))


def test_what_will_be_written_again_is_cut_off(folder):
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"step": 6, "capt')  # the process was killed here
    log = RunLog(folder, 3)
    log.step(4, LOSSES, photos=8, rate=0.1)
    log.close()
    assert [entry["step"] for entry in lines(folder)] == [1, 3, 4]
    assert not list(folder.glob("*.partial"))


def test_a_run_from_the_start_forgets_the_old_one(folder):
    RunLog(folder, 0).close()
    assert lines(folder) == []


def test_speed_counts_the_photos_of_the_last_steps(tmp_path, monkeypatch):
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("regiontalk.lab.training.runlog.time.monotonic", lambda: float(next(clock)))
    log = RunLog(tmp_path, 0)
    assert [log.step(step, None, photos=8, rate=0.1) for step in range(1, 4)] == [4, 4, 4]
    next(clock)  # an evaluation
    log.pause_over()
    assert log.step(4, None, photos=8, rate=0.1) == 4
    log.close()
