"""Settings tried on photos that were looked at once, best first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import regiontalk
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, TrueRegion
from regiontalk.lab.evaluation.dense_ap import evaluate_dense
from regiontalk.lab.evaluation.language import UnigramF1
from regiontalk.lab.fitting.photos import SeenPhoto, look_at
from regiontalk.lab.fitting.settings import MAX_MAP_LOSS, choose, settings_to_try, try_settings
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import PredictionConfig

BASE = PredictionConfig(proposals=60, final_nms=0.5)
TRIED = [BASE, replace(BASE, proposals=1), replace(BASE, caption_weight=1.0)]


@pytest.fixture(scope="module")
def words(tiny_model: Path) -> Vocabulary:
    return regiontalk.load(tiny_model).runtime.words


@pytest.fixture(scope="module")
def photos(tiny_model: Path, untrained_run: Path) -> list[SeenPhoto]:
    """What is true is what the model finds with `BASE`."""
    asked = DatasetModel(
        regiontalk.load(tiny_model, threads=1), Dataset(untrained_run / "data", "dev")
    )
    seen = [look_at(asked, record, TRIED) for record in asked.dataset]
    truths = [photo.regions(BASE, asked.model.runtime.words).regions for photo in seen]
    return [
        replace(
            photo,
            record=replace(
                photo.record, regions=tuple(TrueRegion(one.xyxy, one.caption) for one in found)
            ),
        )
        for photo, found in zip(seen, truths, strict=True)
    ]


def test_settings_are_all_different_and_complete() -> None:
    tried = list(settings_to_try(BASE))
    assert len(set(tried)) == len(tried) == 2 * 4 * 3 * 3
    assert {settings.longest for settings in tried} == {BASE.longest}


def test_the_best_setting_comes_first(photos: list[SeenPhoto], words: Vocabulary) -> None:
    results = try_settings(photos, words, TRIED, UnigramF1())
    maps = [result.map for _, result in results]
    assert maps == sorted(maps, reverse=True)
    assert {settings.proposals for settings, _ in results} == {1, 60}
    assert results[-1][0].proposals == 1, "one proposal finds least"


def test_the_figures_are_those_of_the_evaluation(
    photos: list[SeenPhoto], words: Vocabulary
) -> None:
    ((_, result),) = try_settings(photos, words, [BASE], UnigramF1())
    found = [photo.regions(BASE, words) for photo in photos]
    assert result.map == evaluate_dense([photo.record for photo in photos], found, UnigramF1()).map


def test_fewer_proposals_are_chosen_where_they_cost_next_to_nothing(
    photos: list[SeenPhoto], words: Vocabulary
) -> None:
    ((_, result),) = try_settings(photos, words, [BASE], UnigramF1())
    near, far = (replace(result, ap=result.ap - cost * MAX_MAP_LOSS) for cost in (0.9, 1.1))
    fewer, fewest = replace(BASE, proposals=20), replace(BASE, proposals=10)
    assert choose([(BASE, result), (fewer, near), (fewest, far)]) == fewer
    assert choose([(BASE, result), (fewest, far)]) == BASE
