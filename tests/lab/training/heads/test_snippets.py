"""Snippets from an alignment net that knows one word for each region."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN, MultimodalRNNConfig
from regiontalk.lab.training.heads.sentence_decoding import Describer
from regiontalk.lab.training.heads.sentence_encoding import WordReader
from regiontalk.lab.training.heads.snippets import Snippets, _likelihoods, without_loose_ends
from regiontalk.language.vocabulary import END, Vocabulary

THINGS = {"dog": 1, "brown": 1, "ball": 2, "red": 2}  # word -> the row of its region
SIZE = 3


@dataclass
class Stub:
    """In place of `AlignmentModel`: a word's vector points to its region's, a word that is no
    thing's nowhere."""

    net: Any = field(
        default_factory=lambda: SimpleNamespace(
            log_scale=torch.tensor(0.0), config=SimpleNamespace(score="cosine")
        )
    )
    reader: Any = field(default_factory=lambda: WordReader(Vocabulary((), "karpathy")))

    def words(self, sentence: str) -> NDArray[np.float32]:
        rows = [THINGS.get(word, -1) for word in self.reader.words.clean(sentence)]
        return np.array(
            [np.eye(SIZE)[row] if row >= 0 else np.zeros(SIZE) for row in rows], dtype=np.float32
        )

    def regions(self, coded: CodedPhotos, place: int) -> NDArray[np.float32]:
        return coded.codes[place, : coded.counts[place]].astype(np.float32)


@pytest.fixture
def coded() -> CodedPhotos:
    boxes = np.tile(
        np.array([[0, 0, 90, 90], [0, 0, 40, 40], [50, 50, 90, 90]], dtype=np.float32), (2, 1, 1)
    )
    codes = np.tile(np.eye(SIZE, dtype=np.float16), (2, 1, 1))
    return CodedPhotos(
        ("a", "b"), np.full(2, 3), boxes, np.ones((2, 3), np.float32), codes, "detector", codes
    )


RECORDS = [
    Record("a", 90, 90, sentences=("A brown dog plays with the red ball .",)),
    Record("b", 90, 90),
]


def test_segments_become_snippets_of_their_regions(coded: CodedPhotos) -> None:
    ((image, found),) = Snippets(Stub(), 0.5).hard(coded, RECORDS)  # type: ignore[arg-type]
    assert image == "a"
    assert [(one.row, one.text) for one in found] == [
        (1, "a brown dog plays"),
        (2, "red ball"),
    ]


def test_a_large_beta_keeps_the_sentence_together(coded: CodedPhotos) -> None:
    ((_, found),) = Snippets(Stub(), 50.0).hard(coded, RECORDS)  # type: ignore[arg-type]
    assert [one.text for one in found] == ["a brown dog plays with the red ball"]


def test_words_may_prefer_what_the_detector_is_sure_of(coded: CodedPhotos) -> None:
    scores = np.tile(np.array([0.9, 0.01, 0.9], dtype=np.float32), (2, 1))
    finder = Snippets(Stub(), 0.5, place_weight=10.0)  # type: ignore[arg-type]
    ((_, found),) = finder.hard(replace(coded, scores=scores), RECORDS)
    assert {one.row for one in found} <= {0, 2}


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("with a dog in the", "a dog"),
        ("is on", ""),
        ("the", ""),
        ("a man and his dog", "a man and his dog"),
        ("", ""),
    ],
)
def test_loose_ends(words: str, kept: str) -> None:
    assert without_loose_ends(words.split()) == tuple(kept.split())


def make_describer(coded: CodedPhotos) -> Describer:
    torch.manual_seed(0)
    words = Vocabulary(("a", "brown", "dog", "plays", "red", "ball"), "karpathy", ("sentence",))
    config = MultimodalRNNConfig(embedding=6, hidden=8, dropout=0.0)
    net = MultimodalRNN(SIZE, len(words), 1, config).eval()
    net.image.weight.data *= 30  # regions matter
    return Describer(net, words, coded, torch.device("cpu"))


def test_likelihoods_are_those_of_saying_it_word_by_word(coded: CodedPhotos) -> None:
    describer = make_describer(coded)
    said = [("red ball", 2), ("a brown dog plays", 1), ("a brown dog plays", 0), ("", 1)]
    found = _likelihoods(describer, 0, said)
    for (text, row), value in zip(said, found, strict=True):
        code = torch.tensor(coded.codes[0, row].astype(np.float32))[None, None]
        state = describer.net.begin(describer.net.look(code, code, torch.ones(1, 1, 5)))
        total, token = 0.0, describer.words.start()
        for following in [*describer.words.encode(text.split()), END]:
            with torch.no_grad():
                logprobs, state = describer.net.step(torch.tensor([token]), state)
            total += float(logprobs[0, following])
            token = following
        assert value == pytest.approx(total, abs=1e-4)


def test_soft_snippets_weigh_both_nets_together(coded: CodedPhotos) -> None:
    finder, describer = Snippets(Stub(), 0.5), make_describer(coded)  # type: ignore[arg-type]
    ((_, found),) = finder.soft(coded, RECORDS, describer)
    dog = {one.row: one.weight for one in found if one.text == "a brown dog plays"}
    likelihoods = _likelihoods(describer, 0, [("a brown dog plays", row) for row in range(3)])
    fits = np.array([0, 2 / 6, 0])  # of "a brown dog plays with the": two of six words fit region 1
    expected = np.exp(fits + likelihoods) / np.exp(fits + likelihoods).sum()
    assert dog == {
        row: pytest.approx(expected[row], abs=1e-4) for row in range(3) if expected[row] >= 0.1
    }
