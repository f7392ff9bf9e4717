"""The codes that heads read: the whole photo and its best regions, or given boxes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.model import Model
from regiontalk.models.onnx_runtime import OnnxRuntime


@pytest.fixture
def model(tiny_model: Path) -> Model:
    return Model(OnnxRuntime(tiny_model, threads=1))


def test_the_whole_photo_comes_first_then_the_best_regions(
    model: Model, scene: Image.Image
) -> None:
    look = model.look(scene)
    found = model.codes(look)
    assert found.boxes_xyxy[0].tolist() == [0, 0, *scene.size]
    assert np.array_equal(found.boxes_xyxy[1:], look.boxes_xyxy[:BEST_REGIONS])
    assert np.array_equal(found.scores[1:], look.scores[:BEST_REGIONS])
    assert (np.diff(found.scores[1:]) <= 0).all()
    assert found.codes.shape == (
        1 + min(BEST_REGIONS, len(look.regions)),
        128 + 64,
    )  # code and appearance
    assert found.surroundings is None


def test_no_more_than_the_best_regions(model: Model, scene: Image.Image) -> None:
    info = model.runtime.info
    model.runtime.info = replace(info, prediction=replace(info.prediction, final_nms=1.0))

    assert len(model.codes(model.look(scene)).codes) == 1 + BEST_REGIONS


def test_codes_are_those_of_the_boxes_that_were_proposed(model: Model, scene: Image.Image) -> None:
    look = model.look(scene)
    found = model.codes(look).codes
    frame, proposed = look.frame, look.proposed
    whole = model.runtime.recognize(proposed.features, frame.size, frame.whole_xyxy)
    assert found[0, :128] == pytest.approx(whole.codes[0])
    assert found[0, 128:] == pytest.approx(
        model.runtime.pooled_features(proposed.deep, frame.whole_xyxy)[0]
    )
    best = look.regions.proposals_xyxy[:1]
    assert found[1, :128] == pytest.approx(
        model.runtime.recognize(proposed.features, frame.size, best).codes[0], abs=1e-4
    )


def test_a_region_looks_like_the_mean_of_its_cells(model: Model, scene: Image.Image) -> None:
    deep = model.look(scene).proposed.deep
    cell = np.array([[32, 16, 48, 32]], dtype=np.float32)  # the third in the second row
    flat = np.broadcast_to(deep[:, :, 1:2, 2:3], deep.shape).copy()
    assert model.runtime.pooled_features(flat, cell)[0] == pytest.approx(deep[0, :, 1, 2], abs=1e-5)
    own = model.runtime.pooled_features(deep, cell)[0]
    around = deep[0, :, 0:3, 1:4].reshape(deep.shape[1], -1)
    assert (own >= around.min(axis=1) - 1e-5).all()
    assert (own <= around.max(axis=1) + 1e-5).all()


def test_surroundings_of_the_whole_photo_are_itself(model: Model, scene: Image.Image) -> None:
    found = model.codes(model.look(scene), surroundings=True)
    assert found.surroundings is not None
    assert found.surroundings.shape == found.codes.shape
    assert np.array_equal(found.surroundings[0], found.codes[0])
    assert not np.allclose(found.surroundings[1:], found.codes[1:])


def test_of_given_boxes(model: Model, scene: Image.Image) -> None:
    width, height = scene.size
    look = model.look(scene, boxes=[[1, 2, 30, 40], [5, 5, width, height]])
    found = model.codes(look, surroundings=True)
    assert found.boxes_xyxy.tolist() == [
        [0, 0, width, height],
        [1, 2, 30, 40],
        [5, 5, width, height],
    ]
    assert found.surroundings is not None
    assert np.abs(found.codes[1] - found.surroundings[1]).max() > 1e-3
    np.testing.assert_allclose(found.codes[0], model.codes(model.look(scene)).codes[0], atol=1e-4)
    nothing = model.look(scene, boxes=[])
    assert model.codes(nothing).codes.shape == (1, 128 + 64)
    assert model.regions(nothing) == []
