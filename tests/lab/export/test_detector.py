"""Export: what a model folder says of its model, and what smaller storage costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from regiontalk.errors import ModelError, UsageError
from regiontalk.lab.export import detector
from regiontalk.lab.export.detector import export_model, export_student
from regiontalk.lab.export.graphs import LINEAR
from regiontalk.lab.training.checkpoints import load_fcln, save_checkpoint
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.models import packaged
from regiontalk.models.folder import detector_fingerprint, read_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime
from regiontalk.models.torch_loading import open_torch_runtime


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def test_the_folder_describes_its_model(shaken_checkpoint: Path, tiny_model: Path) -> None:
    trained = load_fcln(shaken_checkpoint)
    net, words, recipe = trained.net, trained.words, trained.recipe
    model = read_model_folder(tiny_model)
    assert model.words == words
    assert (model.info.name, model.info.precision, model.info.training) == (
        "tiny",
        "float32",
        {"step": 7},
    )
    assert (model.info.input_size, model.info.pad_to) == (net.config.input_size, net.pad_to)
    assert dataclasses.asdict(model.info.prediction) == dataclasses.asdict(recipe.prediction)
    assert model.info.net["backbone"] == "tiny"


def test_smaller_storage_is_smaller_and_says_nearly_the_same(
    shaken_checkpoint: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = read_model_folder(tiny_model).graphs
    monkeypatch.setattr(
        detector, "trace", lambda _: {name: onnx.load_from_string(graphs[name]) for name in graphs}
    )
    export_model(shaken_checkpoint, tmp_path / "half", "half", "float16")
    export_model(shaken_checkpoint, tmp_path / "stored", "stored", "int8-stored")
    export_model(shaken_checkpoint, tmp_path / "integers", "integers", "int8")
    assert size_of(tmp_path / "half") < 0.6 * size_of(tiny_model)
    assert size_of(tmp_path / "stored") < 0.8 * size_of(tmp_path / "half")
    assert size_of(tmp_path / "integers") < 0.8 * size_of(tmp_path / "half")
    layers = {
        node.input[1]: node.op_type
        for node in onnx.load(tmp_path / "integers" / "recognize.onnx").graph.node
        if node.op_type in ("Gemm", LINEAR)
    }
    assert layers["net.recognition.first.weight.stored"] == LINEAR
    assert layers["net.recognition.score.weight"] == "Gemm", (
        "scores and boxes need more than 8 bits"
    )
    whole = open_torch_runtime(shaken_checkpoint)
    image = np.random.default_rng(0).uniform(0, 255, (1, 3, 96, 64)).astype(np.float32)
    expected = whole.propose(image, (60, 90))
    for name, tolerance in (("half", 0.02), ("stored", 0.1), ("integers", 0.2)):
        small = OnnxRuntime(tmp_path / name, threads=1)
        found = small.propose(image, (60, 90))
        assert np.abs(found.logits - expected.logits).max() < tolerance * expected.logits.std()
        read = (
            runtime.recognize(proposed.features, (60, 90), expected.boxes_xyxy[:40])
            for runtime, proposed in ((small, found), (whole, expected))
        )
        codes, own = (each.codes for each in read)
        assert np.abs(codes - own).max() < tolerance * own.std()


def test_nothing_is_done_where_the_folder_is_there(shaken_checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already exists"):
        export_model(shaken_checkpoint, tmp_path, "name")


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="not a checkpoint"):
        export_model(tmp_path / "nowhere", tmp_path / "out", "name")
    assert list(tmp_path.iterdir()) == []


class TestStudent:
    @pytest.fixture
    def student(self, quick_recipe: Callable[..., Any], tiny_model: Path, tmp_path: Path) -> Path:
        task = FCLNTask.begin(quick_recipe(f"teacher={tiny_model}"))
        state = {"best": [], "optimizer": {}, **task.description()}
        return save_checkpoint(tmp_path / "run", 3, {"model": task.net.state_dict()}, state)

    def test_all_but_its_backbone_is_the_teachers(
        self, student: Path, tiny_model: Path, tmp_path: Path
    ) -> None:
        export_student(student, tmp_path / "fast", "fast", tiny_model)
        own, teacher = read_model_folder(tmp_path / "fast"), read_model_folder(tiny_model)
        assert {name for name in own.graphs if own.graphs[name] != teacher.graphs[name]} == {
            "propose"
        }
        assert own.info.training == {"step": 3, "teacher": "tiny"}
        whole, exported = open_torch_runtime(student), OnnxRuntime(tmp_path / "fast", threads=1)
        image = np.random.default_rng(0).uniform(0, 255, (1, 3, 96, 64)).astype(np.float32)
        expected, found = whole.propose(image, (60, 90)), exported.propose(image, (60, 90))
        np.testing.assert_allclose(found.logits, expected.logits, atol=1e-4 * expected.logits.std())

    def test_it_takes_the_heads_along(
        self, student: Path, tmp_path: Path, aligning_model: Path
    ) -> None:
        export_student(student, tmp_path / "fast", "fast", aligning_model)
        own, teacher = read_model_folder(tmp_path / "fast"), read_model_folder(aligning_model)
        assert own.heads["words"].graphs == teacher.heads["words"].graphs
        assert own.heads["words"].info.detector == detector_fingerprint(own.graphs)

    def test_other_checkpoints_and_other_teachers_are_refused(
        self, student: Path, shaken_checkpoint: Path, tiny_model: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(UsageError, match="names no teacher"):
            export_student(shaken_checkpoint, tmp_path / "fast", "fast", tiny_model)
        with pytest.raises(UsageError, match="not the student's teacher"):
            export_student(student, tmp_path / "fast", "fast", packaged.EMBEDDED)
        assert not (tmp_path / "fast").exists()
