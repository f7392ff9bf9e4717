"""The ranking baseline, with an alignment net that knows one word for each region."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.baselines.region_ranking import caption_truths, training_pieces
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.training.heads.snippets import Snippets
from things_head import things_in

THINGS = {"dog": 1, "ball": 2}  # word -> the row of its region


@pytest.fixture
def coded() -> CodedPhotos:
    boxes = np.tile(
        np.array([[0, 0, 90, 90], [0, 0, 40, 40], [50, 50, 90, 90]], dtype=np.float32), (2, 1, 1)
    )
    codes = np.tile(np.eye(3, dtype=np.float16), (2, 1, 1))
    return CodedPhotos(
        ("a", "b"), np.full(2, 3), boxes, np.ones((2, 3), np.float32), codes, "detector"
    )


def test_a_region_gets_the_piece_that_fits(coded: CodedPhotos) -> None:
    photos = things_in(coded, THINGS)
    training = [
        Record("a", 90, 90, sentences=("A brown dog with a ball .", "A dog beside a dog ."))
    ]
    pieces = training_pieces(Snippets(photos, 0.5), training)
    assert set(pieces.texts) == {"a brown dog", "ball", "a dog beside a dog"}
    (photo,) = caption_truths(pieces, photos, [Record("b", 90, 90)])
    assert [(region.xyxy, region.caption) for region in photo.regions] == [
        ((0, 0, 40, 40), "a dog beside a dog"),
        ((50, 50, 90, 90), "ball"),
    ]


def test_nothing_to_take_from(coded: CodedPhotos) -> None:
    with pytest.raises(DataError, match="no training photo has a sentence"):
        training_pieces(Snippets(things_in(coded, THINGS), 0.5), [Record("a", 90, 90)])
