"""A net over a data set: photos matched with their records, boxes in the records' pixels."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from regiontalk.data.records import Dataset
from regiontalk.errors import DataError
from regiontalk.training.detector.task import FCLNTask
from regiontalk.training.predictions import DatasetPredictor, PhotoBatches, ranked_regions


@pytest.fixture(scope="module")
def predictor(quick_recipe) -> DatasetPredictor:
    recipe = quick_recipe()
    task = FCLNTask.begin(recipe)
    generator = torch.Generator().manual_seed(0)
    for name, weight in task.net.named_parameters():
        if not name.startswith("backbone."):
            weight.data += torch.randn(weight.shape, generator=generator) * 0.1
    return DatasetPredictor(task.net.eval(), task.words, recipe.prediction, torch.device("cpu"), batch=3)


@pytest.fixture(scope="module")
def dataset(scenes) -> Dataset:
    return Dataset(scenes, "train")


def test_photos_of_like_shape_stand_together_and_none_is_lost(dataset):
    batches = PhotoBatches(dataset, range(8), 64, 16, 3)
    numbers = [number for n in range(len(batches)) for number in batches[n].numbers]
    assert sorted(numbers) == list(range(8))
    ratios = [dataset[number].width / dataset[number].height for number in numbers]
    assert ratios == sorted(ratios)


def test_regions_do_not_depend_on_the_batch(predictor, dataset):
    """But for what padding does: photos of one shape, alone and together."""
    together = {photo.path: photo for photo in predictor.regions(dataset, [0, 0, 0])}
    (alone,) = predictor.regions(dataset, [0])
    assert [region.caption for region in together[alone.path].regions] == [region.caption for region in alone.regions]


def test_boxes_come_in_the_records_pixels(predictor, scenes, tmp_path):
    """The same photos with records that say they were twice as large."""
    lines = [json.loads(line) for line in (scenes / "annotations.jsonl").read_text().splitlines()]
    for line in lines:
        line |= {"width": 2 * line["width"], "height": 2 * line["height"]}
        line["regions"] = [part | {"xyxy": [2 * value for value in part["xyxy"]]} for part in line["regions"]]
    (tmp_path / "annotations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "images-00.tar").write_bytes((scenes / "images-00.tar").read_bytes())
    small, large = Dataset(scenes, "train"), Dataset(tmp_path, "train")
    for method in (predictor.regions, predictor.on_truths):
        for a, b in zip(method(small, range(4)), method(large, range(4)), strict=True):
            assert a.path == b.path
            assert (b.width, b.height) == (2 * a.width, 2 * a.height)
            np.testing.assert_allclose(
                [region.xyxy for region in b.regions], 2 * np.array([r.xyxy for r in a.regions]), atol=0.01
            )
    for (_, a), (_, b) in zip(predictor.proposals(small, range(4)), predictor.proposals(large, range(4)), strict=True):
        np.testing.assert_allclose(b, 2 * a, atol=0.01)


def test_described_then_ranked_equals_regions(predictor, dataset):
    ranked = [
        ranked_regions(photo, predictor.words, predictor.config) for photo in predictor.described(dataset, range(8))
    ]
    for a, b in zip(predictor.regions(dataset, range(8)), ranked, strict=True):
        assert a.path == b.path
        assert [region.caption for region in a.regions] == [region.caption for region in b.regions]
        np.testing.assert_allclose([r.xyxy for r in a.regions], [r.xyxy for r in b.regions], atol=1e-3)


def test_true_boxes_are_captioned_each(predictor, dataset):
    for photo in predictor.on_truths(dataset, range(8)):
        record = next(record for record in dataset if record.image == photo.path)
        assert len(photo.regions) == len(record.regions)  # drawn shapes hardly overlap: nothing is merged
        found = sorted(tuple(round(value) for value in region.xyxy) for region in photo.regions)
        assert found == sorted(tuple(round(value) for value in region.xyxy) for region in record.regions)


def test_a_photo_without_regions_among_others(predictor, tmp_path):
    lines = [
        {"image": "0.png", "width": 64, "height": 48, "split": "train"},
        {"image": "1.png", "width": 64, "height": 48, "regions": [{"xyxy": [1, 2, 30, 40], "phrase": "a thing"}]},
    ]
    for n in range(2):
        Image.new("RGB", (64, 48)).save(tmp_path / f"{n}.png")
    (tmp_path / "annotations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = {photo.path: len(photo.regions) for photo in predictor.on_truths(Dataset(tmp_path), [0, 1])}
    assert found == {"0.png": 0, "1.png": 1}


def test_a_broken_photo_is_named(predictor, tmp_path):
    (tmp_path / "0.png").write_bytes(b"no photo")
    (tmp_path / "annotations.jsonl").write_text(json.dumps({"image": "0.png", "width": 64, "height": 48}) + "\n")
    with pytest.raises(DataError, match=r"0\.png"):
        list(predictor.regions(Dataset(tmp_path), [0]))
