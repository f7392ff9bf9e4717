"""Counts over a data set."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.errors import DataError
from regiontalk.io.files import json_line
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.data.statistics import count_dataset, frequent, summary


def write(folder: Path, *records: Record) -> Path:
    (folder / "annotations.jsonl").write_bytes(
        b"".join(json_line(record.to_dict()) for record in records)
    )
    return folder


@pytest.fixture
def dataset(tmp_path) -> Path:
    dog, cat = (
        TrueRegion((0, 0, 1, 1), "a brown dog", "animals"),
        TrueRegion((0, 0, 1, 1), "A cat !"),
    )
    return write(
        tmp_path,
        Record("a.jpg", 9, 9, "train", sentences=("A dog runs .",) * 5, regions=(dog, cat, dog)),
        Record("b.jpg", 9, 9, "test", sentences=("The cat sleeps .",), regions=(cat,)),
    )


def test_everything_is_counted(dataset):
    counted = count_dataset(dataset)
    assert (counted["images"], counted["regions"], counted["sentences"], counted["words"]) == (
        2,
        4,
        6,
        7,
    )
    assert counted["word_occurrences"] == 15 + 3 + 10
    assert counted["splits"]["test"] == {"images": 1, "regions": 1, "sentences": 1}
    assert counted["regions_per_image"] == {"min": 1, "median": 2, "mean": 2.0, "max": 3}
    assert counted["words_per_phrase"] == {"min": 2, "median": 2.5, "mean": 2.5, "max": 3}
    assert counted["types"] == {"animals": 2, "none": 2}
    assert list(counted["frequent_words"])[:2] == ["a", "dog"]
    assert counted["vocabulary"] == {"karpathy": 4, "densecap": 1}


def test_one_split_alone(dataset):
    counted = count_dataset(dataset, "test")
    assert (counted["images"], counted["words"], counted["vocabulary"]["karpathy"]) == (1, 4, 0)
    with pytest.raises(DataError, match="no image in split dev"):
        count_dataset(dataset, "dev")


def test_a_broken_line_is_named(dataset):
    with (dataset / "annotations.jsonl").open("a") as file:
        file.write("{oops\n")
    with pytest.raises(DataError, match="line 3: wrong JSON"):
        count_dataset(dataset)


def test_an_empty_data_set_is_an_error(tmp_path):
    with pytest.raises(DataError, match="an empty data set"):
        count_dataset(write(tmp_path))


def test_counts_are_json(dataset):
    assert json.loads(json.dumps(count_dataset(dataset)))["images"] == 2


@given(st.lists(st.integers(0, 50), min_size=1))
def test_a_summary_is_that_of_the_numbers(numbers):
    found = summary(Counter(numbers))
    assert found is not None
    assert (found["min"], found["max"]) == (min(numbers), max(numbers))
    assert found["mean"] == pytest.approx(sum(numbers) / len(numbers), abs=0.006)
    assert found["min"] <= found["median"] <= found["max"]


def test_the_end_token_counts_as_a_word():
    assert frequent(Counter({"a": 5, "dog": 4}), 5) == 2
    assert frequent(Counter(), 5) == 0
