"""Run records: what a command did, written next to its output, so that every figure can be traced
to its recipe.

RUN/run.json                `train`, in the run's folder
MODEL/run.json              `export` and `fit`, in the model folder
predictions.run.json        `predict`, next to predictions.jsonl
DIR/metrics.json            `evaluate … --record DIR`: the figures and their record

A record contains the records of its inputs, so the last one has the whole history: recipe, data,
checkpoint, settings. `test-looks.jsonl` in a run's, a model's or an evaluation's folder gets one
line for every evaluation on a test split; lines are only ever added.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import regiontalk
from regiontalk.captioners.loading import CaptionerAddress
from regiontalk.errors import DataError
from regiontalk.io.files import (
    json_file,
    json_line,
    parse_object,
    read_file,
    read_json,
    read_json_lines,
    read_lines,
    replacing,
)
from regiontalk.io.provenance import command_line, cpu_name, file_fingerprint, git
from regiontalk.lab.data.records import annotations_path
from regiontalk.models import packaged
from regiontalk.models.folder import INFO, RUN_FILES, SUMS

SCHEMA = "regiontalk-run/1"
RECORD, LOOKS = RUN_FILES
METRICS = "metrics.json"
LOG = "log.jsonl"
LARGEST_GROUP = (
    5  # figures of a group, such as R@1, R@5, R@10 and median rank, that test-looks.jsonl keeps
)

Values = dict[str, Any]


class RunRecord:
    """What one command did; the methods `uses…` add its inputs, `settings` are other relevant
    options."""

    def __init__(self, verb: str, device: str | None = None, **settings: Any) -> None:
        self._began = time.monotonic()
        self.values: Values = {
            "schema": SCHEMA,
            "verb": verb,
            "command": command_line(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": None,
            "program": program(),
            "device": device or cpu_name(),
            "settings": settings,
            "data": [],
            "inputs": [],
        }

    def uses_recipe(self, file: Path, overrides: Sequence[str], recipe: Mapping[str, Any]) -> None:
        """`recipe` is the recipe as used: every default filled in, overrides applied."""
        as_used = json.loads(json.dumps(recipe))
        self.values["recipe"] = {
            "file": str(file),
            "overrides": list(overrides),
            "sha256": recipe_fingerprint(as_used),
            "as_used": as_used,
        }
        self.values["seed"] = as_used["run"]["seed"]

    def uses_data(self, source: Path, split: str | None = None, images: int | None = None) -> None:
        """A data set folder or a file of records; `images` were taken from it (None: all)."""
        path = annotations_path(source) if source.is_dir() else source
        if images is None and source.is_dir():
            images = sum(1 for _ in read_lines(path))
        name = source.resolve().name
        self.values["data"].append(
            {"name": name, "split": split, "images": images, "sha256": file_fingerprint(path)}
        )

    def uses(self, role: str, path: Path | CaptionerAddress) -> None:
        """A file, model folder, checkpoint, run or captioner (`role`: model, predictions, codes,
        …), with its record."""
        if isinstance(path, CaptionerAddress):
            address = {"role": role, "path": str(path), "sha256": path.fingerprint}
            self.values["inputs"].append(address)
            return
        entry: Values = {"role": role, "path": shown(path), "sha256": fingerprint(path)}
        if (path / INFO).is_file():
            entry["name"] = read_json(path / INFO).get("name")
        record = find_record(path)
        if record is not None:
            made = record.get("output", {}).get("sha256", entry["sha256"])
            if made != entry["sha256"] and path.is_file():
                raise DataError(
                    f"{path}: not the file that {record_path(path).name} records",
                    hint="make it again, or delete that record",
                )
            if all(record != other.get("record") for other in self.values["inputs"]):
                entry["record"] = record
        self.values["inputs"].append(entry)

    def made(self, path: Path) -> None:
        """The file, model folder or checkpoint that came out."""
        self.values["output"] = {"path": path.name, "sha256": fingerprint(path)}

    def resumes(self, earlier: Mapping[str, Any]) -> None:
        """Keeps the records of earlier parts of a resumed run."""
        kept = {key: earlier[key] for key in ("command", "started", "seconds", "program", "device")}
        self.values["earlier"] = [*earlier.get("earlier", []), kept]

    def finish(self) -> Values:
        self.values["seconds"] = round(time.monotonic() - self._began, 1)
        return self.values


@contextmanager
def recording(
    verb: str, output: Path, device: str | None = None, **settings: Any
) -> Iterator[RunRecord]:
    """Times a block that makes `output`, and writes its record next to it when the block ends
    without error."""
    record = RunRecord(verb, device, **settings)
    yield record
    record.made(output)
    write_record(record_path(output), record.finish())


# -- where records are
# ---------------------------------------------------------------------------------------


def record_path(output: Path) -> Path:
    """Inside a folder; next to a file, with its name without extensions."""
    if output.is_dir():
        return output / RECORD
    return output.with_name(
        f"{output.name.removesuffix('.gz').rpartition('.')[0] or output.name}.{RECORD}"
    )


def find_record(path: Path) -> Values | None:
    """The record of a file, model folder, run or checkpoint of a run; None if there is none."""
    places = (record_path(path), run_folder(path) / RECORD)
    return next((read_record(place) for place in places if place.is_file()), None)


def read_record(path: Path) -> Values:
    try:
        values: Values = parse_object(read_file(path), str(path))
    except DataError as error:
        raise DataError(f"{path}: not a run record: {error.message}") from error
    if values.get("schema") != SCHEMA:
        raise DataError(f"{path}: not a run record (no {SCHEMA!r} in it)")
    return values


def write_record(path: Path, values: Mapping[str, Any]) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(json_file(values))


def run_folder(path: Path) -> Path:
    """The run of a checkpoint (RUN/checkpoints/step-…); any other folder is returned unchanged."""
    return path.resolve().parents[1] if (path / "state.json").is_file() else path


def measured_models(record: Mapping[str, Any]) -> list[Values]:
    """The models whose output an evaluation measured: its own inputs, or those of the
    predictions."""
    made_by = [
        source["record"]
        for source in record["inputs"]
        if source["role"] == "predictions" and "record" in source
    ]
    inputs = [*record["inputs"]]
    for maker in made_by:
        inputs += maker["inputs"]
    return [source for source in inputs if source["role"] == "model"]


def chain(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A record and those of its inputs, down to the recipe."""
    yield record
    for source in record["inputs"]:
        if "record" in source:
            yield from chain(source["record"])


