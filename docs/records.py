"""Whether a run can be traced and repeated: what docs/results.py says of its record."""

from __future__ import annotations

from typing import Any

from regiontalk.lab.runs import chain

Run = dict[str, Any]
Record = dict[str, Any]

COMPLETE = "complete"
JUDGED = "judged outside this program"
UNKNOWN_COMMITS = frozenset({"3e3602d", "e603ef9", "e9e185f"})
"""Named by runs, but in no history of this repository."""
OUR_PROGRAMS = ("regiontalk ", "python benchmarks/", "python docs/")


def is_old(run: Run) -> bool:
    """Whether a person wrote the run down (before 0.2.0, or a benchmark's output): nobody can
    repeat it exactly."""
    return "record" not in run


def gaps(run: Run) -> list[str]:
    """What is missing to trace the run from its figures back to its recipe."""
    if is_old(run):
        return ["written down by hand"]
    records = list(chain(run["record"]))
    found = {
        "commit unknown": any(not has_known_commit(record) for record in records),
        "files changed since the commit": any(map(is_changed, records)),
        "a step by a script that was not kept": any(is_by_hand(record) for record in records),
        "training not recorded": has_unknown_training(records),
        JUDGED: any(part["role"] == "judging" for record in records for part in record["inputs"]),
    }
    return [gap for gap, is_there in found.items() if is_there]


def standing(run: Run) -> str:
    return "; ".join(gaps(run)) or COMPLETE


def has_known_commit(record: Record) -> bool:
    commit = record["program"].get("commit")
    return commit is not None and commit not in UNKNOWN_COMMITS


def is_changed(record: Record) -> bool:
    """Whether the package's files were not as committed, and the record does not say how."""
    program = record["program"]
    return not program.get("clean", True) and "diff" not in program


def is_by_hand(record: Record) -> bool:
    return not record["command"].startswith(OUR_PROGRAMS)


def has_unknown_training(records: list[Record]) -> bool:
    """Whether a model was measured, and no record says by which recipe it was trained."""
    measured = any(part["role"] == "model" for record in records for part in record["inputs"])
    return measured and not any("recipe" in record for record in records)
