from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import DataError
from regiontalk.inference.phrases import read_aligned
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.evaluation.search import evaluate_search, evaluate_words
from regiontalk.models.settings import SearchConfig
from regiontalk.search.build import to_entry
from regiontalk.search.store import PhotoFile

PHRASES = ("a red circle", "a blue square")


def test_sentences_find_the_photos_that_fit_them(aligning_model: Path, untrained_run: Path) -> None:
    """Two photos, each with the vectors of its sentence; a third sentence has no word that the
    model knows."""
    model, dataset = (
        regiontalk.load(aligning_model, threads=1),
        Dataset(untrained_run / "data", None),
    )
    photos = []
    words = [phrase.vectors for phrase in read_aligned(model.runtime, PHRASES)]
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


def test_words_are_measured_above_the_line(aligning_model: Path, untrained_run: Path) -> None:
    """Four photos, two of them with a caption that is shown: one rightly, one wrongly."""
    model, dataset = (
        regiontalk.load(aligning_model, threads=1),
        Dataset(untrained_run / "data", None),
    )
    head = model.runtime.heads["words"]
    search = SearchConfig(fit=1.0, bias=-50.0, likely=0.5)
    info = replace(head.info, settings=replace(head.info.settings, search=search))
    model.runtime.heads = {**model.runtime.heads, "words": replace(head, info=info)}
    photos = []
    for number in range(4):
        written = ("a red circle",) if number < 2 else ("a blue square",)
        record = replace(dataset[number], sentences=written, regions=())
        look = DatasetModel(model, dataset).look(record)
        entry = to_entry(model, look, PhotoFile(f"{number}.jpg", 0, 0), b"")
        caption = "two circles" if number in (0, 2) else "a shape"
        regions = tuple(
            replace(region, caption=caption, score=0.9, confidence=0.9) for region in entry.regions
        )
        photos.append((record, replace(entry, regions=regions)))
    found = evaluate_words(model, photos, ["circle", "circles", "square"])
    assert found["words"]["circle"] == {"photos": 2, "above_the_line": 2, "of_them_right": 1}
    assert found["words"]["circles"] == found["words"]["circle"]
    assert found["words"]["square"] == {"photos": 2, "above_the_line": 0, "of_them_right": 0}
    assert found["recall"] == pytest.approx(100 * 2 / 6)
    assert found["precision"] == pytest.approx(50)
    assert "recall_without_people" not in found
    with_people = evaluate_words(model, photos, ["circle", "people"])
    assert with_people["recall_without_people"] == with_people["precision_without_people"] == 50
    with pytest.raises(DataError, match="no photo"):
        evaluate_words(model, photos, ["triangle"])
