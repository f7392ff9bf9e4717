"""A model asked about a data set: in the records' pixels, on the true boxes, errors named."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regiontalk
from regiontalk.data.dataset_model import DatasetModel, in_record
from regiontalk.data.merged_truth import true_boxes
from regiontalk.data.records import Dataset
from regiontalk.errors import DataError
from regiontalk.model import Model
from regiontalk.types import ImageRegions, Region


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
    assert [region.caption for region in own.regions] == [region.caption for region in other.regions]
    assert sorted(region.xyxy for region in own.regions) == sorted(map(tuple, true_boxes(record).tolist()))
    np.testing.assert_allclose(
        [region.xyxy for region in other.regions], 2 * np.array([region.xyxy for region in own.regions])
    )


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
