"""A run, a checkpoint or a model folder as a runtime in torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import regiontalk
from regiontalk.errors import ModelError
from regiontalk.export.torch_runtime import open_torch_runtime
from regiontalk.model import Model


def test_a_run_is_its_best_checkpoint(untrained_run: Path, tmp_path: Path) -> None:
    assert open_torch_runtime(untrained_run / "run").info.name == "step-00000000"
    with pytest.raises(ModelError, match="no checkpoint here"):
        open_torch_runtime(tmp_path)


def test_a_model_folder_keeps_its_name_settings_and_heads(
    speaking_model: Path, aligning_model: Path, scene: Image.Image
) -> None:
    runtime = open_torch_runtime(speaking_model)
    assert runtime.info == regiontalk.load(speaking_model).runtime.info
    said, expected = Model(runtime).describe(scene), regiontalk.load(speaking_model).describe(scene)
    assert said.sentence == expected.sentence
    assert said.logprob == pytest.approx(expected.logprob, abs=1e-3)
    ours, theirs = (
        model.align(scene, "a red square")
        for model in (Model(open_torch_runtime(aligning_model)), regiontalk.load(aligning_model))
    )
    assert [segment.words for segment in ours.segments] == [segment.words for segment in theirs.segments]
    for one, other in zip(ours.segments, theirs.segments, strict=True):
        assert one.xyxy == pytest.approx(other.xyxy, abs=0.01)
        assert one.score == pytest.approx(other.score, abs=1e-3)
