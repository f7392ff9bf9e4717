"""The recorded runs in docs/runs, checked, and the recipes that they were made with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from columns import Run
from tables import FORMER, PACKAGE

from regiontalk.lab.runs import LOG, METRICS, chain, read_looks, recipe_fingerprint

ROOT = Path(__file__).parents[1]
BY_HAND = "by hand"


def read_runs(folder: Path) -> list[Run]:
    """Every run below a folder, checked: those of the model in the package first, then by name."""
    runs = []
    for path in sorted(folder.glob(f"*/{METRICS}")):
        try:
            run = json.loads(path.read_bytes())
        except ValueError as error:
            raise SystemExit(f"{path}: {error}") from error
        if not isinstance(run, dict) or not isinstance(run.get("kind"), str):
            raise SystemExit(f"{path}: a run is a JSON object with a 'kind'")
        log = path.with_name(LOG)
        run |= {"name": path.parent.name, "looks": read_looks(path.parent), "curves": log.is_file()}
        _check(run, path)
        remark = {"note": FORMER[run["name"]]} if run["name"] in FORMER else {}
        data = {"data": run.get("data") or "–"}
        runs.append({"steps": _steps(run, log)} | run | data | remark)
    return sorted(runs, key=lambda run: _place(run["name"].split("-")))


def _place(parts: list[str]) -> int:
    """Runs of the package's models come first."""
    return next((place for place, model in enumerate(PACKAGE) if model in parts), len(PACKAGE))


def _steps(run: Run, log: Path) -> int | None:
    """Steps of training: from the recipe, or the last step in the log."""
    for recipe in recipes(run):
        return int(recipe["as_used"]["run"]["steps"])
    return (
        int(json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["step"])
        if log.is_file()
        else None
    )


def recipes(run: Run) -> Iterator[dict[str, Any]]:
    """The recipes of the trainings that led to a run, the last training first."""
    for record in chain(run["record"]) if "record" in run else ():
        if "recipe" in record:
            yield record["recipe"]


def _check(run: Run, path: Path) -> None:
    """Rejects a run that does not say how it was recorded, or whose recipe does not match its
    SHA-256."""
    if "record" in run:
        for recipe in recipes(run):
            if "as_used" not in recipe:
                raise SystemExit(f"{path}: the record lacks the recipe as used")
            if recipe_fingerprint(recipe["as_used"]) != recipe["sha256"]:
                raise SystemExit(
                    f"{path}: the recipe in the record was changed afterwards (its SHA-256 differs)"
                )
        return
    if run.get("recorded") != BY_HAND:
        raise SystemExit(f"{path}: neither a record nor marked as recorded {BY_HAND}")
    named = run.get("recipe")
    if named is not None and not (ROOT / named).is_file():
        raise SystemExit(f"{path}: there is no {named}")


def recipe_differences(recipe: dict[str, Any]) -> list[str] | None:
    """Where the recipe as used differs from the file that it names; None if that file is not (or no
    longer) in recipes/."""
    file = ROOT / recipe["file"]
    if file.parent.name != "recipes" or not file.is_file():
        return None
    from regiontalk.lab.training.recipe import flatten, load_recipe, to_dict

    now, then = flatten(to_dict(load_recipe(file))), flatten(recipe["as_used"])
    # Keys that were added later are not compared.
    return [
        f"{key} = {value} (now {now.get(key, 'gone')})"
        for key, value in then.items()
        if now.get(key) != value
    ]
