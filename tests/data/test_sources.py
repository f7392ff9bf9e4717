"""What the readers of foreign formats share."""

import json

import pytest

from regiontalk.data.sources import NO_SPLIT, Source, read_split_file, split_of
from regiontalk.errors import DataError


def test_a_split_file_names_images_by_number_or_name(tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"train": [1, 2], "val": [3], "test": ["a.jpg"]}))
    splits = read_split_file(path)
    assert splits == {"1": "train", "2": "train", "3": "dev", "a.jpg": "test"}
    source = Source(tmp_path, splits=splits)
    assert source.split_for("a.jpg", "77", default="train") == "test"
    assert source.split_for("b.jpg", default="train") == NO_SPLIT
    assert Source(tmp_path).split_for("b.jpg", default="train") == "train"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([1, 2], "not a split file"),
        ({"train": 1}, "not a split file"),
        ({"train": [1], "test": [1]}, "1 is in train and in test"),
        ({"holdout": [1]}, "unknown split 'holdout'"),
    ],
)
def test_a_wrong_split_file_is_named(tmp_path, content, problem):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=problem) as caught:
        read_split_file(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize(("name", "ours"), [("val", "dev"), ("restval", "train"), (" Test ", "test")])
def test_splits_get_our_names(name, ours):
    assert split_of(name, "here") == ours
