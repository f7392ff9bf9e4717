"""Checkpoints: whole or not at all, and one clear line for everything that may be wrong with
one."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from regiontalk.errors import ModelError, OutputError
from regiontalk.lab.training import checkpoints
from regiontalk.lab.training.checkpoints import (
    best_checkpoints,
    drop_old,
    fill_net,
    find_checkpoint,
    latest_checkpoint,
    load_alignment,
    load_fcln,
    load_sentence_net,
    optimizer_tensors,
    read_state,
    read_tensors,
    restore_optimizers,
    save_checkpoint,
)
from regiontalk.lab.training.optimizers import build_optimizer
from regiontalk.lab.training.recipe.shared import OptimizerConfig

STATE = {"kind": "fcln", "best": []}


def save(folder: Path, step: int, value: float = 1.0, **state: Any) -> Path:
    tensors = {"model": {"w": torch.full((2, 2), value)}, "optimizer": {"m": torch.zeros(3)}}
    return save_checkpoint(folder, step, tensors, {**STATE, **state})


def test_there_and_back(tmp_path):
    weights = {
        "a": torch.randn(3, 4),
        "b": torch.arange(5),
        "c": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }
    place = save_checkpoint(tmp_path, 12, {"model": weights}, {**STATE, "more": {"x": 0.1}})
    assert place == tmp_path / "step-00000012" == latest_checkpoint(tmp_path)
    back = read_tensors(place, "model")
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    assert read_state(place) == {"format": 2, "step": 12, **STATE, "more": {"x": 0.1}}
    assert sorted(path.name for path in place.iterdir()) == ["model.safetensors", "state.json"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), SafetensorError("no space left")]
)
@pytest.mark.parametrize("files_written", [0, 1])
def test_a_failed_save_leaves_the_older_one_and_nothing_else(
    error, files_written, tmp_path, monkeypatch
):
    save(tmp_path, 1, 1.0)
    original, calls = checkpoints.save_file, []

    def failing(values: Any, path: Any) -> None:
        calls.append(path)
        if len(calls) > files_written:
            raise error
        original(values, path)

    monkeypatch.setattr(checkpoints, "save_file", failing)
    for step in (1, 2):  # over the older one, and beside it
        calls.clear()
        with pytest.raises(OutputError) as caught:
            save(tmp_path, step, 2.0)
        assert f"step-0000000{step}" in caught.value.message
        assert "space" in caught.value.message.lower()
        assert "\n" not in caught.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert read_tensors(tmp_path / "step-00000001", "model")["w"][0, 0] == 1.0


@pytest.mark.skipif(os.name == "nt", reason="needs limits of POSIX")
def test_a_disk_that_is_really_full(tmp_path):
    """A limit on file size takes the place of a full disk: the write itself fails, in a process of
    its own."""
    import subprocess
    import sys

    program = (
        "import resource, sys, torch; from pathlib import Path\n"
        "from regiontalk.lab.training.checkpoints import save_checkpoint\n"
        "from regiontalk.errors import OutputError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "try: save_checkpoint(Path(sys.argv[1]), 2, {'model': {'w': torch.zeros(1 << 20)}}, {})\n"
        "except OutputError as error: print(error.message); sys.exit(error.exit_code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5, done.stderr
    assert "cannot be written" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_same_step_again_replaces_it(tmp_path):
    save(tmp_path, 1, 1.0)
    save(tmp_path, 1, 2.0)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert read_tensors(tmp_path / "step-00000001", "model")["w"][0, 0] == 2.0


def test_only_the_newest_and_the_best_are_kept(tmp_path):
    for step in (5, 50, 500, 5000):
        save(tmp_path, step)
    drop_old(tmp_path, 2, [tmp_path / "step-00000005"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-00000005",
        "step-00000500",
        "step-00005000",
    ]
    drop_old(tmp_path, 1, [])
    assert [path.name for path in tmp_path.iterdir()] == ["step-00005000"]


def test_newest_of_none(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "none") is None


class TestFind:
    def test_a_checkpoint_is_itself(self, tmp_path):
        place = save(tmp_path, 3)
        assert find_checkpoint(place) == place

    def test_of_a_run_the_best_one(self, tmp_path):
        best = save(tmp_path / "checkpoints", 3)
        save(tmp_path / "checkpoints", 9, best=[{"step": 3, "value": 0.5}])
        assert find_checkpoint(tmp_path) == best
        assert find_checkpoint(tmp_path / "checkpoints") == best

    def test_of_several_best_ones_those_that_are_there(self, tmp_path):
        best = [{"step": step, "value": 0.5} for step in (9, 3, 5)]
        places = [save(tmp_path / "checkpoints", step) for step in (3, 9)]
        save(tmp_path / "checkpoints", 12, best=best)
        assert best_checkpoints(tmp_path) == places[::-1]
        assert best_checkpoints(places[0]) == [places[0]]

    def test_without_evaluation_the_newest(self, tmp_path):
        save(tmp_path / "checkpoints", 3)
        newest = save(tmp_path / "checkpoints", 9)
        assert find_checkpoint(tmp_path) == newest
        save(
            tmp_path / "checkpoints", 12, best=[{"step": 7, "value": 0.5}]
        )  # which someone has deleted
        assert find_checkpoint(tmp_path).name == "step-00000012"

    def test_nothing_there(self, tmp_path):
        with pytest.raises(ModelError, match="no checkpoint here"):
            find_checkpoint(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', "3"])
def test_a_broken_state_is_named(text, tmp_path):
    place = save(tmp_path, 1)
    (place / "state.json").write_text(text)
    with pytest.raises(ModelError, match="not a checkpoint") as caught:
        read_state(place)
    assert str(place) in caught.value.message


def test_another_format_is_refused(tmp_path):
    place = save(tmp_path, 1)
    state = json.loads((place / "state.json").read_text()) | {"format": 1}
    (place / "state.json").write_text(json.dumps(state))
    with pytest.raises(ModelError, match="format 1"):
        read_state(place)


@pytest.mark.parametrize("content", [b"", b"rubbish", None])
def test_broken_weights_are_named(content, tmp_path):
    place = save(tmp_path, 1)
    file = place / "model.safetensors"
    if content is None:
        file.write_bytes(file.read_bytes()[:-3])  # cut short
    else:
        file.write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read") as caught:
        read_tensors(place, "model")
    assert "model.safetensors" in caught.value.message
    assert caught.value.exit_code == 6


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(ModelError, match=r"ema\.safetensors"):
        read_tensors(save(tmp_path, 1), "ema")


LOADERS = {"fcln": load_fcln, "alignment": load_alignment, "sentences": load_sentence_net}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_net_is_loaded_from_its_kind_of_checkpoint_alone(kind, tmp_path):
    with pytest.raises(ModelError, match=f"kind 'brnn', not {kind}"):
        LOADERS[kind](save(tmp_path, 1, kind="brnn"))
    with pytest.raises(ModelError, match=r"state\.json lacks recipe"):
        LOADERS[kind](save(tmp_path, 1, kind=kind))
    with pytest.raises(ModelError, match="not a checkpoint"):
        LOADERS[kind](tmp_path)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (nn.Linear(3, 5), "0 missing, 0 unknown, 2 of another shape"),
        (nn.Linear(3, 4, bias=False), "1 missing, 0 unknown, 0 of another shape"),
        (nn.Sequential(nn.Linear(3, 4)), "2 missing, 2 unknown, 0 of another shape"),
    ],
)
def test_weights_of_another_architecture(other, counts, tmp_path):
    net = nn.Linear(3, 4)
    before = net.weight.detach().clone()
    with pytest.raises(ModelError, match="another architecture") as caught:
        fill_net(net, other.state_dict(), tmp_path)
    assert counts in caught.value.message
    assert "\n" not in caught.value.message
    assert torch.equal(net.weight, before)


def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        optimizer.zero_grad()
        net(
            torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
        ).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw", "rmsprop"])
def test_an_optimizer_resumes_bit_for_bit(kind, tmp_path):
    config = OptimizerConfig(kind, 0.05, weight_decay=0.01)
    torch.manual_seed(0)
    net, copy, stranger = (nn.Linear(3, 2) for _ in range(3))
    optimizer, other = (
        build_optimizer(which.named_parameters(), config) for which in (net, stranger)
    )
    train(net, optimizer, range(3))
    train(stranger, other, range(5))
    moments, numbers = optimizer_tensors({"rest": optimizer, "backbone": other})
    tensors = {"model": net.state_dict(), "optimizer": moments}
    place = save_checkpoint(tmp_path, 3, tensors, {**STATE, "optimizer": numbers})
    copy.load_state_dict(read_tensors(place, "model"))
    restored = build_optimizer(copy.named_parameters(), config)
    restore_optimizers(
        {"rest": restored}, read_tensors(place, "optimizer"), read_state(place)["optimizer"]
    )
    train(net, optimizer, range(3, 6))
    train(copy, restored, range(3, 6))
    assert torch.equal(net.weight, copy.weight)
    assert torch.equal(net.bias, copy.bias)


def test_an_optimizer_without_a_step_has_no_state(tmp_path):
    optimizer = build_optimizer(nn.Linear(3, 2).named_parameters(), OptimizerConfig("adam"))
    assert optimizer_tensors({"rest": optimizer}) == ({}, {})
    restore_optimizers({"rest": optimizer}, {}, {})
