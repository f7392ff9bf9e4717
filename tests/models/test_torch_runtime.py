"""A network in torch as a runtime: its graphs, its NMS, and the heads of a model folder beside
it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regiontalk import boxes
from regiontalk.errors import ModelError
from regiontalk.lab.training.checkpoints import load_fcln
from regiontalk.models.folder import GRAPHS
from regiontalk.models.onnx_runtime import OnnxRuntime
from regiontalk.models.torch_runtime import STAGES, TorchRuntime, model_info


@pytest.fixture(scope="module")
def runtime(shaken_checkpoint: Path) -> TorchRuntime:
    trained = load_fcln(shaken_checkpoint)
    net, words, recipe = trained.net, trained.words, trained.recipe
    return TorchRuntime(net, words, model_info(net, recipe.prediction, "shaken", "float32", {}))


def test_there_is_a_module_for_every_graph(runtime: TorchRuntime) -> None:
    assert list(STAGES) == list(GRAPHS)
    with pytest.raises(ModelError, match="no head 'words'"):
        runtime.head("words")


def test_graphs_give_what_they_give_in_onnxruntime(runtime: TorchRuntime, tiny_model: Path) -> None:
    image = np.random.default_rng(0).uniform(0, 255, (1, 3, 64, 96)).astype(np.float32)
    other = OnnxRuntime(tiny_model, threads=1)
    ours, theirs = (one.propose(image, (90, 50)) for one in (runtime, other))
    np.testing.assert_allclose(ours.boxes_xyxy, theirs.boxes_xyxy, atol=1e-3)
    chosen = ours.boxes_xyxy[:5]
    ours_seen, theirs_seen = (
        one.recognize(proposed.features, (90, 50), chosen)
        for one, proposed in ((runtime, ours), (other, theirs))
    )
    np.testing.assert_allclose(ours_seen.codes, theirs_seen.codes, atol=1e-3)
    np.testing.assert_allclose(
        runtime.pooled_features(ours.deep, chosen),
        other.pooled_features(theirs.deep, chosen),
        atol=1e-3,
    )
    tokens = np.full(5, runtime.words.start(), dtype=np.int64)
    said, heard = (
        one.step(tokens, seen.state)[0]
        for one, seen in ((runtime, ours_seen), (other, theirs_seen))
    )
    np.testing.assert_allclose(said, heard, atol=1e-3)


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
        ),
    ],
)
def test_nms_is_that_of_boxes(
    runtime: TorchRuntime, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "device", torch.device(device))
    corners = np.random.default_rng(1).uniform(0, 80, (400, 2))
    sides = np.random.default_rng(2).uniform(5, 40, (400, 2))
    ranked = np.concatenate([corners, corners + sides], axis=1).astype(np.float32)
    for threshold, limit in ((0.7, 30), (0.3, 500)):
        expected = boxes.nms(ranked, -np.arange(400.0), threshold, limit)
        assert np.array_equal(runtime.nms(ranked, threshold, limit), expected)
