"""RefCOCO, RefCOCO+ and RefCOCOg."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from regiontalk.data.prepare import Settings, prepare
from regiontalk.data.records import Dataset, TrueRegion
from regiontalk.errors import DataError


@pytest.fixture
def source(downloads: Path) -> Path:
    return downloads / "refer" / "refcoco"


def references(source: Path) -> list[Any]:
    return pickle.loads((source / "refs(unc).p").read_bytes())  # our own, written by the fixture


def test_a_sample_becomes_records(source: Path, downloads: Path, tmp_path: Path) -> None:
    prepare("refcoco", source, tmp_path / "out", Settings(images=downloads / "coco" / "train2017"))
    (record,) = Dataset(tmp_path / "out")
    assert (record.width, record.height, record.split, record.id) == (96, 64, "test", "9")
    assert record.regions == (
        TrueRegion((10.5, 10, 30.75, 40), "left cat", "referring", entity="509"),
        TrueRegion((10.5, 10, 30.75, 40), "the cat", "referring", entity="509"),
    )


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_other_pickles_and_json_say_the_same(source: Path, protocol: int, tmp_path: Path) -> None:
    entries = references(source)
    prepare("refcoco", source, tmp_path / "first")
    (source / "refs(unc).p").write_bytes(pickle.dumps(entries, protocol))
    prepare("refcoco", source, tmp_path / "second")
    (source / "refs(unc).p").unlink()
    (source / "refs(unc).json").write_text(json.dumps(entries))
    prepare("refcoco", source / "refs(unc).json", tmp_path / "third")
    assert list(Dataset(tmp_path / "first")) == list(Dataset(tmp_path / "second")) == list(Dataset(tmp_path / "third"))


@pytest.mark.parametrize(
    ("splits", "split"), [(["train", "train"], "train"), (["train", "val"], "dev"), (["testB", "val"], "test")]
)
def test_a_photo_goes_to_the_last_split_of_its_expressions(
    source: Path, splits: list[str], split: str, tmp_path: Path
) -> None:
    entries = [references(source)[0] | {"split": name} for name in splits]
    (source / "refs(unc).p").write_bytes(pickle.dumps(entries))
    prepare("refcoco", source, tmp_path / "out")
    assert Dataset(tmp_path / "out")[0].split == split


class Command:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (pickle.dumps([Command()]), "not a plain value"),
        (pickle.dumps([{1.5: Path()}]), "not a plain value"),
        (b"not a pickle", "not a pickled list"),
        (b"", "not a pickled list"),
        (pickle.dumps({"refs": []}), "not a list of references"),
        (pickle.dumps([5]), "item 1: 5 is not of type dict"),
        (pickle.dumps([{"image_id": 9}]), "item 1: 'ann_id' is missing"),
        (pickle.dumps([{"image_id": 9, "ann_id": 1, "split": "train", "sentences": []}]), "no annotation 1"),
        (pickle.dumps([{"image_id": 9, "ann_id": 509, "split": "?", "sentences": []}]), "unknown split"),
        (pickle.dumps([{"image_id": 9, "ann_id": 509, "split": "val", "sentences": [{}]}]), "'sent' is missing"),
    ],
)
def test_bad_input_is_named_with_file_and_place(source: Path, data: bytes, problem: str, tmp_path: Path) -> None:
    (source / "refs(unc).p").write_bytes(data)
    with pytest.raises(DataError, match=r"refs\(unc\)\.p.*" + problem):
        prepare("refcoco", source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_expressions_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no refs\(unc\)\.p"):
        prepare("refcoco", tmp_path / "empty", tmp_path / "out")
