"""Codes of true boxes: those of `Model.look`, seen at random sizes, taken up again, and refused when
they are something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.codes import true_boxes
from regiontalk.lab.codes.true_boxes import (
    BoxesOrigin,
    distinct_boxes,
    read_coded_boxes,
    true_box_codes,
)
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.model import Model
from regiontalk.models.folder import read_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(true_boxes, "PHOTOS_PER_PART", 2)


@pytest.fixture
def origin(untrained_run: Path, tiny_model: Path) -> BoxesOrigin:
    return BoxesOrigin(tiny_model, untrained_run / "data", "train")


def test_codes_are_what_the_model_sees(origin: BoxesOrigin, tmp_path: Path) -> None:
    coded = true_box_codes(origin, tmp_path / "codes")
    dataset = Dataset(origin.dataset, "train")
    photos = DatasetModel(Model(OnnxRuntime(origin.model)), dataset)
    assert sorted(coded.images) == sorted(record.image for record in dataset)
    assert coded.detector == read_model_folder(origin.model).detector
    for record in dataset:
        photo = coded.images.tolist().index(record.image)
        rows = coded.photos == photo
        boxes = coded.boxes_xyxy[rows]
        assert {tuple(box) for box in boxes} == {region.xyxy for region in record.regions}
        seen = photos.coded_boxes(record, boxes)
        np.testing.assert_allclose(coded.codes[rows], seen.codes[1:], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(coded.photo_codes[photo], seen.codes[0], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(coded.inputs[rows], seen.state[2][1:], rtol=1e-3, atol=1e-3)


def test_each_photo_is_shrunk_to_a_side_of_its_own(origin: BoxesOrigin, tmp_path: Path) -> None:
    as_they_are = true_box_codes(origin, tmp_path / "whole")
    shrunk = true_box_codes(origin._replace(sides=(24, 48)), tmp_path / "shrunk")
    again = true_box_codes(origin._replace(sides=(24, 48)), tmp_path / "again", workers=2)
    other = true_box_codes(origin._replace(sides=(24, 48), seed=1), tmp_path / "other")
    assert ((shrunk.sides >= 24) & (shrunk.sides <= 48)).all()
    assert len(set(shrunk.sides.tolist())) > 1
    assert not np.array_equal(shrunk.codes, as_they_are.codes)
    np.testing.assert_array_equal(shrunk.codes, again.codes)
    assert shrunk.sides.tolist() != other.sides.tolist()


def test_a_stopped_run_continues(
    origin: BoxesOrigin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = true_box_codes(origin, tmp_path / "whole")
    compute = true_boxes._code_photo
    computed: list[str] = []

    def stopped(photos: DatasetModel, record: Record, asked: BoxesOrigin) -> object:
        if len(computed) == 3:
            raise KeyboardInterrupt
        computed.append(record.image)
        return compute(photos, record, asked)

    monkeypatch.setattr(true_boxes, "_code_photo", stopped)
    with pytest.raises(KeyboardInterrupt):
        true_box_codes(origin, tmp_path / "codes")
    assert len(read_coded_boxes(tmp_path / "codes")) == 2  # a part of two photos was finished
    first_three = list(computed)
    computed.clear()
    monkeypatch.setattr(
        true_boxes,
        "_code_photo",
        lambda *asked: computed.append(asked[1].image) or compute(*asked),
    )
    resumed = true_box_codes(origin, tmp_path / "codes")
    assert set(first_three[:2]).isdisjoint(computed)
    np.testing.assert_array_equal(resumed.codes, whole.codes)


def test_codes_of_something_else_are_refused(origin: BoxesOrigin, tmp_path: Path) -> None:
    true_box_codes(origin._replace(photos=1), tmp_path / "codes")
    with pytest.raises(DataError, match="codes of other photos or options"):
        true_box_codes(origin._replace(photos=2), tmp_path / "codes")
    with pytest.raises(DataError, match="no codes of true boxes"):
        read_coded_boxes(tmp_path)


def test_boxes_are_each_there_once_and_inside_the_photo() -> None:
    boxes = [(0, 0, 10, 10), (5, 5, 30, 30), (0, 0, 10, 10), (20, 20, 25, 25)]
    regions = tuple(TrueRegion(box, "a thing") for box in boxes)
    record = Record("photo.jpg", 20, 20, regions=regions)
    assert distinct_boxes(record).tolist() == [[0, 0, 10, 10], [5, 5, 20, 20]]
