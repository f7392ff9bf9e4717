"""The page of one run: docs/runs/NAME/README.md."""

from __future__ import annotations

from typing import Any

from columns import Run
from curves import CURVES
from markdown_page import page
from recorded_runs import recipe_differences
from records import has_known_commit, is_old, standing

from regiontalk.lab.runs import chain, data_text

MAX_DIFFERENCES = 12  # that a page names between a recipe as used and its file


def about_run(run: Run) -> str:
    """The page of a run."""
    facts = _hand_facts(run) if is_old(run) else _record_facts(run)
    lines = [f"- {name}: {value}" for name, value in facts if value not in (None, "", [])]
    looks = [
        f"{look['date'][:10]} at {look.get('commit') or 'an unknown commit'}"
        for look in run["looks"]
    ]
    if looks:
        lines.append(f"- evaluations on test: {'; '.join(looks)}")
    heading = f"# {run['name']}: {run['kind']}, {run['data']}"
    figures = "All figures are in [metrics.json](metrics.json)."
    parts = [
        heading,
        f"Written by `python docs/results.py`; do not edit. {figures}",
        "\n".join(lines),
    ]
    if run["curves"]:
        parts.append(f"![training curves of {run['name']}]({CURVES})")
    return page(parts)


def _hand_facts(run: Run) -> list[tuple[str, Any]]:
    about = [
        (key, run.get(key))
        for key in ("recipe", "commit", "device", "seconds", "settings", "notes")
    ]
    return [("record", standing(run)), *about]


def _record_facts(run: Run) -> list[tuple[str, Any]]:
    facts: list[tuple[str, Any]] = [("record", standing(run)), ("note", run.get("note"))]
    for record in reversed(list(chain(run["record"]))):
        program = record["program"]
        changed = "" if program.get("clean", True) else " with uncommitted changes"
        unknown = "" if has_known_commit(record) else ", which is in no history of this repository"
        commit = (
            f"{program['commit']}{changed}{unknown}"
            if program.get("commit")
            else f"version {program['version']}, commit unknown"
        )
        facts.append(
            (
                record["verb"],
                f"`{record['command']}` ({commit}, {record['device']}, {record['seconds']} s)",
            )
        )
        facts += [
            ("data", f"{data_text(data)}, SHA-256 {data['sha256'][:12]}") for data in record["data"]
        ]
        for source in record["inputs"]:
            named = f" ({source['name']})" if "name" in source else ""
            digest = source["sha256"][:12]
            facts.append((source["role"], f"{source['path']}{named}, SHA-256 {digest}"))
        if "recipe" in record:
            facts.append(("recipe", _recipe_text(record["recipe"])))
    return facts


def _recipe_text(recipe: dict[str, Any]) -> str:
    differences = recipe_differences(recipe)
    if differences is None:
        return f"{recipe['file']} (not in recipes/; the record has the full text)"
    if not differences:
        return str(recipe["file"])
    named = "; ".join(differences[:MAX_DIFFERENCES]) + (
        "; …" if len(differences) > MAX_DIFFERENCES else ""
    )
    return f"{recipe['file']}, but {named}"
