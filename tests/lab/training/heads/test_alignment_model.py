"""What a trained alignment net says of a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regiontalk.errors import ModelError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.training.checkpoints import CPU, best_checkpoints, find_checkpoint, read_state
from regiontalk.lab.training.heads import alignment_model
from regiontalk.lab.training.heads.alignment_model import (
    AlignmentModel,
    score_matrices,
    score_matrix,
)


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
        AlignmentModel.load(alignment_run, other)
    with pytest.raises(ModelError, match="another detector"):
        list(score_matrices(alignment_run, other, records))


def test_mentions_carry_the_fits_of_their_sentence(
    alignment_run: Path, coded: CodedPhotos, records: list[Record]
) -> None:
    net = AlignmentModel.load(alignment_run, coded)
    sentence = "a red square and " * 6
    far = TrueRegion((0, 0, 5, 5), "a red square and a red", "other", sentences=(0, 1))
    record = replace(
        records[0],
        regions=(far,),
        entity_sentences=("a red square and a red one", "one " * 22 + sentence),
    )
    (mention,) = net.mentions(coded, [record])
    place = coded.places[record.image]
    assert mention.truth.words == (0, 6)
    assert mention.boxes_xyxy.shape == (coded.counts[place], 4)
    expected = net.words("a red square and a red one") @ net.regions(coded, place).T
    assert mention.fits == pytest.approx(expected, abs=1e-5)
    (preferring,) = net.mentions(coded, [record], place_weight=0.5)
    logs = np.log(coded.scores[place, : coded.counts[place]].clip(1e-4))
    logs[0] = min(
        logs[0], logs[1:].max()
    )  # the whole photo is at most as good a place as the best region
    assert preferring.fits == pytest.approx(expected + 0.5 * logs, abs=1e-4)


def test_lengths_of_words_and_regions(
    alignment_run: Path, coded: CodedPhotos, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = AlignmentModel.load(alignment_run, coded)
    monkeypatch.setattr(alignment_model, "FEWEST", 1)
    sizes = net.word_lengths(records)
    words = [
        word
        for record in records
        for text in record.sentences
        for word in net.reader.words.clean(text) or ()
    ]
    assert {word: len(lengths) for word, lengths in sizes.items()} == {
        word: words.count(word) for word in set(words)
    }
    assert all(length >= 0 for lengths in sizes.values() for length in lengths)
    regions = net.region_lengths(coded, records)
    assert len(regions) == sum(coded.counts[coded.places[record.image]] - 1 for record in records)
    assert (regions[:, 2] <= 1 + 1e-6).all()


def test_scores_do_not_depend_on_how_many_are_computed_together(
    alignment_run: Path, coded: CodedPhotos, untrained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = list(Dataset(untrained_run / "data"))
    model = AlignmentModel.load(alignment_run, coded)
    together = score_matrix(model.net, model.reader, coded, records, CPU)
    monkeypatch.setattr(alignment_model, "PHOTOS_AT_ONCE", 3)
    monkeypatch.setattr(alignment_model, "SENTENCES_AT_ONCE", 4)
    apart = score_matrix(model.net, model.reader, coded, records, CPU)
    assert together.scores == pytest.approx(apart.scores, abs=1e-5)
    assert together.scores.shape == (len(records), sum(len(record.sentences) for record in records))
