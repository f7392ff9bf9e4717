"""Runs of heads, on coded photos."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regiontalk.errors import ModelError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.training.checkpoints import best_checkpoints, find_checkpoint, read_state
from regiontalk.lab.training.heads.evaluation import open_aligned_photos, score_matrices


@pytest.fixture(scope="module")
def coded(sentences_run: Path) -> CodedPhotos:
    return CodedPhotos.load(sentences_run / "codes.npz")


@pytest.fixture(scope="module")
def records(untrained_run: Path) -> list[Record]:
    return list(Dataset(untrained_run / "data", "dev"))


def test_the_best_checkpoints_of_a_run(alignment_run: Path) -> None:
    few = best_checkpoints(alignment_run)
    assert len(few) == 2
    assert few[0] == find_checkpoint(alignment_run)
    assert best_checkpoints(few[1]) == [few[1]]
    values = [one["value"] for one in read_state(max(few))["best"]]
    assert values == sorted(values, reverse=True)


def test_a_matrix_for_each_of_them(
    alignment_run: Path, coded: CodedPhotos, records: list[Record]
) -> None:
    matrices = list(score_matrices(alignment_run, coded, records))
    assert len(matrices) == 2
    assert matrices[0].scores.shape == (4, sum(len(record.sentences) for record in records))
    assert not np.allclose(matrices[0].scores, matrices[1].scores)


def test_codes_of_another_detector_are_refused(
    alignment_run: Path, coded: CodedPhotos, records: list[Record]
) -> None:
    other = replace(coded, detector="another")
    with pytest.raises(ModelError, match="another detector"):
        open_aligned_photos(alignment_run, other)
    with pytest.raises(ModelError, match="another detector"):
        list(score_matrices(alignment_run, other, records))


def test_mentions_carry_the_fits_of_their_sentence(
    alignment_run: Path, coded: CodedPhotos, records: list[Record]
) -> None:
    photos = open_aligned_photos(alignment_run, coded)
    sentence = "a red square and a red circle"
    region = TrueRegion((0, 0, 5, 5), "a red square and a red", "other", sentences=(0,))
    record = replace(records[0], regions=(region,), entity_sentences=(sentence,))
    (mention,) = photos.mentions([record])
    assert mention.truth.words == (0, 6)
    regions = photos.regions(record)
    assert mention.boxes_xyxy == pytest.approx(regions.boxes_xyxy)
    (words,) = photos.head.vectors([sentence])
    expected = words @ np.asarray(regions.vectors).T
    assert mention.fits == pytest.approx(expected, abs=1e-5)
    (preferring,) = open_aligned_photos(alignment_run, coded, 0.5).mentions([record])
    logs = np.log(regions.scores.clip(1e-4))
    logs[0] = min(
        logs[0], logs[1:].max()
    )  # the whole photo is at most as good a place as the best region
    assert preferring.fits == pytest.approx(expected + 0.5 * logs, abs=1e-4)
