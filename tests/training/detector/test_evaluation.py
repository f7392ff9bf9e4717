"""Metrics while a net trains: a net that knows the answers gets full marks; pictures are drawn."""

from __future__ import annotations

import pytest
import torch
from PIL import Image

from regiontalk.data.records import Dataset
from regiontalk.training.detector import evaluation
from regiontalk.training.detector.evaluation import draw_samples, evaluate_net
from regiontalk.training.detector.task import FCLNTask
from regiontalk.types import ImageRegions, Region


class Oracle:
    """Stands in for a predictor that says what is true."""

    def __init__(self, *_: object) -> None: ...

    def regions(self, dataset, numbers):
        for record in (dataset[number] for number in numbers):
            found = tuple(Region(region.xyxy, 0.9, region.phrase, -0.1) for region in record.regions)
            yield ImageRegions(record.image, record.width, record.height, "oracle", found)

    on_truths = regions

    def proposals(self, dataset, numbers):
        import numpy as np

        for number in reversed(numbers):  # in any order
            yield dataset[number], np.array([region.xyxy for region in dataset[number].regions])


def test_the_truth_gets_full_marks(quick_recipe, scenes, monkeypatch):
    monkeypatch.setattr(evaluation, "DatasetPredictor", Oracle)
    recipe = quick_recipe()
    task = FCLNTask.begin(recipe)
    dataset = Dataset(scenes, "dev")
    metrics, found = evaluate_net(task.net, task.words, recipe.prediction, dataset, 4, torch.device("cpu"))
    assert metrics == pytest.approx(dict.fromkeys(metrics, 1.0))
    assert [photo.path for photo in found] == sorted(record.image for record in dataset)


def test_only_so_many_photos(quick_recipe, scenes):
    recipe = quick_recipe()
    task = FCLNTask.begin(recipe)
    dataset = Dataset(scenes, "dev")
    metrics, found = evaluate_net(task.net.eval(), task.words, recipe.prediction, dataset, 2, torch.device("cpu"))
    assert len(found) == 2
    assert all(0 <= value <= 1 for value in metrics.values())


def test_pictures(scenes, tmp_path):
    dataset = Dataset(scenes, "dev")
    found = list(Oracle().regions(dataset, range(4)))
    draw_samples(found, dataset, 3, tmp_path / "deep" / "sheet.jpg")
    with Image.open(tmp_path / "deep" / "sheet.jpg") as sheet:
        assert sheet.width > 448
        assert len(sheet.convert("RGB").getcolors(1 << 24)) > 10
