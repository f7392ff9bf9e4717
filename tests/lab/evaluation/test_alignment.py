"""Scores of sentences with a photo, by the head of a model folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import DataError
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.evaluation.alignment import AlignedPhotos, sentence_scores

VECTORS = np.array([[1.0, 0.0], [0.0, 2.0]])
SENTENCES = [np.array([[3.0, 0.0], [0.0, 1.0]]), np.zeros((0, 2)), np.array([[-1.0, -1.0]])]


def test_every_word_takes_its_best_region() -> None:
    assert sentence_scores(VECTORS, SENTENCES, "sum").tolist() == [3 + 2, 0, -1]
    assert sentence_scores(VECTORS, SENTENCES, "cosine").tolist() == [2.5, 0, -1]
    assert sentence_scores(VECTORS, SENTENCES[1:2], "cosine").tolist() == [0]


def test_fragments_add_every_pair_that_fits() -> None:
    """Eq. 7, with the lengths as in DeFrag: 2 regions, 2 + 5 and 1 + 5 words."""
    expected = [(3 + 2) / (2 * 7), 0, 0]
    assert sentence_scores(VECTORS, SENTENCES, "fragments") == pytest.approx(expected)


@pytest.fixture
def dataset(untrained_run: Path) -> Dataset:
    return Dataset(untrained_run / "data", "dev")


@pytest.fixture
def aligned(aligning_model: Path, dataset: Dataset) -> AlignedPhotos:
    return AlignedPhotos.of_model(DatasetModel(regiontalk.load(aligning_model), dataset))


def test_sentences_know_their_photos(aligned: AlignedPhotos, dataset: Dataset) -> None:
    records = list(dataset)
    matrix = aligned.score_matrix(records)
    assert matrix.scores.shape == (len(records), sum(len(record.sentences) for record in records))
    assert matrix.owners.tolist() == [
        n for n, record in enumerate(records) for _ in record.sentences
    ]


def test_boxes_are_in_the_records_pixels(aligned: AlignedPhotos, dataset: Dataset) -> None:
    record = dataset[0]
    seen, larger = aligned.regions(record), aligned.regions(replace(record, width=3 * record.width))
    assert seen.boxes_xyxy[0].tolist() == [0, 0, record.width, record.height]
    assert larger.boxes_xyxy == pytest.approx(seen.boxes_xyxy * (3, 1, 3, 1))
    assert seen.vectors is not None
    assert larger.vectors is not None
    assert (larger.vectors == seen.vectors).all()


def test_a_photo_that_cannot_be_read_is_named(
    aligned: AlignedPhotos, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = dataset[0]
    monkeypatch.setattr(Dataset, "read_photo", lambda *_: b"no photo")
    with pytest.raises(DataError, match=record.image):
        aligned.regions(record)
