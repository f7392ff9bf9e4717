"""Lengths of vectors: sorted, in bands, and drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.vector_lengths import (
    LENGTH_BANDS,
    MIN_OCCURRENCES,
    WORDS_SHOWN,
    draw_word_lengths,
    region_lengths,
    vector_lengths,
    word_lengths,
)
from things_head import things_in

REGIONS = np.stack([np.arange(50.0), np.linspace(1, 0, 50), np.full(50, 0.25)], axis=1)


def test_words_by_their_mean_length() -> None:
    sizes = {f"w{number}": [number, number + 1.0] for number in range(30)}
    found = vector_lengths(sizes, REGIONS)
    assert found["words"] == 30
    assert [one["word"] for one in found["longest"]] == [
        f"w{number}" for number in range(29, 29 - WORDS_SHOWN, -1)
    ]
    assert found["shortest"][0] == {"word": "w0", "length": 0.5, "times": 2}


def test_regions_in_bands_of_as_many() -> None:
    by_score = vector_lengths({"a": [1.0]}, REGIONS)["regions_by_score"]
    assert len(by_score) == LENGTH_BANDS
    assert [band["length"] for band in by_score] == [44.5, 34.5, 24.5, 14.5, 4.5]


def test_a_drawing_is_xml_whatever_the_words() -> None:
    drawn = draw_word_lengths({"<b>": [1.0] * 5, "&": [2.0], "dog": [3.0] * 9})
    assert "&lt;b&gt;" in drawn
    ET.fromstring(drawn)
    ET.fromstring(draw_word_lengths({"alone": [1.0]}))


def test_lengths_of_words_and_regions() -> None:
    """Only words that occur often enough; "a" is no thing, so its vector is zero."""
    boxes = np.array([[[0, 0, 90, 60], [0, 0, 45, 30]]], dtype=np.float32)
    codes = np.array([[[1, 0, 0], [0, 2, 0]]], dtype=np.float16)
    scores = np.array([[0.5, 0.9]], dtype=np.float32)
    coded = CodedPhotos(("a",), np.array([2]), boxes, scores, codes, "detector")
    record = Record("a", 90, 60, sentences=("A dog .",) * MIN_OCCURRENCES + ("a ball",))
    photos = things_in(coded, {"dog": 1, "ball": 2})
    assert word_lengths(photos.head, [record]) == {
        "a": [0.0] * (MIN_OCCURRENCES + 1),
        "dog": [1.0] * MIN_OCCURRENCES,
    }
    assert region_lengths(photos, [record])[0] == pytest.approx([2, 0.9, 0.25])
