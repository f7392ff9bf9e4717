"""Training as people do it: in processes of its own, killed, told to stop, shared, and to the end
of a recipe."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from regiontalk import boxes
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.drawn import draw_scene
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.training.checkpoints import latest_checkpoint, read_state, read_tensors
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.model import Model
from regiontalk.models.torch_loading import open_torch_runtime

TINY = Path(__file__).parents[2] / "recipes" / "tiny.toml"
PROGRAM = str(Path(sys.executable).with_name("regiontalk"))
POSIX = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


def arguments(folder: Path, changes: Sequence[str], *more: str) -> list[str]:
    parts = [part for change in changes for part in ("--set", change)]
    return ["train", str(TINY), "-o", str(folder), "--device", "cpu", *parts, *more]


def run_to_the_end(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr


def logged_steps(folder: Path) -> list[int]:
    """The steps whose losses are in the log; the last line may be half written."""
    path = folder / "log.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [entry["step"] for entry in map(json.loads, lines) if "caption" in entry]


def stop_at(folder: Path, changes: Sequence[str], step: int, number: int, delay: float) -> int:
    """Starts or resumes a run, and sends it (and its workers) a signal some time after a step; the
    exit code."""
    process = subprocess.Popen(
        [PROGRAM, *arguments(folder, changes, "--resume", "-q")],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while (logged_steps(folder) or [0])[-1] < step:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(delay)
    finally:
        os.killpg(process.pid, number)
    return process.wait(60)


def weights_of(checkpoint: Path) -> dict[str, bytes]:
    """Weights, their running mean, and the optimisers' memory, byte by byte."""
    return {path.name: path.read_bytes() for path in checkpoint.glob("*.safetensors")}


