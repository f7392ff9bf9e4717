"""A part of the sweep of `fault_sweep.py`, which makes calls fail one by one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("fault_sweep.py")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or shutil.which("cc") is None,
        reason="needs Linux and a C compiler",
    ),
]


def sweep(*arguments: object) -> dict[str, object]:
    command = [sys.executable, str(SWEEP), "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-2000:]
    result: dict[str, object] = json.loads(done.stdout)
    return result


def test_nothing_is_lost_whichever_call_fails(aligning_model: Path) -> None:
    result = sweep("--model", aligning_model, "--step", 31, "--memory", 2)
    assert result["lost"] == []
    assert result["losses"] == 0
    assert int(str(result["faults"])) > 50


def test_any_command_can_be_tried(tiny_model: Path, tmp_path: Path, scene_path: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    shutil.copy(scene_path, start / "a.png")
    caption = ["caption", "a.png", "-o", "x.html", "--model", tiny_model, "-q"]
    result = sweep("--start", start, "--step", 5, "--memory", 1, "--", *caption)
    assert result["lost"] == []
