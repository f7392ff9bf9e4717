"""Which runtime a model runs in, by its place and the device."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regiontalk.cli.main import run
from regiontalk.cli.options import load_model
from regiontalk.lab.training import processes
from regiontalk.models.loading import is_run
from regiontalk.models.onnx_runtime import OnnxRuntime
from regiontalk.models.torch_runtime import TorchRuntime


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)


@pytest.fixture
def cpu_for_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of `--device cuda` on a machine without a GPU."""
    monkeypatch.setattr(processes, "pick_device", lambda _: torch.device("cpu"))


def test_a_run_a_checkpoint_and_what_is_neither(
    untrained_run: Path, shaken_checkpoint: Path, tiny_model: Path
) -> None:
    assert is_run(untrained_run / "run")
    assert is_run(untrained_run / "run" / "checkpoints")
    assert is_run(shaken_checkpoint)
    assert not any(map(is_run, (tiny_model, untrained_run / "data", untrained_run / "nowhere")))


@pytest.mark.usefixtures("no_gpu")
def test_a_model_folder_runs_without_torch_and_a_run_in_it(
    tiny_model: Path, untrained_run: Path
) -> None:
    for device in ("auto", "cpu"):
        assert isinstance(load_model(tiny_model, device).runtime, OnnxRuntime)
        assert isinstance(load_model(untrained_run / "run", device).runtime, TorchRuntime)
    assert load_model(tiny_model, "cpu", megapixels=3.0).limits.megapixels == 3.0


@pytest.mark.usefixtures("cpu_for_cuda")
def test_heads_answer_on_another_device(
    speaking_model: Path, aligning_model: Path, scene_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answers(*arguments: str) -> list[dict[str, Any]]:
        found = []
        for device in ("cpu", "cuda"):
            assert run([*arguments, "--device", device, "--json"]) == 0
            found.append(json.loads(capsys.readouterr().out))
        return found

    ours, theirs = answers("describe", str(scene_path), "--model", str(speaking_model))
    assert ours["sentence"] == theirs["sentence"]
    ours, theirs = answers("align", str(scene_path), "a red square", "--model", str(aligning_model))
    assert [one["words"] for one in ours["segments"]] == [
        one["words"] for one in theirs["segments"]
    ]


@pytest.mark.parametrize("verb", [["caption"], ["describe"], ["align"]])
@pytest.mark.usefixtures("no_gpu")
def test_no_gpu_and_no_torch_are_said(
    verb: list[str],
    scene_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = [*verb, str(scene_path), *(["red"] if verb == ["align"] else []), "--device", "cuda"]
    assert run(asked) == 2
    assert "no CUDA device here" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(asked) == 7
    assert "regiontalk[train]" in capsys.readouterr().err


@pytest.mark.usefixtures("no_gpu")
def test_heads_of_runs_answer_beside_a_run(
    shaken_checkpoint: Path,
    sentences_run: Path,
    alignment_run: Path,
    speaking_model: Path,
    scene_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place, heads = str(shaken_checkpoint), [str(sentences_run / "run"), str(alignment_run)]
    said = []
    for arguments in (
        ["--model", place, "--head", heads[0], "--head", heads[1]],
        ["--model", str(speaking_model)],
    ):
        assert run(["describe", str(scene_path), *arguments, "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out)["sentence"])
    assert said[0] == said[1]
    assert (
        run(
            [
                "align",
                str(scene_path),
                "a red square",
                "--model",
                place,
                "--head",
                heads[1],
                "--json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["segments"]
