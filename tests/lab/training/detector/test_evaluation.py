"""Metrics while a net trains: a net that knows the answers gets full marks; pictures are drawn."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regiontalk
from regiontalk.errors import DataError
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.export.detector import trace
from regiontalk.lab.training.detector import evaluation
from regiontalk.lab.training.detector.evaluation import draw_samples, evaluate_net
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.model import Model
from regiontalk.models.folder import write_model_folder
from regiontalk.models.torch_runtime import model_info
from regiontalk.results import ImageRegions, Region


class Oracle:
    """Stands in for a model that is asked about a data set, and says what is true."""

    def __init__(self, model: Model, dataset: Dataset) -> None:
        self.model, self.dataset = model, dataset

    def true_regions(self, record: Record) -> ImageRegions:
        found = tuple(Region(region.xyxy, 0.9, region.phrase, -0.1) for region in record.regions)
        return ImageRegions(record.image, record.width, record.height, "oracle", found)


def test_the_truth_gets_full_marks(quick_recipe, scenes, monkeypatch):
    def look(asked: Oracle, record: Record) -> tuple[ImageRegions, np.ndarray]:
        return asked.true_regions(record), np.array([region.xyxy for region in record.regions])

    monkeypatch.setattr(evaluation, "DatasetModel", Oracle)
    monkeypatch.setattr(evaluation, "_look", look)
    recipe = quick_recipe()
    task = FCLNTask.begin(recipe)
    dataset = Dataset(scenes, "dev")
    metrics, found = evaluate_net(task.net, task.words, recipe.prediction, dataset, 4, pytest.fail)
    assert metrics == pytest.approx(dict.fromkeys(metrics, 1.0))
    assert [photo.path for photo in found] == [record.image for record in dataset]


def test_photos_are_found_by_the_path_of_caption(quick_recipe, scenes, tmp_path):
    """What steers training is what the exported model answers."""
    recipe = quick_recipe("prediction.caption_weight=0.5", "prediction.score=product")
    task = FCLNTask.begin(recipe)
    generator = torch.Generator().manual_seed(1)
    for name, weight in task.net.named_parameters():
        if not name.startswith("backbone."):
            weight.data += torch.randn(weight.shape, generator=generator) * 0.1
    dataset = Dataset(scenes, "dev")
    metrics, found = evaluate_net(
        task.net.eval(), task.words, recipe.prediction, dataset, 2, pytest.fail
    )
    assert len(found) == 2
    assert all(0 <= value <= 1 for value in metrics.values())
    graphs = {name: graph.SerializeToString() for name, graph in trace(task.net).items()}
    info = model_info(task.net, recipe.prediction, "exported", "float32", {})
    write_model_folder(tmp_path / "model", info, task.words, graphs)
    exported = DatasetModel(regiontalk.load(tmp_path / "model"), dataset)
    records = {record.image: record for record in dataset}
    for ours in found:
        theirs = exported.regions(records[ours.path])
        assert [region.caption for region in ours.regions] == [
            region.caption for region in theirs.regions
        ]
        np.testing.assert_allclose(
            [region.xyxy for region in ours.regions],
            [region.xyxy for region in theirs.regions],
            atol=0.02,
        )
        np.testing.assert_allclose(
            [region.score for region in ours.regions],
            [region.score for region in theirs.regions],
            atol=1e-4,
        )


def test_dev_photos_that_cannot_be_read_are_named_and_left_out(quick_recipe, scenes, tmp_path):
    folder = Path(shutil.copytree(scenes, tmp_path / "scenes"))
    tar, dataset = folder / "images-00.tar", Dataset(folder, "dev")
    *others, last = (record.image for record in dataset)
    content = tar.read_bytes()
    tar.write_bytes(b"oops".join(content.rsplit(b"\x89PNG", 1)))
    recipe, skipped = quick_recipe(), []
    task = FCLNTask.begin(recipe)
    _, found = evaluate_net(
        task.net.eval(), task.words, recipe.prediction, dataset, 4, skipped.append
    )
    assert [photo.path for photo in found] == others
    assert len(skipped) == 1
    assert last in skipped[0]
    tar.write_bytes(content.replace(b"\x89PNG", b"oops"))
    with pytest.raises(DataError, match="none of its dev photos can be read"):
        evaluate_net(task.net, task.words, recipe.prediction, dataset, 4, skipped.append)


def test_pictures(scenes, tmp_path):
    dataset = Dataset(scenes, "dev")
    oracle = Oracle(None, dataset)
    found = [oracle.true_regions(record) for record in dataset]
    draw_samples(found, dataset, 3, tmp_path / "deep" / "sheet.jpg")
    with Image.open(tmp_path / "deep" / "sheet.jpg") as sheet:
        assert sheet.width > 448
        assert len(sheet.convert("RGB").getcolors(1 << 24)) > 10


def test_pictures_of_a_photo_that_is_hardly_a_line(tmp_path):
    (tmp_path / "annotations.jsonl").write_text(
        '{"image":"line.png","width":2000,"height":1,"split":"dev"}'
    )
    Image.new("RGB", (2000, 1)).save(tmp_path / "line.png")
    draw_samples(
        [ImageRegions("line.png", 2000, 1, "", ())],
        Dataset(tmp_path, "dev"),
        1,
        tmp_path / "sheet.jpg",
    )
    assert (tmp_path / "sheet.jpg").stat().st_size
