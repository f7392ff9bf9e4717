"""Cached codes: those of `Model.look`, made in parts, taken up again, and refused when they are
something else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regiontalk.errors import DataError, UsageError
from regiontalk.inference.regions import Look
from regiontalk.lab.codes import build
from regiontalk.lab.codes.build import MAX_ROWS, Origin, compute_codes
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.merged_truth import truth_of
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.model import Model
from regiontalk.models.folder import detector_fingerprint, read_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime


def plainly(numbers: Iterable[int], _: int) -> Iterable[int]:
    return numbers


def compute(
    data: Path, model: Path, out: Path, workers: int = 1, surroundings: bool = False
) -> CodedPhotos:
    return compute_codes(Origin(model, data, surroundings=surroundings), out, workers, plainly)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PHOTOS_PER_PART", 2)


@pytest.fixture
def data(untrained_run: Path) -> Path:
    return untrained_run / "data"


def same(a: CodedPhotos, b: CodedPhotos) -> bool:
    names = ("counts", "boxes_xyxy", "scores", "codes")
    return a.names == b.names and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in names
    )


def test_codes_are_what_the_model_sees(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    coded = compute(data, tiny_model, tmp_path / "codes.npz", surroundings=True)
    dataset = Dataset(data)
    assert coded.names == tuple(record.image for record in dataset)
    assert coded.detector == detector_fingerprint(read_model_folder(tiny_model).graphs)
    assert coded.codes.shape == (len(dataset), MAX_ROWS, 128 + 64)
    model = Model(OnnxRuntime(tiny_model))
    for place, record in enumerate(dataset):
        look = model.codes(model.look(dataset.read_photo(record)), surroundings=True)
        count = len(look.codes)
        assert coded.counts[place] == coded.mask[place].sum() == count
        assert np.array_equal(coded.boxes_xyxy[place, :count], look.boxes_xyxy.astype(np.float32))
        assert np.array_equal(coded.codes[place, :count], look.codes.astype(np.float16))
        assert coded.surroundings is not None
        assert look.surroundings is not None
        assert np.array_equal(
            coded.surroundings[place, :count], look.surroundings.astype(np.float16)
        )
        assert not coded.codes[place, count:].any()
    assert [item.name for item in tmp_path.iterdir()] == ["codes.npz"]


def test_photos_may_be_looked_at_in_another_size(
    data: Path, tiny_model: Path, tmp_path: Path
) -> None:
    small = compute_codes(Origin(tiny_model, data, size=48), tmp_path / "small.npz", 1, plainly)
    record = Dataset(data)[0]
    model = Model(OnnxRuntime(tiny_model))
    look = model.codes(model.look(Dataset(data).read_photo(record), size=48))
    assert np.array_equal(small.codes[0, : len(look.codes)], look.codes.astype(np.float16))
    assert not same(small, compute(data, tiny_model, tmp_path / "codes.npz"))


def test_of_the_true_boxes(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    """The evaluation's merged ones, as the model looks at given boxes."""
    coded = compute_codes(
        Origin(tiny_model, data, on_truths=True), tmp_path / "truths.npz", 1, plainly
    )
    dataset, model = Dataset(data), Model(OnnxRuntime(tiny_model))
    for place, record in enumerate(dataset):
        boxes = truth_of(record).boxes_xyxy
        look = model.codes(model.look(dataset.read_photo(record), boxes=boxes))
        count = 1 + len(boxes)
        assert coded.counts[place] == count
        np.testing.assert_allclose(coded.boxes_xyxy[place, 1:count], boxes, rtol=1e-6)
        assert np.array_equal(coded.codes[place, :count], look.codes.astype(np.float16))


def test_what_was_done_is_not_done_again(
    data: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    original = DatasetModel.look

    def look(photos: DatasetModel, record: Record, *more: Any) -> Look:
        seen.append(record.image)
        return original(photos, record, *more)

    def until_the_fifth(numbers: Iterable[int], _: int) -> Iterator[int]:
        for done, number in enumerate(numbers):
            if done == 4:
                raise KeyboardInterrupt
            yield number

    monkeypatch.setattr(DatasetModel, "look", look)
    out = tmp_path / "codes.npz"
    with pytest.raises(KeyboardInterrupt):
        compute_codes(Origin(tiny_model, data), out, 1, until_the_fifth)
    assert not out.exists()
    assert len(seen) < 10
    seen.clear()
    coded = compute(data, tiny_model, out)
    assert (
        seen == [record.image for record in Dataset(data)][4:]
    )  # two parts of two photos were there
    assert same(coded, compute(data, tiny_model, tmp_path / "whole.npz"))


def test_parts_of_another_data_set_are_not_taken_over(
    data: Path, tiny_model: Path, scenes: Path, tmp_path: Path
) -> None:
    whole = compute(data, tiny_model, tmp_path / "whole.npz")

    def at_once(numbers: Iterable[int], _: int) -> Iterator[int]:
        for number in numbers:
            yield number
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute_codes(Origin(tiny_model, scenes), tmp_path / "codes.npz", 1, at_once)
    assert (tmp_path / "codes.npz.parts").is_dir()
    assert same(compute(data, tiny_model, tmp_path / "codes.npz"), whole)


def test_several_at_a_time_find_the_same(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    alone, shared = (compute(data, tiny_model, tmp_path / f"{n}.npz", workers=n) for n in (1, 2))
    assert alone.codes == pytest.approx(shared.codes, abs=1e-2)
    assert alone.names == shared.names


def test_a_broken_photo_is_named(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "annotations.jsonl").write_text('{"image": "broken.png", "width": 9, "height": 9}')
    (tmp_path / "broken.png").write_bytes(b"no photo")
    with pytest.raises(DataError, match=r"broken\.png"):
        compute(tmp_path, tiny_model, tmp_path / "codes.npz")
    assert not (tmp_path / "codes.npz").exists()


def test_refusals(data: Path, tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"end in \.npz"):
        compute(data, tiny_model, tmp_path / "codes")
    with pytest.raises(DataError, match="no image in split test"):
        compute_codes(Origin(tiny_model, data, "test"), tmp_path / "codes.npz", 1, plainly)
