"""docs/records.py says what a run's record lacks; new runs lack nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from recorded_runs import read_runs
from records import JUDGED, UNKNOWN_COMMITS, gaps, is_old, standing

from regiontalk.lab.runs import chain

ROOT = Path(__file__).parents[2]
RUNS = read_runs(ROOT / "docs" / "runs")
HOLD_FROM = "2026-11-20"
"""From this day on, records are complete; the gaps of earlier ones are shown in the tables."""


def record(**changed: Any) -> dict[str, Any]:
    program = {"version": "1.0", "commit": "abc123", "clean": True}
    values = {"command": "regiontalk train recipes/tiny.toml", "program": program, "inputs": []}
    return values | changed


def run_of(*inputs: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {"record": record(inputs=list(inputs), **changed)}


def trained(**changed: Any) -> dict[str, Any]:
    return {"role": "model", "path": "runs/tiny", "record": record(recipe={}, **changed)}


def test_a_run_whose_whole_way_is_recorded_is_complete() -> None:
    assert standing(run_of(trained())) == "complete"
    assert standing(run_of(command="python benchmarks/caption.py --json")) == "complete"


@pytest.mark.parametrize(
    ("run", "gap"),
    [
        ({"recorded": "by hand"}, "written down by hand"),
        (run_of(trained(program={"version": "1.0"})), "commit unknown"),
        (run_of(program={"commit": min(UNKNOWN_COMMITS), "clean": True}), "commit unknown"),
        (run_of(program={"commit": "abc", "clean": False}), "files changed since the commit"),
        (run_of(trained(command="mine.py 3")), "a step by a script that was not kept"),
        (run_of({"role": "model", "path": "embedded"}), "training not recorded"),
        (run_of({"role": "judging", "path": "judging-Ada.json"}), "judged outside this program"),
    ],
)
def test_gaps_are_named(run: dict[str, Any], gap: str) -> None:
    assert gaps(run) == [gap]


def test_a_changed_file_is_no_gap_if_the_record_has_the_changes_fingerprint() -> None:
    assert gaps(run_of(program={"commit": "abc", "clean": False, "diff": "0" * 64})) == []


def git(*arguments: str) -> str | None:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=False, capture_output=True, text=True
    )
    return done.stdout.strip() if done.returncode == 0 else None


def test_every_commit_that_runs_name_is_here_or_known_to_be_missing() -> None:
    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the history is not here")
    steps = [step for run in RUNS if not is_old(run) for step in chain(run["record"])]
    named = {step["program"].get("commit") for step in steps} - {None}
    missing = {commit for commit in named if git("cat-file", "-e", f"{commit}^{{commit}}") is None}
    assert missing == UNKNOWN_COMMITS


def test_new_runs_can_be_traced() -> None:
    """The package's models are measured without their training's record, and said to be."""
    for run in RUNS:
        if is_old(run) or run["record"]["started"] < HOLD_FROM:
            continue
        inputs = [part for step in chain(run["record"]) for part in step["inputs"]]
        models = [part for part in inputs if part["role"] == "model"]
        in_package = any(part["path"] in ("embedded", "fast") for part in models)
        allowed = {JUDGED, *["training not recorded"] * in_package}
        assert set(gaps(run)) <= allowed, run["name"]


def test_no_new_run_is_written_down_by_hand() -> None:
    assert sum(map(is_old, RUNS)) == 42
