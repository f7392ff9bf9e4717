from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import DataError
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.fitting.search import Asked, Questions, _best_weights, fit
from regiontalk.model import Model
from regiontalk.search.build import to_entry
from regiontalk.search.query import read_phrase
from regiontalk.search.store import Entry, PhotoFile


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


PHRASES = ("a red circle", "a blue square")


@pytest.fixture(scope="module")
def photos(model: Model, untrained_run: Path) -> list[tuple[Record, Entry]]:
    """Photos of which every other one shows the one, the others the other, in captions and in
    vectors."""
    dataset = Dataset(untrained_run / "data", None)
    asked = DatasetModel(model, dataset)
    found = []
    for number in range(len(dataset)):
        record, phrase = dataset[number], PHRASES[number % 2]
        entry = to_entry(model, asked.look(record), PhotoFile(record.image, 0, 0), b"")
        regions = (replace(record.regions[0], phrase=phrase),)
        words = read_phrase(model.runtime, phrase).vectors
        stored = replace(entry, captions=(phrase,), vectors=np.resize(words, entry.vectors.shape))
        found.append((replace(record, sentences=(phrase,), regions=regions), stored))
    return found


def test_most_phrases_that_are_not_there_find_nothing(
    model: Model, photos: list[tuple[Record, Entry]]
) -> None:
    config, report = fit(model, photos)
    assert (report["photos"], report["phrases"], report["phrases_not_there"]) == (len(photos), 2, 2)
    assert config.captions > 0
    assert 0 < config.likely <= 0.5
    assert report["nothing_found_of_not_there"] >= 0.5
    assert report["right_first"] == report["right_first_and_shown"] == 1
    assert report["sentences"] == len(photos)


def test_the_weights_are_those_that_rank_best() -> None:
    """The fit of vectors is wrong about phrases, captions say nothing, and the likelihood knows."""
    knows = Asked(np.array([[0.5, 0.4], [0.0, 0.0], [-1.0, 1.0]]), np.array([False, True]))
    lost = Asked(np.array([[0.5, 0.4], [0.0, 0.0], [0.0, 0.0]]), np.array([False, False]))
    weights = _best_weights(Questions([knows], [lost], []))
    assert weights[:2] == (1.0, 0.0)
    assert weights[2] > 0
    assert (knows.rank(weights), knows.rank((1.0, 0.0, 0.0)), lost.rank(weights)) == (
        1,
        2,
        math.inf,
    )


def test_records_without_phrases_are_refused(
    model: Model, photos: list[tuple[Record, Entry]]
) -> None:
    with pytest.raises(DataError, match="too few phrases"):
        fit(model, photos[:1])
