"""The torch form of a runtime: from a checkpoint, a run or a model folder, the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.errors import ModelError
from regiontalk.model import Model
from regiontalk.runtime.torch import TorchRuntime


def test_a_model_folder_says_in_torch_what_it_says_in_onnxruntime(tiny_model: Path, scene: Image.Image) -> None:
    runtime = TorchRuntime(tiny_model)
    found, expected = Model(runtime)(scene), regiontalk.load(tiny_model)(scene)
    assert found.model == expected.model
    assert [region.caption for region in found.regions] == [region.caption for region in expected.regions]
    for one, other in zip(found.regions, expected.regions, strict=True):
        np.testing.assert_allclose(one.xyxy, other.xyxy, atol=0.01)
        assert one.score == pytest.approx(other.score, abs=1e-5)
    with pytest.raises(ModelError, match="no head 'words'"):
        runtime.head("words")


def test_a_run_is_its_best_checkpoint(untrained_run: Path, tmp_path: Path) -> None:
    assert TorchRuntime(untrained_run / "run").info.name == "step-00000000"
    with pytest.raises(ModelError, match="no checkpoint here"):
        TorchRuntime(tmp_path)