# -- figures
# -------------------------------------------------------------------------------------------------


def keep_metrics(
    folder: Path,
    kind: str,
    figures: Mapping[str, Any],
    record: RunRecord,
    note: str | None = None,
    data: str | None = None,
) -> None:
    """Writes FOLDER/metrics.json, and copies the log of the training run that was measured.

    `data`: a description of the data if there is no data set (benchmarks).
    """
    values = record.finish()
    steps = list(chain(values))
    recipes = [step["recipe"]["file"] for step in steps if "recipe" in step]
    summary = {
        "recipe": recipes[0] if recipes else None,
        "commit": values["program"].get("commit"),
        "data": data or "; ".join(map(data_text, values["data"])),
        "device": values["device"],
        "seconds": values["seconds"],
        "recorded": "by the program",
        "note": note,
    }
    write_record(folder / METRICS, {"kind": kind, **summary, **figures, "record": values})
    for model in measured_models(values):
        log = run_folder(Path(model["path"])) / LOG
        if log.is_file():
            shutil.copyfile(log, folder / LOG)


def data_text(data: Mapping[str, Any]) -> str:
    """The data in words, for example "flickr8k_entities, test (1,000 photos)"."""
    split = f", {data['split']}" if data["split"] else ""
    return f"{data['name']}{split}" + (
        f" ({data['images']:,} photos)" if data["images"] is not None else ""
    )


