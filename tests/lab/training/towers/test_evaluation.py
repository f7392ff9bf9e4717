"""Two towers on the photos of a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Dataset, TrueRegion
from regiontalk.lab.evaluation.naming import named_regions
from regiontalk.lab.training.checkpoints import find_checkpoint, load_towers
from regiontalk.lab.training.towers import evaluation
from regiontalk.lab.training.towers.evaluation import RegionsOfPhoto, TowersModel, name_photos


@pytest.fixture(scope="module")
def model(towers_run: Path) -> TowersModel:
    trained = load_towers(find_checkpoint(towers_run))
    return TowersModel(trained.net, trained.pieces, torch.device("cpu"))


@pytest.fixture
def dev(towers_desk: Path) -> Dataset:
    return Dataset(towers_desk / "data", "dev")


def nobody(message: str) -> None:
    raise AssertionError(message)


def test_scores_do_not_depend_on_how_many_are_read_at_once(
    model: TowersModel, dev: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = model.score_matrices(dev, dev, nobody)
    assert set(together) == {"both", "global", "words"}
    assert together["both"].scores.shape == (16, 16)
    for name in ("PHOTOS_AT_ONCE", "TEXTS_AT_ONCE", "MAX_PRODUCTS"):
        monkeypatch.setattr(evaluation, name, 3)
    apart = model.score_matrices(dev, dev, nobody)
    for name, matrix in together.items():
        np.testing.assert_allclose(apart[name].scores, matrix.scores, atol=1e-4)
        assert np.array_equal(apart[name].owners, matrix.owners)


def test_both_scores_are_the_sum_of_their_logits(model: TowersModel, dev: Dataset) -> None:
    matrices = model.score_matrices(dev, dev, nobody)
    scales = [float(model.net.scale(term).detach()) for term in ("sentences", "words")]
    expected = scales[0] * matrices["global"].scores + scales[1] * matrices["words"].scores
    np.testing.assert_allclose(matrices["both"].scores, expected, atol=1e-4)


def test_an_unreadable_photo_is_left_out_with_its_sentences(
    model: TowersModel, dev: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = list(dev)
    whole = dev.read_photo

    def read_photo(record: object) -> bytes:
        if record is records[1]:
            raise DataError("it is broken")
        return whole(record)  # type: ignore[arg-type]

    monkeypatch.setattr(dev, "read_photo", read_photo)
    skipped: list[str] = []
    matrices = model.score_matrices(dev, records, skipped.append)
    assert matrices["global"].scores.shape == (15, 15)
    assert matrices["global"].owners.tolist() == list(range(15))
    assert len(skipped) == 1
    assert "it is broken" in skipped[0]


def test_names_of_boxes_and_whole_photos(model: TowersModel, named_scenes: Path) -> None:
    """The nearest of four colours; taught by the phrases of the same training scenes."""
    dataset = Dataset(named_scenes, "dev")
    photos = [RegionsOfPhoto(record, named_regions(record)) for record in dataset]
    names = ["a red circle", "red", "green", "blue", "yellow"]
    scores = {
        photo.record.image: of_photo
        for photo, of_photo in model.name_regions(dataset, photos, names, nobody)
    }
    for photo in photos:
        assert scores[photo.record.image].shape == (len(photo.regions), 5)
    figures = name_photos(model, dataset, photos, names[1:], nobody)
    assert figures["regions"] == sum(len(photo.regions) for photo in photos)
    assert figures["right"] > 40  # chance: 25


def test_a_whole_photo_is_named_by_its_own_vector(model: TowersModel, dev: Dataset) -> None:
    record = dev[0]
    whole = (0.0, 0.0, float(record.width), float(record.height))
    photo = RegionsOfPhoto(record, [TrueRegion(whole, "ring", "whole")])
    ((_, scores),) = model.name_regions(dev, [photo], ["ring"], nobody)
    ((_, vectors),) = model.read_photos(dev, [photo], nobody)
    expected = float(vectors.boxes[0, 0] @ model.read_texts(["ring"]).texts[0])
    assert float(scores[0, 0]) == pytest.approx(expected, abs=1e-5)


def test_photos_may_be_shrunk_first(model: TowersModel, dev: Dataset) -> None:
    small = TowersModel(model.net, model.pieces, model.device, longest_side=16)
    sharp = model.score_matrices(dev, dev, nobody)["global"].scores
    assert not np.allclose(small.score_matrices(dev, dev, nobody)["global"].scores, sharp)
