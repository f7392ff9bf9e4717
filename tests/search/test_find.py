"""Phrases on the regions that an index keeps: the same as by hand from what it stores."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import UsageError
from regiontalk.inference.alignment import place_prior
from regiontalk.inference.codes import BEST_REGIONS
from regiontalk.inference.phrases import read_phrases
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.find import phrases_to_ask, seek
from regiontalk.model import Model
from regiontalk.models.settings import FindConfig
from regiontalk.search.build import stored_regions
from regiontalk.search.index import Index
from regiontalk.search.store import Where


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


@pytest.fixture
def index(model: Model, scene_path: Path, tmp_path: Path) -> Index:
    (tmp_path / "photos" / "below").mkdir(parents=True)
    shutil.copy(scene_path, tmp_path / "photos" / "a.png")
    shutil.copy(scene_path, tmp_path / "photos" / "below" / "b.png")
    made = Index.open(tmp_path / "photos", model=model)
    made.update()
    return made


def test_findings_are_those_of_the_stored_regions(index: Index, model: Model) -> None:
    (first, _), (second, _) = index.find(["a red square", "a green square"], threshold=0)
    assert [Path(one.path).name for one in (first, second)] == ["a.png", "b.png"]
    store = index._opened()
    ids = store.word_scores(np.ones((1, store.model.size), np.float32), Where()).ids.tolist()
    photo, vectors = store.read(ids)[0], store.vectors(ids)[0]
    phrase = read_phrases(model.runtime, ["a red square"])[0]
    fits = vectors @ phrase.vectors.T
    places = place_prior(np.array(photo.raw_scores), 1.0)
    choices = 7.0 * fits.mean(axis=1) + FindConfig().place * places
    row = int(choices.argmax())
    assert first.regions[0].xyxy == photo.regions[row].xyxy
    assert first.regions[0].caption == photo.regions[row].caption
    assert first.closest == pytest.approx(
        float(1 / (1 + np.exp(-FindConfig().choice * choices[row]))), abs=1e-4
    )
    assert first.draw().size == (96, 64)


def test_an_index_answers_with_what_the_fit_saw(
    index: Index, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`regiontalk fit` fits `find_indexed` on looks, an index answers from what it stores: with a
    model whose scores are calibrated, both give the same probabilities."""
    config = FindConfig(fit=3.0, likelihood=0.0, place=1.5, photo=2.0, choice=0.5, bias=-0.25)
    config = replace(config, name=0.2, photo_name=0.3, name_bias=0.1)
    settings = replace(
        model.runtime.info.prediction, find_indexed=config, calibration=(0.3, 0.1, -2.0)
    )
    monkeypatch.setattr(model.runtime, "info", replace(model.runtime.info, prediction=settings))
    index.update(rebuild=True)
    record = Record(
        "a.png", 96, 64, regions=(TrueRegion((10.0, 10.0, 40.0, 40.0), "a red square"),)
    )
    look = model.look(index.root / "a.png")
    seen = model.candidates(look, BEST_REGIONS)
    stored = list(stored_regions(seen, model.regions(look)))
    (fitted,) = seek(model, record.image, phrases_to_ask(record, []), seen, stored)
    (found,), *_ = index.find(["a red square"], threshold=0)
    assert found.closest == pytest.approx(float(fitted.probabilities(config).max()), abs=1e-3)
    best = seen.boxes_xyxy[fitted.probabilities(config).argmax()]
    assert found.regions[0].xyxy == pytest.approx(best.tolist(), abs=0.1)


def test_one_phrase_gives_one_finding_a_photo(index: Index) -> None:
    assert index.find("a red square") == [own[0] for own in index.find(["a red square"])]
    assert index.find([]) == []


def test_options_out_of_range_are_refused(index: Index) -> None:
    with pytest.raises(UsageError, match="threshold"):
        index.find("a red square", threshold=1.5)
    with pytest.raises(UsageError, match="top"):
        index.find("a red square", top=0)


def test_a_folder_of_the_index(index: Index) -> None:
    assert [Path(own[0].path).name for own in index.find(["a red square"], folder="below")] == [
        "b.png"
    ]


def test_words_that_the_alignment_head_does_not_know(
    index: Index, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index cannot tell: its photos have to be looked at."""
    head = model.runtime.head("words")
    fewer = replace(
        head, words=replace(head.words, words=("a", *("zzz",) * (len(head.words.words) - 1)))
    )
    monkeypatch.setitem(model.runtime.heads, "words", fewer)  # type: ignore[arg-type]
    assert index.find(["red square"]) == []


def test_changed_photos_are_left_out(index: Index) -> None:
    with (index.root / "a.png").open("ab") as file:
        file.write(b"more")
    (index.root / "below" / "b.png").unlink()
    assert index.find(["a red square"]) == []
