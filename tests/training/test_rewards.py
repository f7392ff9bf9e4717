"""Drawn sentences and what they are worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regiontalk.evaluation.captions import cider
from regiontalk.nets.multimodal_rnn import MultimodalRNN, MultimodalRNNConfig
from regiontalk.training.rewards import CiderReward, advantages, draw
from regiontalk.training.subjects import Subject, Text
from regiontalk.vocabulary import END, UNKNOWN, Vocabulary

WORDS = Vocabulary(("a", "red", "dog", "cat", "runs"), "karpathy", ("sentence",))
SUBJECTS = [
    Subject(0, 0, (Text("a red dog runs"), Text("a dog"))),
    Subject(1, 0, (Text("a cat"), Text("a cat runs"))),
    Subject(2, 3, (Text("a red cat"), Text("red"))),
]


def test_draws_are_whole_and_by_falling_length() -> None:
    torch.manual_seed(0)
    net = MultimodalRNN(4, len(WORDS), 1, MultimodalRNNConfig(embedding=4, hidden=6, dropout=0.0)).eval()
    net.output.weight.data *= 30
    seen = net.look(torch.randn(40, 1, 4), torch.randn(40, 2, 4), torch.ones(40, 2, 5))
    drawn = draw(net, seen, WORDS.start(), longest=5)
    lengths = drawn.lengths.tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert len(set(lengths)) > 2, "not all sentences are alike"
    assert sorted(drawn.rows.tolist()) == list(range(40))
    for words, length in zip(drawn.words, lengths, strict=True):
        assert (words[: length - 1] != END).all()
        assert (words[length - 1 :] == END).all()
        assert UNKNOWN not in words


def test_draws_follow_the_nets_probabilities() -> None:
    net = MultimodalRNN(4, len(WORDS), 1, MultimodalRNNConfig(embedding=4, hidden=6, dropout=0.0)).eval()
    net.output.weight.data.zero_()
    net.begin_with_frequencies(torch.tensor([30, 0, 50, 10, 5, 3, 2]) * 100)
    torch.manual_seed(1)
    seen = net.look(torch.zeros(4000, 1, 4), torch.zeros(4000, 2, 4), torch.ones(4000, 2, 5))
    first = draw(net, seen, WORDS.start(), longest=1).words[:, 0]
    shares = torch.bincount(first, minlength=7) / 4000
    np.testing.assert_allclose(shares, [0.3, 0, 0.5, 0.1, 0.05, 0.03, 0.02], atol=0.03)


def test_an_advantage_is_over_the_others_of_the_same_subject() -> None:
    found = advantages(torch.tensor([1.0, 2.0, 6.0, 5.0, 5.0, 5.0]), 3)
    assert found.tolist() == [-3.0, -1.5, 4.5, 0.0, 0.0, 0.0]


def test_the_reward_is_cider_with_an_end() -> None:
    reward = CiderReward.of(SUBJECTS, WORDS)
    said = ["a dog runs", "a cat", "dog"]
    ours = [reward(subject, [*WORDS.encode(text.split()), END]) for subject, text in zip(SUBJECTS, said, strict=True)]
    pairs = [
        (f"{text} <end>".split(), [f"{one.words} <end>".split() for one in subject.texts])
        for subject, text in zip(SUBJECTS, said, strict=True)
    ]
    assert np.mean(ours) == pytest.approx(cider(pairs))
    assert ours[1] > ours[2]
    assert math.isclose(reward(SUBJECTS[0], [END]), reward(SUBJECTS[0], [END])), "a sentence without words"


def test_an_unfinished_sentence_is_worth_less() -> None:
    reward = CiderReward.of(SUBJECTS, WORDS)
    tokens = WORDS.encode(["a", "cat"])
    assert reward(SUBJECTS[1], [*tokens, END]) > reward(SUBJECTS[1], tokens)
