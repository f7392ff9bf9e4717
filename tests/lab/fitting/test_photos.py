"""What is tried on a photo that was looked at once is what the model would answer with those
settings."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import regiontalk
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.fitting.photos import look_at
from regiontalk.model import Model
from regiontalk.models.folder import read_model_folder, write_model_folder
from regiontalk.models.settings import RANKING_FEATURES, PredictionConfig, Ranking

LARGE_FIRST = Ranking(
    RANKING_FEATURES,
    (tuple(float(name == "area") for name in RANKING_FEATURES),),
    (0.0,),
    (1.0,),
    0.0,
)
CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"score": "product", "proposals": 12},
    {"final_nms": 0.6, "caption_weight": 1.0},
    {"ranking": LARGE_FIRST, "calibration": (0.5, 2.0, 0.1)},
)


def settings_of(folder: Path, **changes: Any) -> PredictionConfig:
    own = replace(
        read_model_folder(folder).info.prediction, proposals=40, final_nms=0.8, score="final"
    )
    return replace(own, **changes)


def with_settings(folder: Path, settings: PredictionConfig, out: Path) -> Model:
    """The model as it would be written with other settings."""
    model = read_model_folder(folder)
    write_model_folder(out, replace(model.info, prediction=settings), model.words, model.graphs)
    return regiontalk.load(out, threads=1)


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_settings_give_what_the_model_answers_with_them(
    tiny_model: Path, examples: Path, tmp_path: Path, number: int
) -> None:
    dataset = Dataset(examples)
    tried = [settings_of(tiny_model, **changes) for changes in CHANGES]
    seen = look_at(DatasetModel(regiontalk.load(tiny_model, threads=1), dataset), dataset[0], tried)
    model = with_settings(tiny_model, tried[number], tmp_path / "model")
    found = seen.regions(tried[number], model.runtime.words).regions
    expected = DatasetModel(model, dataset).regions(dataset[0]).regions
    assert len(found) > 2
    assert [region.xyxy for region in found] == [region.xyxy for region in expected]
    assert [region.caption for region in found] == [region.caption for region in expected]
    assert [region.score for region in found] == pytest.approx(
        [region.score for region in expected], abs=1e-6
    )


def test_a_photo_is_seen_in_its_records_pixels(
    tiny_model: Path, untrained_run: Path, tmp_path: Path
) -> None:
    dataset = Dataset(untrained_run / "data", "dev")
    record = dataset[0]
    assert record.shard is not None
    shutil.copy(dataset.folder / record.shard, tmp_path)
    twice = record.to_dict() | {
        "width": 2 * record.width,
        "height": 2 * record.height,
        "regions": [],
    }
    (tmp_path / "annotations.jsonl").write_text(json.dumps(twice))
    model, settings = regiontalk.load(tiny_model, threads=1), settings_of(tiny_model)
    for data, factor in ((dataset, 1), (Dataset(tmp_path), 2)):
        seen = look_at(DatasetModel(model, data), data[0], [settings])
        regions = seen.surviving(settings)
        assert regions.frame.photo_size == (factor * record.width, factor * record.height)
        if factor == 1:
            expected = regions.boxes_xyxy
    assert regions.boxes_xyxy == pytest.approx(2 * expected)
