from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.evaluation.search import evaluate_search
from regiontalk.search.build import to_entry
from regiontalk.search.query import read_phrase
from regiontalk.search.store import PhotoFile

PHRASES = ("a red circle", "a blue square")


def test_sentences_find_the_photos_that_fit_them(aligning_model: Path, untrained_run: Path) -> None:
    """Two photos, each with the vectors of its sentence; a third sentence has no word that the
    model knows."""
    model, dataset = (
        regiontalk.load(aligning_model, threads=1),
        Dataset(untrained_run / "data", None),
    )
    photos, words = [], [read_phrase(model.runtime, phrase).vectors for phrase in PHRASES]
    for number, phrase in enumerate(PHRASES):
        record = replace(dataset[number], sentences=(phrase,) if number else (phrase, "quokka"))
        look = DatasetModel(model, dataset).look(record)
        entry = to_entry(model, look, PhotoFile(record.image, 0, 0), b"")
        fits = np.repeat(
            [float(number == other) for other in range(2)], [len(some) for some in words]
        )
        solved = np.linalg.lstsq(np.concatenate(words), fits, rcond=None)[0]
        photos.append(
            (
                record,
                replace(entry, vectors=np.resize(solved.astype(np.float32), entry.vectors.shape)),
            )
        )
    found = evaluate_search(model, photos, lambda sentences: sentences)
    assert (found["images"], found["sentences"]) == (2, 3)
    for kind in ("text_to_image", "by_vectors_alone"):
        assert found[kind]["r1"] == found[kind]["r10"] == pytest.approx(100 * 2 / 3)
        assert found[kind]["median_rank"] == 1
