"""What the readers of foreign formats share."""

import json

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.sources import NO_SPLIT, Format, Source, read_split_file, split_of


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


@pytest.mark.parametrize(
    ("name", "ours"), [("val", "dev"), ("restval", "train"), (" Test ", "test")]
)
def test_splits_get_our_names(name, ours):
    assert split_of(name, "here") == ours


def no_items(_):
    return iter(())


def test_photos_are_looked_for_in_the_usual_places(tmp_path, scene):
    (tmp_path / "images").mkdir()
    scene.save(tmp_path / "images" / "1.jpg")
    source, usual = Source(tmp_path), Format(no_items, ("", "images"))
    assert source.locate("VG_100K/1.jpg", usual) == (str(tmp_path / "images" / "1.jpg"), True)
    assert source.locate("VG_100K/2.jpg", usual) == (str(tmp_path / "VG_100K" / "2.jpg"), False)
    by_hand = Format(no_items, ("", "images"), own=True)
    assert source.locate("VG_100K/1.jpg", by_hand) == (str(tmp_path / "VG_100K" / "1.jpg"), False)


def test_an_absolute_path_stays_as_it_is(tmp_path, scene_path):
    assert Source(tmp_path / "elsewhere").locate(str(scene_path), Format(no_items)) == (
        str(scene_path),
        True,
    )


@pytest.mark.parametrize("name", ["a\0b.jpg", "\ud800.jpg", "x" * 5000])
def test_an_impossible_name_is_a_missing_photo(tmp_path, name):
    assert Source(tmp_path).locate(name, Format(no_items))[1] is False
