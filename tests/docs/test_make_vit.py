"""recipes/make-vit.sh makes the model in one command: its steps, without running them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from regiontalk.cli.main import program

ROOT = Path(__file__).parents[2]
STUB = """#!/bin/bash
echo "$(printf '%q ' "$@")" >> "$LOG"
"""


def steps_of(folder: Path) -> list[list[str]]:
    """The regiontalk commands of the script, by a program of that name that only notes them."""
    stub = folder / "bin" / "regiontalk"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text(STUB)
    stub.chmod(0o755)
    log = folder / "log"
    log.unlink(missing_ok=True)
    environment = {"PATH": f"{stub.parent}:{os.environ['PATH']}", "LOG": str(log)}
    script = str(ROOT / "recipes" / "make-vit.sh")
    subprocess.run(["bash", script], check=True, cwd=folder, env=environment)
    return [shlex.split(line) for line in log.read_text().splitlines()]


def test_every_step_is_a_command_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    steps = steps_of(tmp_path)
    for words in steps:
        for word in words:
            if word.startswith(("data/", "runs/", "models/")) and not Path(word).suffix:
                Path(word).mkdir(parents=True, exist_ok=True)
            elif word.endswith((".npz", ".jsonl")):
                Path(word).parent.mkdir(parents=True, exist_ok=True)
                Path(word).touch()
    for words in steps:
        command: click.Command | None = program
        left = list(words)
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(program), left.pop(0))
        assert command is not None
        command.make_context(words[0], left)


def test_a_finished_step_is_not_done_again(tmp_path: Path) -> None:
    exported = ["export", "runs/vit", "models/vit.parts/raw", "--precision", "int8"]
    assert exported in steps_of(tmp_path)
    (tmp_path / "models" / "vit.parts" / "raw").mkdir(parents=True)
    assert exported not in steps_of(tmp_path)
