"""Data sets on their way to disk."""

import pytest

from regiontalk.data.records import Record
from regiontalk.data.writing import Counts, new_dataset
from regiontalk.errors import RegionTalkError, UsageError


def test_counts_are_kept_per_split():
    counts = Counts()
    counts.add(Record("a", 1, 1, "train", sentences=("x", "y")))
    counts.add(Record("b", 1, 1, "dev"))
    assert counts["sentences"] == 2
    assert counts.to_dict()["splits"]["dev"] == {"images": 1, "regions": 0, "sentences": 0}


def test_parents_are_made_and_a_link_is_followed(tmp_path):
    with new_dataset(tmp_path / "a" / "b", False, tmp_path / "source") as folder:
        (folder / "dataset.json").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    with new_dataset(tmp_path / "link", True, tmp_path / "source") as folder:
        (folder / "dataset.json").write_text("2")
    assert (tmp_path / "a" / "b" / "dataset.json").read_text() == "2"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RegionTalkError, match="cannot be written"),
        new_dataset(tmp_path / "file" / "x", False, tmp_path),
    ):
        raise AssertionError


def test_what_stands_there_is_kept_without_force(tmp_path):
    (tmp_path / "dataset.json").write_text("{}")
    with pytest.raises(UsageError, match="not empty"), new_dataset(tmp_path, False, tmp_path / "source"):
        raise AssertionError
