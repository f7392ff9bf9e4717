"""Completion in a real bash, and the scripts for the other shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from regiontalk.cli import main
from regiontalk.cli.main import COMPLETE, run

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_finding_b13_a_script_for_each_shell(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"{COMPLETE}={shell}_complete" in script


def test_finding_b13_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err


def completed_by_bash(words: list[str], folder: Path) -> list[str]:
    """What bash offers after the words, the last one being typed, from the very script that we
    print."""
    program = folder / "bin" / "regiontalk"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m regiontalk "$@"\n')
    program.chmod(0o755)
    typed = " ".join(f'"{word}"' for word in words)
    script = f'''
eval "$(regiontalk completion bash)"
COMP_WORDS=(regiontalk {typed}); COMP_CWORD={len(words)}
compopt() {{ echo "option $2" >&2; }}
$(complete -p regiontalk | sed 's/.*-F \\([^ ]*\\).*/\\1/') regiontalk "{words[-1]}" regiontalk
printf '%s\\n' "${{COMPREPLY[@]}}"
'''
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    return [*done.stdout.split(), *done.stderr.splitlines()]


@needs_bash
def test_finding_b13_bash_completes_verbs_options_and_paths(tmp_path: Path) -> None:
    assert completed_by_bash(["ca"], tmp_path) == ["caption"]
    assert completed_by_bash(["caption", "--thr"], tmp_path) == ["--threshold"]
    assert set(completed_by_bash(["data", ""], tmp_path)) >= {"prepare", "check"}
    assert completed_by_bash(["caption", "--model", ""], tmp_path) == ["option dirnames"]
    assert completed_by_bash(["caption", "hol"], tmp_path) == ["option default"]


def test_finding_b13_verbs_are_completed_without_importing_them() -> None:
    code = "import sys\nfrom regiontalk.cli.main import run\nrun()\nprint(*sys.modules, file=sys.stderr)"
    asked = {COMPLETE: "bash_complete", "COMP_WORDS": "regiontalk ", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **asked},
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == list(main.VERBS)
    assert "regiontalk.cli.caption" not in done.stderr.split()
