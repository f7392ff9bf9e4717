"""Data sets on their way to disk."""

import json
from pathlib import Path
from typing import Any

import pytest

from regiontalk.errors import RegionTalkError, UsageError
from regiontalk.lab.data.records import Record
from regiontalk.lab.data.writing import Counts, write_dataset


def test_counts_are_kept_per_split():
    counts = Counts()
    counts.add(Record("a", 1, 1, "train", sentences=("x", "y")))
    counts.add(Record("b", 1, 1, "dev"))
    assert counts["sentences"] == 2
    assert counts.to_dict()["splits"]["dev"] == {"images": 1, "regions": 0, "sentences": 0}


def write(out: Path, force: bool = False) -> dict[str, Any]:
    """A data set of one photo."""
    return write_dataset(out, force, out.parent / "source", {}, lambda _: [Record("a.jpg", 1, 1)])


def test_parents_are_made_and_a_link_is_followed(tmp_path):
    write(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "dataset.json").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    written = write(tmp_path / "link", force=True)
    assert json.loads((tmp_path / "a" / "b" / "dataset.json").read_text()) == written
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RegionTalkError, match="cannot be written"):
        write(tmp_path / "file" / "x")


def test_what_stands_there_is_kept_without_force(tmp_path):
    (tmp_path / "dataset.json").write_text("{}")
    with pytest.raises(UsageError, match="not empty"):
        write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.json"]
