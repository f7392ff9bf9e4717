"""`find` judged by phrases on boxes, and phrases that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk import boxes as geometry
from regiontalk.errors import DataError
from regiontalk.inference.find import PhraseEvidence
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.evaluation.find import (
    Sought,
    content_words,
    evaluate_find,
    phrases_of_others,
    phrases_to_ask,
    seek,
    written_words,
)
from regiontalk.models.settings import FindConfig


def evidence(*choices: float) -> PhraseEvidence:
    values = np.array(choices)
    return PhraseEvidence(0.0, np.zeros_like(values), values, np.zeros_like(values))


def test_content_words() -> None:
    assert content_words("A dog, and the dog's ball") == {"dog", "dogs", "ball"}


def test_figures_on_three_phrases_and_one_that_is_not_there() -> None:
    config = FindConfig(likelihood=1.0, choice=1.0, bias=0.0, likely=0.4)
    sought = [
        Sought(
            "a", True, ("people",), np.array([False, True]), evidence(-2.0, 0.0)
        ),  # right, p = 0.5
        Sought(
            "a", True, ("people",), np.array([True, False]), evidence(-2.0, -1.0)
        ),  # wrong, p = 0.27
        # unknown words: wrong, and not found
        Sought("b", True, ("other",), np.array([True, False]), None),
        Sought("b", False, (), np.array([False, False]), evidence(-5.0, -3.0)),
    ]
    figures = evaluate_find(sought, config)
    assert figures["accuracy"] == pytest.approx(1 / 3)
    assert (figures["found"], figures["not_there"]) == (pytest.approx(1 / 3), 1.0)
    assert (figures["phrases"], figures["phrases_not_there"]) == (3, 1)
    assert figures["types"] == {
        "other": {"accuracy": 0.0, "phrases": 1},
        "people": {"accuracy": 0.5, "phrases": 2},
    }
    # photo b has no phrase that is right, a one of two
    assert figures["intervals"] == {
        "accuracy": [0.0, 0.5],
        "found": [0.0, 0.5],
        "not_there": [1.0, 1.0],
    }
    with pytest.raises(DataError, match="no phrase"):
        evaluate_find(sought[3:], config)


def test_phrases_of_others_have_no_word_of_the_photo() -> None:
    def record(name: str, *phrases: str) -> Record:
        regions = tuple(TrueRegion((0.0, 0.0, 5.0, 5.0), phrase) for phrase in phrases)
        return Record(image=name, width=10, height=10, split="dev", regions=regions)

    records = [
        record("a", "a dog", "a ball"),
        record("b", "a cat", "the dog"),
        record("c", "a tree", "a red ball"),
    ]
    absent = phrases_of_others(records)
    assert absent == {
        "a": ["a cat", "a tree"],
        "b": ["a tree", "a red ball"],
        "c": ["a dog", "a cat"],
    }
    assert written_words(records[0]) == {"dog", "ball"}


def test_seeking_is_what_find_does(aligning_model: Path, scenes: Path) -> None:
    dataset = Dataset(scenes, "dev")
    asked, record = DatasetModel(regiontalk.load(aligning_model, threads=1), dataset), dataset[0]
    phrases = phrases_to_ask(record, ["a zebra"])
    sought = seek(asked.model, record.image, phrases, asked.candidates(record))
    assert [one.here for one in sought] == [True] * len(record.regions) + [False]
    assert sought[-1].evidence is None
    for region, one in zip(record.regions, sought, strict=False):
        with asked.open(record) as photo:
            found = asked.model.find(photo, region.phrase, threshold=0)
        likely = one.probabilities(FindConfig())
        assert found.closest == pytest.approx(likely.max())
        factor = record.width / found.width
        overlap = geometry.iou(np.array(found.regions[0].xyxy)[None] * factor, [region.xyxy])[0, 0]
        if geometry.area(np.array([found.regions[0].xyxy]))[0] > 0 and likely.argmax():
            assert bool(one.right[likely.argmax()]) == (overlap >= 0.5)