def log_test_look(
    record: RunRecord, kind: str, figures: Mapping[str, Any], kept_in: Path | None
) -> list[str]:
    """One more line in the logs of the models that were measured and of the folder where the
    figures are kept.

    Returns the names of models that have no log: the one in the package, and folders that are gone
    or read-only.
    """
    values = record.values
    models = measured_models(values)
    look = {
        "date": values["started"],
        "kind": kind,
        "command": values["command"],
        "commit": values["program"].get("commit"),
        "data": [data_text(data) for data in values["data"]],
        "models": [model["sha256"] for model in models],
        "figures": {name: value for name, value in figures.items() if _is_headline(value)},
    }
    kept = [model for model in models if _has_log(model)]
    earlier = []
    for folder in dict.fromkeys(run_folder(Path(model["path"])) for model in kept):
        earlier += [former for former in read_looks(folder) if former["kind"] == kind]
        _append_looks(folder, [look])
    if kept_in is not None:
        known = read_looks(kept_in)
        _append_looks(kept_in, [*(former for former in earlier if former not in known), look])
    return [model["path"] for model in models if model not in kept]


def read_looks(folder: Path) -> list[Values]:
    """All logged evaluations on test of a folder, oldest first."""
    path = folder / LOOKS
    return [look for _, look in read_json_lines(path)] if path.is_file() else []


def _append_looks(folder: Path, looks: Sequence[Mapping[str, Any]]) -> None:
    with (folder / LOOKS).open("ab") as file:
        file.write(b"".join(map(json_line, looks)))


def _has_log(model: Mapping[str, Any]) -> bool:
    """Whether the measured model still exists, is writable, and is not one of the package's."""
    path = Path(model["path"])
    if model["path"] == "embedded" or not path.is_dir() or not os.access(run_folder(path), os.W_OK):
        return False
    return bool(fingerprint(path) == model["sha256"])


def _is_headline(value: Any) -> bool:
    """A number, or a small group of numbers."""
    if isinstance(value, dict):
        return len(value) <= LARGEST_GROUP and all(
            isinstance(figure, int | float) for figure in value.values()
        )
    return isinstance(value, int | float)


# -- fingerprints
# --------------------------------------------------------------------------------------------


def fingerprint(path: Path) -> str:
    """SHA-256 of a file, of a model folder's SHA256SUMS, or of such a list of a checkpoint's files
    (but for the optimizer's)."""
    if not path.is_dir():
        return file_fingerprint(path)
    if not (path / "state.json").is_file():
        return file_fingerprint(path / SUMS)
    names = sorted(file.name for file in path.iterdir() if file.stem != "optimizer")
    lines = "".join(f"{file_fingerprint(path / name)}  {name}\n" for name in names)
    return hashlib.sha256(lines.encode()).hexdigest()


def recipe_fingerprint(as_used: Mapping[str, Any]) -> str:
    """SHA-256 of a recipe's canonical JSON."""
    return hashlib.sha256(
        json.dumps(as_used, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def shown(path: Path) -> str:
    """The path as it was given; names for the package's models."""
    return next(
        (
            name
            for name, folder in packaged.own_models().items()
            if path.resolve() == folder.resolve()
        ),
        str(path),
    )


def program() -> Values:
    """Version, and in a git checkout the commit and whether the package's files are as committed;
    if not, the SHA-256 of `git diff HEAD` over them, without files that git does not track."""
    values: Values = {"version": regiontalk.__version__}
    package = Path(regiontalk.__file__).parent
    # A package that is installed inside another repository, for example in its .venv, is not
    # tracked there.
    if git(package, "ls-files", "--error-unmatch", "__init__.py") is not None:
        values["commit"] = git(package, "rev-parse", "--short", "HEAD")
        values["clean"] = git(package, "status", "--porcelain", "--", ".") == ""
        if not values["clean"]:
            changes = git(package, "diff", "HEAD", "--", ".") or ""
            values["diff"] = hashlib.sha256(changes.encode()).hexdigest()
    return values
