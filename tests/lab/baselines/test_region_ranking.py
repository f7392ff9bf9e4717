"""The ranking baseline, with an alignment net that knows one word for each region."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.lab.baselines.region_ranking import caption_truths, training_pieces
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.training.heads.sentence_encoding import WordReader
from regiontalk.lab.training.heads.snippets import Snippets
from regiontalk.language.vocabulary import Vocabulary

THINGS = {"dog": 1, "ball": 2}  # word -> the row of its region


class Aligner:
    """In place of `AlignmentModel`: a word's vector points to its region's, a word that is no
    thing's nowhere."""

    reader = WordReader(Vocabulary((), "karpathy"))

    def words(self, sentence: str) -> NDArray[np.float32]:
        rows = [THINGS.get(word) for word in self.reader.words.clean(sentence)]
        return np.array(
            [np.zeros(3) if row is None else np.eye(3)[row] for row in rows], dtype=np.float32
        )

    def regions(self, coded: CodedPhotos, place: int) -> NDArray[np.float32]:
        return coded.codes[place, : coded.counts[place]].astype(np.float32)


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
    finder = Snippets(Aligner(), 0.5)  # type: ignore[arg-type]
    training = [
        Record("a", 90, 90, sentences=("A brown dog with a ball .", "A dog beside a dog ."))
    ]
    pieces = training_pieces(finder, coded, training)
    assert set(pieces.texts) == {"a brown dog", "ball", "a dog beside a dog"}
    (photo,) = caption_truths(pieces, finder.aligner, coded, [Record("b", 90, 90)])
    assert [(region.xyxy, region.caption) for region in photo.regions] == [
        ((0, 0, 40, 40), "a dog beside a dog"),
        ((50, 50, 90, 90), "ball"),
    ]


def test_nothing_to_take_from(coded: CodedPhotos) -> None:
    with pytest.raises(DataError, match="no training photo has a sentence"):
        training_pieces(Snippets(Aligner(), 0.5), coded, [Record("a", 90, 90)])  # type: ignore[arg-type]
