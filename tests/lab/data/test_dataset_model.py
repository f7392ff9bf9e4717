"""A model asked about a data set: in the records' pixels, on the true boxes, errors named."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.images.limits import Limits
from regiontalk.images.photo import Photo
from regiontalk.lab.data.dataset_model import DatasetModel, in_record
from regiontalk.lab.data.merged_truth import true_boxes
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.data.region_files import ScoredBoxes
from regiontalk.lab.export.detector import export_model
from regiontalk.lab.training.checkpoints import find_checkpoint
from regiontalk.model import Model
from regiontalk.models.torch_loading import open_torch_runtime
from regiontalk.results import ImageRegions, Region


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Model:
    return regiontalk.load(tiny_model, threads=1)


@pytest.fixture
def asked(model: Model, untrained_run: Path) -> DatasetModel:
    return DatasetModel(model, Dataset(untrained_run / "data", "dev"))


def test_boxes_come_back_in_the_records_pixels(asked: DatasetModel) -> None:
    record = asked.dataset[0]
    found = ImageRegions("", 200, 50, "m", (Region((20.0, 10.0, 40.0, 50.0), 0.5, "a dog", -1.0),))
    (region,) = in_record(found, replace(record, width=100, height=100)).regions
    assert region == Region((10.0, 20.0, 20.0, 100.0), 0.5, "a dog", -1.0)


def test_true_boxes_go_into_the_photos_pixels_and_back(asked: DatasetModel, tmp_path: Path) -> None:
    """A record of twice the photo's size asks for the same places."""
    record = asked.dataset[0]
    twice = json.loads(json.dumps(record.to_dict()))
    twice |= {"width": 2 * record.width, "height": 2 * record.height}
    for region in twice["regions"]:
        region["xyxy"] = [2 * side for side in region["xyxy"]]
    (tmp_path / "annotations.jsonl").write_text(json.dumps(twice))
    assert record.shard is not None
    shutil.copy(asked.dataset.folder / record.shard, tmp_path)
    larger = DatasetModel(asked.model, Dataset(tmp_path))
    own, other = asked.true_regions(record), larger.true_regions(larger.dataset[0])
    assert [region.caption for region in own.regions] == [
        region.caption for region in other.regions
    ]
    assert sorted(region.xyxy for region in own.regions) == sorted(
        map(tuple, true_boxes(record).tolist())
    )
    np.testing.assert_allclose(
        [region.xyxy for region in other.regions],
        2 * np.array([region.xyxy for region in own.regions]),
    )


def test_photos_are_shrunk_before_the_model_sees_them(asked: DatasetModel) -> None:
    """Boxes stay those of the record; a photo that is small enough is not touched."""
    record = asked.dataset[0]
    longest = max(record.width, record.height)
    small = replace(asked, longest_side=longest // 2)
    with small.open(record) as photo:
        assert max(Photo.of(photo, Limits()).size) == longest // 2
    boxes = true_boxes(record)
    assert np.abs(asked.codes_at(record, boxes) - small.codes_at(record, boxes)).max() > 0
    found = [region.xyxy for region in small.captions(record, boxes).regions]
    np.testing.assert_allclose(found, boxes, atol=0.01)
    same = replace(asked, longest_side=longest)
    np.testing.assert_array_equal(asked.codes_at(record, boxes), same.codes_at(record, boxes))


def test_workers_change_nothing(asked: DatasetModel) -> None:
    alone, together = (list(asked.each(asked.regions, workers=workers)) for workers in (1, 3))
    assert [photo.path for photo in alone] == [record.image for record in asked.dataset]
    assert together == alone
    assert list(asked.each(asked.regions, [2, 0])) == [alone[2], alone[0]]


def test_a_broken_photo_is_named(model: Model, tmp_path: Path, scene: Image.Image) -> None:
    (tmp_path / "annotations.jsonl").write_text('{"image": "broken.png", "width": 9, "height": 9}')
    (tmp_path / "broken.png").write_bytes(b"no photo")
    asked = DatasetModel(model, Dataset(tmp_path))
    with pytest.raises(DataError, match=r"broken\.png"):
        asked.regions(asked.dataset[0])


@pytest.fixture(scope="module")
def region_rnn(quick_recipe: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a net that looks at crops and has learned nothing."""
    import torch

    from regiontalk.lab.training.detector.task import FCLNTask
    from regiontalk.lab.training.engine import Engine

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    changes = (
        "net.localize=false",
        "net.crops=32",
        "prediction.score=proposal",
        "prediction.caption_weight=1.0",
    )
    folder = tmp_path_factory.mktemp("crops") / "run"
    Engine(FCLNTask.begin(quick_recipe(*changes)), folder, torch.device("cpu"), Nobody()).save()
    return folder


def test_a_net_without_proposals_takes_regions_and_scores_from_elsewhere(
    region_rnn: Path, scenes: Path
) -> None:
    asked = DatasetModel(Model(open_torch_runtime(region_rnn)), Dataset(scenes, "dev"))
    record = asked.dataset[0]
    boxes = np.array([[2.0, 2.0, 20.0, 20.0], [30.0, 2.0, 50.0, 20.0], [30.0, 3.0, 50.0, 20.0]])
    scores = np.array([0.2, 0.4, 0.8])
    found = asked.regions_among(record, lambda *_: ScoredBoxes(boxes, scores))
    np.testing.assert_allclose([region.xyxy for region in found.regions], boxes[[2, 0]], atol=1e-3)
    for region, score in zip(found.regions, scores[[2, 0]], strict=True):
        words = len(region.caption.split())
        means = [
            score * np.exp(region.logprob / count) for count in (words, words + 1)
        ]  # without END, and with it
        assert np.isclose(region.score, means, rtol=1e-4).any()
    assert asked.true_regions(record).regions
    nowhere = asked.candidates(record, lambda *_: ScoredBoxes(np.zeros((0, 4)), np.zeros(0)))
    assert nowhere.boxes_xyxy.tolist() == [
        [0, 0, record.width, record.height]
    ]  # the whole photo always is one
    with pytest.raises(ModelError, match="cannot detect regions"):
        asked.regions(record)


def test_such_a_net_is_no_model(region_rnn: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="detects no regions"):
        export_model(find_checkpoint(region_rnn), tmp_path / "model", "crops")
