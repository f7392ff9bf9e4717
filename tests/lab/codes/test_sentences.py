"""Sentences of coded photos and regions by a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from regiontalk.errors import ModelError
from regiontalk.lab.codes.sentences import CodedSentences, CodedTarget
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.training.checkpoints import find_checkpoint
from regiontalk.lab.training.heads.evaluation import open_coded_sentences


def load(sentences_run: Path, codes: Path) -> CodedSentences:
    return open_coded_sentences(find_checkpoint(sentences_run / "run"), codes)


def test_photos_get_their_own_sentences(sentences_run: Path, untrained_run: Path) -> None:
    teller = load(sentences_run, sentences_run / "codes.npz")
    records = list(Dataset(untrained_run / "data"))[::-1]
    found = list(teller.photos(records, 1))
    assert [one.path for one in found] == [record.image for record in records]
    for record, one in zip(records, found, strict=True):
        (said,) = teller([CodedTarget(teller.coded.places[record.image], 0)], 1)
        assert one.sentence == teller.head.words.decode(said.tokens)
    assert len({one.sentence for one in found}) > 1


def test_boxes_get_their_own_sentences(sentences_run: Path, untrained_run: Path) -> None:
    teller = load(sentences_run, sentences_run / "truths.npz")
    records = list(Dataset(untrained_run / "data", "dev"))
    for record, photo in zip(records, teller.regions(records, 1), strict=True):
        assert [region.xyxy for region in photo.regions] == [
            pytest.approx(one.xyxy) for one in record.regions
        ]
        place = teller.coded.places[record.image]
        said = teller([CodedTarget(place, row) for row in range(1, len(record.regions) + 1)], 1)
        expected = [teller.head.words.decode(one.tokens) for one in said]
        assert [region.caption for region in photo.regions] == expected


def test_a_wider_beam_finds_likelier_sentences(sentences_run: Path, untrained_run: Path) -> None:
    teller = load(sentences_run, sentences_run / "codes.npz")
    records = list(Dataset(untrained_run / "data"))
    totals = [sum(one.logprob for one in teller.photos(records, beam)) for beam in (1, 7)]
    assert totals[1] >= totals[0]


def test_codes_of_another_detector_are_refused(sentences_run: Path, tmp_path: Path) -> None:
    coded = CodedPhotos.load(sentences_run / "codes.npz")
    replace(coded, detector="another").save(tmp_path / "other.npz")
    with pytest.raises(ModelError, match="codes of another detector"):
        load(sentences_run, tmp_path / "other.npz")
