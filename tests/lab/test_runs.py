"""Run records: what they say, that they connect, and that looks at test are never forgotten."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import regiontalk
from regiontalk.errors import DataError
from regiontalk.lab import runs
from regiontalk.lab.runs import RunRecord, chain, keep_metrics, log_test_look, read_looks, recording
from regiontalk.models.folder import read_model_folder

RECIPE = {"kind": "fcln", "run": {"steps": 6, "seed": 3}}


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/opt/bin/regiontalk", "predict", "a run", "data"])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "annotations.jsonl").write_text('{"image": "a"}\n\n{"image": "b"}\n')
    return tmp_path


@pytest.fixture
def checkpoint(desk: Path) -> Path:
    """Of a run that recorded itself."""
    folder = desk / "run" / "checkpoints" / "step-00000006"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "optimizer.safetensors").write_bytes(b"memory")
    (desk / "run" / "log.jsonl").write_text('{"step": 6}\n')
    record = RunRecord("train")
    record.uses_recipe(Path("recipes/x.toml"), ["run.steps=6"], RECIPE)
    record.made(folder)
    runs.write_record(desk / "run" / "run.json", record.finish())
    return Path("run/checkpoints/step-00000006")


def predicted(checkpoint: Path) -> Path:
    """Predictions with their record."""
    output = Path("predictions.jsonl")
    with recording("predict", output, boxes="true") as record:
        record.uses("model", checkpoint)
        record.uses_data(Path("data"), "test", 1)
        output.write_text('{"path": "a"}\n')
    return output


def evaluated(predictions: Path, split: str = "test") -> RunRecord:
    record = RunRecord("evaluate dense")
    record.uses("predictions", predictions)
    record.uses_data(Path("data"), split, 1)
    return record


def test_a_record_says_what_was_done(checkpoint: Path) -> None:
    predicted(checkpoint)
    record = json.loads(Path("predictions.run.json").read_text())
    assert record["command"] == "regiontalk predict 'a run' data"
    assert record["settings"] == {"boxes": "true"}
    annotations = hashlib.sha256(Path("data/annotations.jsonl").read_bytes()).hexdigest()
    assert record["data"] == [{"name": "data", "split": "test", "images": 1, "sha256": annotations}]
    assert record["output"] == {
        "path": "predictions.jsonl",
        "sha256": runs.fingerprint(Path("predictions.jsonl")),
    }
    assert record["seconds"] >= 0
    assert record["program"]["version"] == regiontalk.__version__


def test_all_records_of_a_data_set_are_counted_where_no_split_is_taken() -> None:
    record = RunRecord("train")
    record.uses_data(Path("data"))
    assert record.values["data"][0]["images"] == 2


def test_records_connect_from_figure_to_recipe(checkpoint: Path) -> None:
    record = evaluated(predicted(checkpoint))
    keep_metrics(Path("kept"), "dense", {"map": 0.25}, record, "a note")
    kept = json.loads(Path("kept/metrics.json").read_text())
    assert (kept["kind"], kept["map"], kept["note"]) == ("dense", 0.25, "a note")
    assert (kept["recipe"], kept["data"]) == ("recipes/x.toml", "data, test (1 photos)")
    assert [one["verb"] for one in chain(kept["record"])] == ["evaluate dense", "predict", "train"]
    trained = list(chain(kept["record"]))[-1]
    assert trained["recipe"]["overrides"] == ["run.steps=6"]
    assert trained["recipe"]["as_used"] == RECIPE
    assert trained["recipe"]["sha256"] == runs.recipe_fingerprint(RECIPE)
    assert trained["seed"] == 3
    model = kept["record"]["inputs"][0]["record"]["inputs"][0]
    assert model["sha256"] == trained["output"]["sha256"]
    assert Path("kept/log.jsonl").read_text() == '{"step": 6}\n', "the training log comes along"


def test_a_block_that_fails_leaves_no_record() -> None:
    with pytest.raises(RuntimeError), recording("predict", Path("p.jsonl")):
        raise RuntimeError
    assert not Path("p.run.json").exists()


def test_predictions_changed_after_they_were_recorded_are_refused(checkpoint: Path) -> None:
    predictions = predicted(checkpoint)
    predictions.write_text('{"path": "b"}\n')
    with pytest.raises(DataError, match=r"not the file that predictions\.run\.json records"):
        evaluated(predictions)


@pytest.mark.parametrize(
    ("output", "record"),
    [
        ("p.jsonl", "p.run.json"),
        ("p.jsonl.gz", "p.run.json"),
        ("p", "p.run.json"),
        ("data", "data/run.json"),
    ],
)
def test_where_a_record_is(output: str, record: str) -> None:
    assert runs.record_path(Path(output)) == Path(record)


def test_a_checkpoint_is_told_by_what_it_predicts_with(checkpoint: Path) -> None:
    before = runs.fingerprint(checkpoint)
    (checkpoint / "optimizer.safetensors").write_bytes(b"other memory")
    assert runs.fingerprint(checkpoint) == before
    (checkpoint / "model.safetensors").write_bytes(b"other weights")
    assert runs.fingerprint(checkpoint) != before


def test_a_model_folder_keeps_its_record_and_stays_readable(tiny_model: Path, desk: Path) -> None:
    model = desk / "model"
    shutil.copytree(tiny_model, model)
    before = runs.fingerprint(model)
    with recording("fit", model):
        pass
    (model / runs.LOOKS).write_text("")
    assert read_model_folder(model).info.name == "tiny"
    assert runs.fingerprint(model) == before
    assert runs.find_record(model)["output"]["sha256"] == before


def test_a_folder_that_is_no_model_is_named() -> None:
    with pytest.raises(DataError, match="data"):
        RunRecord("predict").uses("model", Path("data"))


def test_the_model_in_the_package_is_called_embedded(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", tiny_model)
    record = RunRecord("predict")
    record.uses("model", tiny_model)
    assert record.values["inputs"][0]["path"] == "embedded"


def look(predictions: Path, figures: dict[str, Any], kept_in: Path | None = None) -> list[str]:
    record = evaluated(predictions)
    if kept_in is not None:
        keep_metrics(kept_in, "dense", figures, record, None)
    return log_test_look(record, "dense", figures, kept_in)


def test_every_look_at_test_is_added_to_the_runs_log(checkpoint: Path) -> None:
    predictions = predicted(checkpoint)
    grid = {str(n): 0.5 for n in range(30)}
    assert look(predictions, {"map": 0.25, "ap": grid, "protocol": "densecap"}) == []
    assert look(predictions, {"map": 0.5}) == []
    first, second = read_looks(Path("run"))
    assert first["figures"] == {"map": 0.25}
    assert (second["figures"], second["kind"], second["data"]) == (
        {"map": 0.5},
        "dense",
        ["data, test (1 photos)"],
    )
    assert second["models"] == [runs.fingerprint(checkpoint)]


def test_the_kept_run_knows_of_earlier_looks_of_its_kind(checkpoint: Path) -> None:
    predictions = predicted(checkpoint)
    look(predictions, {"map": 0.25})
    log_test_look(evaluated(predictions), "grounding", {"accuracy": 0.1}, None)
    look(predictions, {"map": 0.5}, Path("kept"))
    look(predictions, {"map": 0.75}, Path("kept"))
    assert [one["figures"]["map"] for one in read_looks(Path("kept"))] == [0.25, 0.5, 0.75]


def test_a_model_without_a_log_is_named(checkpoint: Path) -> None:
    predictions = predicted(checkpoint)
    (checkpoint / "model.safetensors").write_bytes(b"trained further")
    assert look(predictions, {"map": 0.25}, Path("kept")) == [str(checkpoint)]
    assert not Path("run/test-looks.jsonl").exists()
    assert len(read_looks(Path("kept"))) == 1


def test_a_resumed_run_remembers_its_sittings() -> None:
    record = RunRecord("train")
    for _ in range(2):
        earlier = record.finish()
        record = RunRecord("train")
        record.resumes(earlier)
    assert [one["command"] for one in record.values["earlier"]] == [
        "regiontalk predict 'a run' data"
    ] * 2


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema": "other"}', "[" * 100_000])
def test_what_is_no_record(text: str) -> None:
    Path("p.jsonl").write_text("")
    Path("p.run.json").write_text(text)
    with pytest.raises(DataError, match=r"p\.run\.json: not a run record"):
        RunRecord("evaluate dense").uses("predictions", Path("p.jsonl"))


def git(folder: Path, *arguments: str) -> None:
    own = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True)


def test_commit_and_cleanliness_are_those_of_the_package(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = desk / "clone" / "regiontalk"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(regiontalk, "__file__", str(package / "__init__.py"))
    assert set(runs.program()) == {"version"}
    git(desk / "clone", "init")
    assert set(runs.program()) == {"version"}, "in somebody else's repository, not tracked"
    git(desk / "clone", "add", ".")
    git(desk / "clone", "commit", "-m", "first")
    (desk / "clone" / "output.jsonl").write_text("")
    assert runs.program()["clean"] is True
    assert "diff" not in runs.program()
    (package / "new.py").write_text("")
    changed = runs.program()
    assert (changed["clean"], len(changed["diff"])) == (False, 64)
    assert len(runs.program()["commit"]) >= 7


def test_records_need_no_torch() -> None:
    code = "import sys, regiontalk.lab.runs; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