@POSIX
def test_killed_again_and_again_a_run_ends_in_the_same_weights(quick_changes, tmp_path):
    """SIGKILL at random moments, SIGTERM and Ctrl-C between: bit for bit the run that was never
    stopped."""
    changes = (
        *quick_changes,
        *(
            "run.steps=150",
            "run.checkpoint_every=3",
            "run.evaluate_every=1000",
            "run.workers=1",
            "run.keep=1",
        ),
        *("net.recognition.dropout=0.5", "augmentation.flip=0.5", "augmentation.zoom=1.2"),
    )
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run_to_the_end([PROGRAM, *arguments(whole, changes, "-q")])
    dice = random.Random(7)
    for round_number, number in enumerate(
        (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
    ):
        at = 12 * (round_number + 1) + dice.randrange(8)
        code = stop_at(stopped, changes, at, number, delay=dice.uniform(0, 0.02))
        newest = latest_checkpoint(stopped / "checkpoints")
        assert newest is not None
        if number == signal.SIGKILL:
            assert code == -signal.SIGKILL
        else:
            assert code == 130
            assert read_state(newest)["step"] == logged_steps(stopped)[-1]  # no step was lost
    run_to_the_end([PROGRAM, *arguments(stopped, changes, "-q", "--resume")])
    last, expected = (run / "checkpoints" / "step-00000150" for run in (stopped, whole))
    assert len(weights_of(expected)) == 3
    assert weights_of(last) == weights_of(expected)
    assert read_state(last) == read_state(expected)
    assert logged_steps(stopped) == logged_steps(whole) == list(range(1, 151))
    left = {path.name for path in (stopped / "checkpoints").iterdir()}
    assert left == {"step-00000150"}


def write_squares(folder: Path) -> None:
    """Scenes of one shape, so that a share of a batch is padded as the whole batch is."""
    folder.mkdir()
    generator = np.random.default_rng(3)
    lines = []
    for number in range(8):
        picture, regions = draw_scene(generator, 64, 64, 3)
        picture.save(folder / f"{number}.png")
        record = {
            "image": f"{number}.png",
            "width": 64,
            "height": 64,
            "regions": [r.to_dict() for r in regions],
        }
        lines.append(json.dumps(record) + "\n")
    (folder / "annotations.jsonl").write_text("".join(lines))


def test_two_processes_learn_what_one_learns(quick_changes, quick_recipe, tmp_path):
    """`torchrun` with gloo; stopped after a step and resumed by one process, which works through
    two parts; and after another step by two again; against one process with whole batches."""
    write_squares(tmp_path / "squares")
    changes = (
        *quick_changes,
        *(
            f"data.0.path={tmp_path / 'squares'}",
            "run.batch=4",
            "run.steps=3",
            "run.checkpoint_every=1",
        ),
        # plain descent, the gradient as it is: Adam's first steps would be its signs
        *(
            "optimizer.kind=sgd",
            "backbone_optimizer.kind=sgd",
            "optimizer.rate=0.05",
            "backbone_optimizer.rate=0.05",
        ),
        "schedule.clip_norm=1000.0",
    )
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    run_to_the_end([PROGRAM, *arguments(alone, changes, "-q")])
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "--no-python",
    ]
    run_to_the_end([*torchrun, PROGRAM, *arguments(shared, changes, "-q", "--minutes", "0")])
    assert latest_checkpoint(shared / "checkpoints") == shared / "checkpoints" / "step-00000001"
    parts = (*changes, "run.accumulate=2")
    run_to_the_end([PROGRAM, *arguments(shared, parts, "-q", "--resume", "--minutes", "0")])
    assert latest_checkpoint(shared / "checkpoints") == shared / "checkpoints" / "step-00000002"
    run_to_the_end([*torchrun, PROGRAM, *arguments(shared, parts, "-q", "--resume")])
    found, expected = (
        read_tensors(run / "checkpoints" / "step-00000003", "model") for run in (shared, alone)
    )
    first = FCLNTask.begin(quick_recipe(*changes)).net.state_dict()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)
        if name.endswith("weight"):
            assert not torch.equal(found[name], first[name]), f"{name} has not moved"
    assert logged_steps(shared) == [1, 2, 3]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny recipe from start to end, as its first lines say to run it."""
    desk = tmp_path_factory.mktemp("tiny")
    lines = [line.removeprefix("#").split() for line in TINY.read_text().splitlines()[:8]]
    commands = [words[1:] for words in lines if words[:1] == ["regiontalk"]]
    assert [command[0] for command in commands] == ["data", "train"]
    for command in commands:
        words = [str(TINY) if word == "recipes/tiny.toml" else word for word in command]
        done = subprocess.run(
            [PROGRAM, *words], cwd=desk, capture_output=True, text=True, check=False, timeout=280
        )
        assert done.returncode == 0, done.stderr
    return desk


@pytest.mark.slow
def test_tiny_learns_its_scenes_by_heart(learned):
    """Every caption right, every box at IoU > 0.9, and nothing ranked before them."""
    checkpoint = latest_checkpoint(learned / "runs" / "tiny" / "checkpoints")
    dataset = Dataset(learned / "data" / "drawn", "train")
    asked = DatasetModel(Model(open_torch_runtime(checkpoint)), dataset)
    found = {photo.path: photo for photo in asked.each(asked.regions)}
    assert len(dataset) == len(found) == 8
    for record in dataset:
        best = found[record.image].regions[: len(record.regions)]
        overlap = boxes.iou(
            [truth.xyxy for truth in record.regions], [region.xyxy for region in best]
        )
        partners = overlap.argmax(axis=1)
        assert sorted(partners) == list(range(len(best))), record.image
        for truth, partner in zip(record.regions, partners, strict=True):
            assert best[partner].caption == truth.phrase
            assert boxes.iou([truth.xyxy], [best[partner].xyxy])[0, 0] > 0.9


@pytest.mark.slow
def test_tiny_leaves_log_curves_and_pictures(learned):
    run = learned / "runs" / "tiny"
    steps = json.loads((run / "run.json").read_text())["recipe"]["as_used"]["run"]["steps"]
    entries = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    captions = [entry["caption"] for entry in entries if "caption" in entry]
    assert captions[-1] < 0.1 * captions[0]
    assert entries[-1]["step"] == steps
    assert set(entries[-1]["dev"]) >= {"dense_map", "recall_50"}
    assert list((run / "tensorboard").glob("events.*"))
    assert (run / "pictures" / f"step-{steps:08d}.jpg").stat().st_size > 10_000
    assert (run / "checkpoints" / f"step-{steps:08d}" / "ema.safetensors").is_file()
