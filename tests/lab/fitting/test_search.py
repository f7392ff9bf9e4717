from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import DataError
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.phrases import read_aligned
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.fitting.search import TRIED_LINES, JudgedQuery, fit, fit_queries
from regiontalk.model import Model
from regiontalk.models.settings import SearchConfig
from regiontalk.search.build import to_entry
from regiontalk.search.store import Entry, PhotoFile


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


PHRASES = ("a red circle", "a blue square")


@pytest.fixture(scope="module")
def photos(model: Model, untrained_run: Path) -> list[tuple[Record, Entry]]:
    """Photos of which every other one shows the one, the others the other, in captions and in
    vectors; both halves have both."""
    dataset = Dataset(untrained_run / "data", None)
    asked = DatasetModel(model, dataset)
    found = []
    for number in range(len(dataset)):
        record, phrase = dataset[number], PHRASES[number // 2 % 2]
        entry = to_entry(model, asked.look(record), PhotoFile(record.image, 0, 0), b"")
        regions = (replace(record.regions[0], phrase=phrase),)
        words = read_aligned(model.runtime, [phrase])[0].vectors
        shown = tuple(replace(one, caption=phrase, confidence=0.9) for one in entry.regions)
        vectors = np.resize(words, entry.vectors.shape)
        stored = replace(entry, captions=(phrase,), vectors=vectors, regions=shown)
        found.append((replace(record, sentences=(phrase,), regions=regions), stored))
    return found


def test_words_are_found_above_the_line(model: Model, photos: list[tuple[Record, Entry]]) -> None:
    config, report = fit(model, photos)
    assert report["photos"] == len(photos)
    assert config.one_word is not None
    assert config.one_word.captions > 0
    assert 0 < config.likely <= 0.5
    assert report["words"]["right_first"] == 1
    assert report["sentences"]["queries"] == len(photos)
    checked = report["cross_fitted"]["words"]
    assert checked["precision"] == checked["recall"] == 1


def asked(*rows: tuple[float, float, float, bool], words: int = 1, **more: Any) -> JudgedQuery:
    """Rows of evidence, and whether the photo is right."""
    evidence = np.array([row[:3] for row in rows]).T
    return JudgedQuery(evidence, np.array([row[3] for row in rows]), words, 3.0, **more)


def test_one_word_and_a_sentence_may_weigh_differently() -> None:
    """Captions know single words, and vectors know sentences; vectors are wrong about words, which
    is no reason for a negative weight."""
    single = asked((0.4, 0.9, 0.0, True), (0.5, 0.1, 0.0, False), (0.6, 0.2, 0.0, False))
    sentence = asked(
        (0.6, 0.1, 0.0, True),
        (0.3, 0.9, 0.0, False),
        (0.2, 0.5, 0.0, False),
        words=9,
        is_sentence=True,
    )
    config = fit_queries([single] * 20 + [sentence] * 20)
    assert config.one_word is not None
    assert config.one_word.captions > 0
    assert config.one_word.fit == 0
    assert config.fit > 0
    assert (single.rank(config), sentence.rank(config)) == (1, 1)
    assert single.rank(SearchConfig()) == 3


def test_the_line_is_as_low_as_precision_allows() -> None:
    """Captions of 0.8 are right in nine of ten, those of 0.4 in one of ten."""
    rows = [(0.0, 0.8, 0.0, number > 0) for number in range(10)]
    rows += [(0.0, 0.4, 0.0, number == 0) for number in range(10)]
    single = asked(*rows)
    config = fit_queries([single] * 5)
    likely = sigmoid(single.logits(config))
    assert likely[10] < config.likely <= likely[0]
    assert config.likely - TRIED_LINES[0] < likely[0] - likely[10]


def test_records_without_words_are_refused(
    model: Model, photos: list[tuple[Record, Entry]]
) -> None:
    with pytest.raises(DataError, match="too few words"):
        fit(model, photos[:1])
