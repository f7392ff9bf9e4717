"""Snippets from an alignment net that knows one word for each region."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from regiontalk.lab.codes.sentences import CodedSentences, CodedTarget
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN, MultimodalRNNConfig
from regiontalk.lab.training.checkpoints import Trained
from regiontalk.lab.training.heads.evaluation import coded_sentences
from regiontalk.lab.training.heads.snippets import Snippets, without_loose_ends
from regiontalk.lab.training.recipe.heads import (
    SentencesDataConfig,
    SentencesRecipe,
    SentencesRunConfig,
)
from regiontalk.language.vocabulary import Vocabulary
from things_head import SIZE, things_in

THINGS = {"dog": 1, "brown": 1, "ball": 2, "red": 2}  # word -> the row of its region


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
    ((image, found),) = Snippets(things_in(coded, THINGS), 0.5).hard(RECORDS)
    assert image == "a"
    assert [(one.row, one.text) for one in found] == [
        (1, "a brown dog plays"),
        (2, "red ball"),
    ]


def test_a_large_beta_keeps_the_sentence_together(coded: CodedPhotos) -> None:
    ((_, found),) = Snippets(things_in(coded, THINGS), 50.0).hard(RECORDS)
    assert [one.text for one in found] == ["a brown dog plays with the red ball"]


def test_words_may_prefer_what_the_detector_is_sure_of(coded: CodedPhotos) -> None:
    scores = np.tile(np.array([0.9, 0.01, 0.9], dtype=np.float32), (2, 1))
    photos = things_in(replace(coded, scores=scores), THINGS, place_weight=10.0)
    ((_, found),) = Snippets(photos, 0.5).hard(RECORDS)
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


def make_sentences(coded: CodedPhotos) -> CodedSentences:
    torch.manual_seed(0)
    words = Vocabulary(("a", "brown", "dog", "plays", "red", "ball"), "karpathy", ("sentence",))
    config = MultimodalRNNConfig(embedding=6, hidden=8, dropout=0.0)
    net = MultimodalRNN(SIZE, len(words), 1, config).eval()
    net.image.weight.data *= 30  # regions matter
    recipe = SentencesRecipe(
        run=SentencesRunConfig(steps=1), data=SentencesDataConfig("data", "codes"), net=config
    )
    state = {"detector": "detector", "code": SIZE, "step": 0}
    return coded_sentences(Trained(net, words, recipe, state), coded)


def test_soft_snippets_weigh_both_nets_together(coded: CodedPhotos) -> None:
    finder = Snippets(things_in(coded, THINGS), 0.5)
    sentences = make_sentences(coded)
    ((_, found),) = finder.soft(RECORDS, sentences, scale=1.0)
    dog = {one.row: one.weight for one in found if one.text == "a brown dog plays"}
    tokens = sentences.head.words.encode(["a", "brown", "dog", "plays"])
    rows = [CodedTarget(0, row) for row in range(3)]
    likelihoods = sentences.log_probabilities(rows, [tokens] * 3)
    fits = np.array([0, 2 / 6, 0])  # of "a brown dog plays with the": two of six words fit region 1
    expected = np.exp(fits + likelihoods) / np.exp(fits + likelihoods).sum()
    assert dog == {
        row: pytest.approx(expected[row], abs=1e-4) for row in range(3) if expected[row] >= 0.1
    }
