"""Held-out photos: the same ones for everybody."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from regiontalk.errors import DataError
from regiontalk.io.files import json_line
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.data.splitting import held_out, split_dataset


def photos(numbers, ending: str = "jpg", **fields) -> list[Record]:
    return [
        Record(f"train/{n:012d}.{ending}", 9, 9, sentences=("A dog.",), **fields) for n in numbers
    ]


def write(folder, records):
    folder.mkdir()
    (folder / "annotations.jsonl").write_bytes(
        b"".join(json_line(record.to_dict()) for record in records)
    )
    return folder


def test_the_order_is_that_of_the_names_sha256():
    ids = [f"{n:012d}" for n in range(50)]
    order = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    splits = held_out(photos(range(50)), 5)
    assert [name for name in order if splits.get(name) == "test"] == order[:5]
    assert [name for name in order if splits.get(name) == "dev"] == order[5:10]
    assert len(splits) == 10


def test_endings_and_order_do_not_matter():
    assert held_out(photos(range(50)), 5) == held_out(photos(reversed(range(50)), "avif"), 5)


def test_only_train_photos_with_sentences_are_held_out_and_no_excluded_ones():
    records = [*photos(range(10)), *photos(range(10, 40), split="dev"), Record("99.jpg", 9, 9)]
    splits = held_out(records, 3, frozenset({"000000000004"}))
    assert len(splits) == 6
    assert set(splits) <= {f"{n:012d}" for n in range(10)} - {"000000000004"}


def test_too_few_photos_are_refused():
    with pytest.raises(
        DataError, match="10 photos with sentences are too few to hold out 5 for test and 5 for dev"
    ):
        held_out(photos(range(10)), 5)


def test_a_part_of_the_photos_is_split_as_the_whole(tmp_path):
    whole = write(tmp_path / "whole", photos(range(40)))
    part = write(tmp_path / "part", photos(range(0, 40, 2), "avif"))
    other = write(tmp_path / "other", photos(range(8), "png"))
    done = split_dataset(part, tmp_path / "out", 6, whole, [other], keep_paths=True)
    expected = held_out(photos(range(8, 40)), 6)
    written = list(Dataset(tmp_path / "out"))
    assert [record.image for record in written] == [f"train/{n:012d}.avif" for n in range(0, 40, 2)]
    assert [record.split for record in written] == [
        expected.get(f"{n:012d}", "train") for n in range(0, 40, 2)
    ]
    assert done["splits"].keys() == Counter(record.split for record in written).keys()
    split_dataset(part, tmp_path / "in-place", 4)
    assert Dataset(tmp_path / "in-place")[0].image == str(
        part.absolute() / "train/000000000000.avif"
    )
