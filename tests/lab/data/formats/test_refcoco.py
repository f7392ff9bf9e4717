"""RefCOCO, RefCOCO+ and RefCOCOg."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset, TrueRegion


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
    assert (
        list(Dataset(tmp_path / "first"))
        == list(Dataset(tmp_path / "second"))
        == list(Dataset(tmp_path / "third"))
    )


@pytest.mark.parametrize(
    ("splits", "split"),
    [(["train", "train"], "train"), (["train", "val"], "dev"), (["testB", "val"], "test")],
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
        (
            pickle.dumps([{"image_id": 9, "ann_id": 1, "split": "train", "sentences": []}]),
            "no annotation 1",
        ),
        (
            pickle.dumps([{"image_id": 9, "ann_id": 509, "split": "?", "sentences": []}]),
            "unknown split",
        ),
        (
            pickle.dumps([{"image_id": 9, "ann_id": 509, "split": "val", "sentences": [{}]}]),
            "'sent' is missing",
        ),
    ],
)
def test_bad_input_is_named_with_file_and_place(
    source: Path, data: bytes, problem: str, tmp_path: Path
) -> None:
    (source / "refs(unc).p").write_bytes(data)
    with pytest.raises(DataError, match=r"refs\(unc\)\.p.*" + problem):
        prepare("refcoco", source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02]r\xff\xff\xff\x7f.",  # remember this under number two thousand million
        b"\x80\x05\x96" + (1 << 33).to_bytes(8, "little") + b".",  # a byte array of 8 GB
        b"\x80\x05\x8e" + (1 << 62).to_bytes(8, "little") + b".",
    ],
)
def test_c7_a_few_bytes_cannot_ask_for_gigabytes(source: Path, data: bytes, tmp_path: Path) -> None:
    (source / "refs(unc).p").write_bytes(data)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30));"
        "from pathlib import Path; from regiontalk.lab.data.formats.refcoco import _unpickle, DataError\n"
        "try: print(_unpickle(Path(sys.argv[1])))\n"
        "except DataError as error: print('refused', error.__cause__.__class__.__name__)"
    )
    command = [sys.executable, "-c", script, source / "refs(unc).p"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n" or (
        done.stdout.startswith("refused") and "MemoryError" not in done.stdout
    )


def test_no_expressions_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no refs\(unc\)\.p"):
        prepare("refcoco", tmp_path / "empty", tmp_path / "out")
