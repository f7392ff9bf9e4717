"""Prediction settings tried on what a net said once: kept on disk in little space, and ranked anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from regiontalk.data.records import Dataset
from regiontalk.errors import DataError
from regiontalk.evaluation.language import UnigramF1
from regiontalk.fitting.settings import load_described, save_described, settings, tune
from regiontalk.training.detector.task import FCLNTask
from regiontalk.training.predictions import DatasetPredictor, DescribedPhoto, ranked_regions
from regiontalk.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def dataset(scenes) -> Dataset:
    return Dataset(scenes, "dev")


@pytest.fixture(scope="module")
def predictor(quick_recipe) -> DatasetPredictor:
    recipe = quick_recipe()
    task = FCLNTask.begin(recipe)
    generator = torch.Generator().manual_seed(1)
    for name, weight in task.net.named_parameters():
        if not name.startswith("backbone."):
            weight.data += torch.randn(weight.shape, generator=generator) * 0.2
    return DatasetPredictor(task.net.eval(), task.words, recipe.prediction, torch.device("cpu"))


@pytest.fixture(scope="module")
def described(predictor, dataset) -> list[DescribedPhoto]:
    return list(predictor.described(dataset, range(len(dataset))))


def test_kept_on_disk(described, predictor, dataset, tmp_path):
    save_described(tmp_path / "kept.npz", described)
    back = load_described(tmp_path / "kept.npz", dataset)
    assert [photo.record for photo in back] == [photo.record for photo in described]
    for a, b in zip(described, back, strict=True):
        kept = int(a.described.counts)
        assert a.scale == pytest.approx(b.scale)
        assert int(b.described.counts) == kept
        np.testing.assert_allclose(
            b.described.boxes_xyxy[0, :kept], a.described.boxes_xyxy[0, :kept], atol=1 / 16 + 1e-6
        )
        np.testing.assert_allclose(b.described.logits[0, :kept], a.described.logits[0, :kept], rtol=1e-3, atol=1e-3)
        assert torch.equal(b.described.tokens[0, :kept], a.described.tokens[0, :kept])
        ranked = [ranked_regions(photo, predictor.words, predictor.config) for photo in (a, b)]
        assert {region.caption for region in ranked[0].regions} == {region.caption for region in ranked[1].regions}


def test_photos_of_another_data_set_are_refused(described, tmp_path, scenes):
    save_described(tmp_path / "kept.npz", described)
    with pytest.raises(DataError, match="is not in"):
        load_described(tmp_path / "kept.npz", Dataset(scenes, "train"))


def test_settings_are_all_different_and_complete(predictor):
    tried = list(settings(predictor.config))
    assert len(set(tried)) == len(tried) == 2 * 4 * 2 * 3
    assert {config.longest for config in tried} == {predictor.config.longest}


def test_the_best_setting_comes_first(described, predictor):
    base = replace(predictor.config, final_nms=0.5)
    results = tune(described, predictor.words, [base, replace(base, proposals=1)], UnigramF1())
    maps = [result.map for _, result in results]
    assert maps == sorted(maps, reverse=True)
    assert {config.proposals for config, _ in results} == {1, base.proposals}


def test_a_setting_is_only_ranked_anew(described, predictor):
    few = ranked_regions(described[0], predictor.words, replace(predictor.config, proposals=2))
    assert 1 <= len(few.regions) <= 2
    assert isinstance(predictor.words, Vocabulary)
