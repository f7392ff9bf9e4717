"""The alignment net: the paper's equations, padding that changes nothing, and every encoder in use."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from regiontalk.nets.alignment import (
    LONGEST,
    AlignmentConfig,
    AlignmentNet,
    Brnn,
    Gru,
    RegionVectors,
    Texts,
    sum_sentences,
)

SMALL = AlignmentConfig(size=6, hidden=8, embedding=5, train_embedding=True, dropout=0.0, heads=2)


def small_net(**changes: object) -> AlignmentNet:
    torch.manual_seed(0)
    return AlignmentNet(replace(SMALL, **changes), code=7, tokens=20).eval()


def texts(*lengths: int, width: int | None = None) -> Texts:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.zeros(len(lengths), width or max(lengths), dtype=torch.long)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = torch.randint(1, 20, (length,), generator=generator)
    return Texts(tokens, torch.tensor(lengths))


def test_the_brnn_is_equations_3_to_5() -> None:
    torch.manual_seed(0)
    net = Brnn(5, 8)
    x = torch.randn(1, 4, 5)
    e = torch.relu(x[0] @ net.enter.weight.T + net.enter.bias)
    forwards, backwards = torch.zeros(5, 8), torch.zeros(6, 8)
    for t in range(4):
        forwards[t + 1] = torch.relu(e[t] + net.forwards.weight @ forwards[t] + net.forwards.bias)
    for t in reversed(range(4)):
        backwards[t] = torch.relu(e[t] + net.backwards.weight @ backwards[t + 1] + net.backwards.bias)
    assert torch.allclose(net(x, torch.ones(1, 4))[0], forwards[1:] + backwards[:4], atol=1e-6)


def test_the_gru_is_torchs_own() -> None:
    torch.manual_seed(0)
    net, own = Gru(5, 8), nn.GRU(5, 8, batch_first=True, bidirectional=True)
    for direction, suffix in enumerate(("", "_reverse")):
        for ours, theirs in ((net.enter, "ih"), (net.recur, "hh")):
            layer = ours[direction]
            assert isinstance(layer, nn.Linear)
            getattr(own, f"weight_{theirs}_l0{suffix}").data = layer.weight.data
            getattr(own, f"bias_{theirs}_l0{suffix}").data = layer.bias.data
    x = torch.randn(3, 6, 5)
    forwards, backwards = own(x)[0].chunk(2, dim=-1)
    assert torch.allclose(net(x, torch.ones(3, 6)), forwards + backwards, atol=1e-6)


@pytest.mark.parametrize("words", ["brnn", "gru", "transformer"])
@pytest.mark.parametrize("score", ["sum", "cosine"])
def test_padding_and_neighbours_change_nothing(words: str, score: str) -> None:
    net = small_net(words=words, score=score)
    together = net.read(texts(4, 2, 6, width=LONGEST))
    alone = torch.cat(
        [
            net.read(Texts(texts(4, 2, 6).tokens[n : n + 1, :length], torch.tensor([length])))
            for n, length in enumerate((4, 2, 6))
        ]
    )
    assert together.shape == (12, 6)
    assert torch.allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize("words", ["brnn", "gru", "transformer"])
def test_a_words_vector_depends_on_its_sentence(words: str) -> None:
    net = small_net(words=words)
    a, b = (
        net.read(Texts(torch.tensor([[3, 4, 5]]), torch.tensor([3]))),
        net.read(Texts(torch.tensor([[6, 4, 7]]), torch.tensor([3]))),
    )
    assert not torch.allclose(a[1], b[1])


def test_cosines_have_vectors_of_one_length() -> None:
    net = small_net(score="cosine")
    assert torch.allclose(net.read(texts(3, 4)).norm(dim=1), torch.ones(7), atol=1e-5)
    assert torch.allclose(net.regions(torch.randn(4, 7)).norm(dim=1), torch.ones(4), atol=1e-5)


def test_scores_are_the_sum_or_the_mean_over_words() -> None:
    vectors, used = torch.randn(2, 3, 6), torch.ones(2, 3, dtype=torch.bool)
    words, lengths = torch.randn(5, 6), torch.tensor([2, 3])
    best = torch.stack([(vectors[k] @ words.T).amax(dim=0) for k in range(2)])
    total = torch.stack([best[:, :2].sum(dim=1), best[:, 2:].sum(dim=1)], dim=1)
    assert torch.allclose(small_net().scores(vectors, used, words, lengths), total, atol=1e-5)
    mean = total / torch.tensor([2.0, 3.0])
    assert torch.allclose(small_net(score="cosine").scores(vectors, used, words, lengths), mean, atol=1e-5)


def test_a_sentence_without_words_scores_nothing() -> None:
    net = small_net(score="cosine")
    scores = net.scores(
        torch.randn(2, 3, 6), torch.ones(2, 3, dtype=torch.bool), torch.randn(2, 6), torch.tensor([0, 2])
    )
    assert scores[:, 0].tolist() == [0, 0]


def test_word_vectors_stay_or_learn_as_told() -> None:
    for learns in (True, False):
        net = small_net(train_embedding=learns)
        net.read(texts(3)).sum().backward()
        table = net.get_parameter("words.table.weight")
        assert (table.grad is not None) == learns


def test_a_hidden_layer_stands_beside_eq_1() -> None:
    plain, beside = RegionVectors(7, SMALL), RegionVectors(7, replace(SMALL, region_hidden=9))
    codes = torch.randn(3, 7)
    assert torch.allclose(plain(codes), plain.linear(codes))
    assert beside.beside is not None
    assert torch.allclose(beside(codes), beside.linear(codes) + beside.beside(codes))


def test_weighed_words_keep_their_directions_and_a_mean_weight_of_one() -> None:
    plain, weighed = small_net(score="cosine"), small_net(score="cosine", weigh_words=True)
    weighed.load_state_dict(plain.state_dict(), strict=False)
    given = texts(3, 5, width=7)
    weights = (weighed.read(given) * plain.read(given)).sum(dim=1)  # plain vectors have length 1
    assert torch.allclose(weighed.read(given), weights[:, None] * plain.read(given), atol=1e-6)
    assert torch.allclose(sum_sentences(weights[None], given.lengths), given.lengths[None].float(), atol=1e-5)
    assert weights.min() > 0
    assert weights.std() > 0
    weights.max().backward()
    assert weighed.get_parameter("words.weigh.weight").grad is not None


def test_codes_are_brought_to_one_scale() -> None:
    net = RegionVectors(3, SMALL)
    codes = torch.randn(500, 3) * torch.tensor([1.0, 50.0, 0.0]) + torch.tensor([0.0, 9.0, 4.0])
    net.standardise(codes)
    seen: list[torch.Tensor] = []
    net.linear.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    net(codes)
    assert torch.allclose(seen[0].mean(dim=0), torch.zeros(3), atol=1e-4)
    assert torch.allclose(seen[0].std(dim=0), torch.tensor([1.0, 1.0, 0.0]), atol=1e-3)


def test_scores_are_not_rounded_under_autocast() -> None:
    """Thousands of sentences are told apart by small differences."""
    values = 10 + torch.arange(6.0)[None] / 1000
    with torch.autocast("cpu", torch.bfloat16):
        sums = sum_sentences(values, torch.tensor([2, 0, 4]))
    assert sums.dtype == torch.float32
    assert sums[0].tolist() == pytest.approx([20.001, 0, 40.014])
