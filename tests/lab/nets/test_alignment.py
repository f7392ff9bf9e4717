"""The alignment net: the paper's scores, padding that changes nothing, every encoder, and the
baseline of edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regiontalk.lab.nets.alignment import (
    AlignmentConfig,
    AlignmentNet,
    EdgeVectors,
    RegionVectors,
    Texts,
    fragment_scores,
    instance_loss,
    sum_sentences,
)
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS

SMALL = AlignmentConfig(size=6, hidden=8, embedding=5, train_embedding=True, dropout=0.0)
EDGES = AlignmentConfig(words="edges", size=6, embedding=5, dropout=0.0)


def small_net(**changes: object) -> AlignmentNet:
    torch.manual_seed(0)
    return AlignmentNet(replace(SMALL, **changes), code=7, tokens=20).eval()


def texts(*lengths: int, width: int | None = None) -> Texts:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.zeros(len(lengths), width or max(lengths), dtype=torch.long)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = torch.randint(1, 20, (length,), generator=generator)
    return Texts(tokens, torch.tensor(lengths))


@pytest.mark.parametrize("words", ["brnn", "gru", "transformer", "bert"])
@pytest.mark.parametrize("score", ["sum", "cosine"])
def test_padding_and_neighbours_change_nothing(words: str, score: str) -> None:
    net = small_net(words=words, score=score)
    together = net.read(texts(4, 2, 6, width=WINDOW_WORDS))
    alone = torch.cat(
        [
            net.read(Texts(texts(4, 2, 6).tokens[n : n + 1, :length], torch.tensor([length])))
            for n, length in enumerate((4, 2, 6))
        ]
    )
    assert together.shape == (12, 6)
    assert torch.allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize("words", ["brnn", "gru", "transformer", "bert"])
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
    assert torch.allclose(
        small_net(score="cosine").scores(vectors, used, words, lengths), mean, atol=1e-5
    )


def test_a_sentence_without_words_scores_nothing() -> None:
    net = small_net(score="cosine")
    scores = net.scores(
        torch.randn(2, 3, 6),
        torch.ones(2, 3, dtype=torch.bool),
        torch.randn(2, 6),
        torch.tensor([0, 2]),
    )
    assert scores[:, 0].tolist() == [0, 0]


def test_word_vectors_stay_or_learn_as_told() -> None:
    for learns in (True, False):
        net = small_net(train_embedding=learns)
        net.read(texts(3)).sum().backward()
        table = net.get_parameter("words.table.weight")
        assert (table.grad is not None) == learns


def test_weighed_words_keep_their_directions_and_a_mean_weight_of_one() -> None:
    plain, weighed = small_net(score="cosine"), small_net(score="cosine", weigh_words=True)
    weighed.load_state_dict(plain.state_dict(), strict=False)
    given = texts(3, 5, width=7)
    weights = (weighed.read(given) * plain.read(given)).sum(dim=1)  # plain vectors have length 1
    assert torch.allclose(weighed.read(given), weights[:, None] * plain.read(given), atol=1e-6)
    assert torch.allclose(
        sum_sentences(weights[None], given.lengths), given.lengths[None].float(), atol=1e-5
    )
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


def test_every_edge_goes_through_its_relations_weights() -> None:
    torch.manual_seed(0)
    net = EdgeVectors(10, 3, EDGES)
    edges = torch.tensor([[2, 1, 4], [0, 3, 3], [2, 5, 6], [1, 9, 0]])
    found = net(edges)
    for row, (relation, head, dependent) in enumerate(edges.tolist()):
        x = torch.cat([net.table.weight[head], net.table.weight[dependent]])
        assert torch.allclose(
            found[row], torch.relu(x @ net.weights[relation] + net.biases[relation]), atol=1e-6
        )


def test_no_edges_no_vectors() -> None:
    assert EdgeVectors(10, 3, EDGES)(torch.zeros(0, 3, dtype=torch.long)).shape == (0, 6)


def test_eq_7_sums_what_is_positive() -> None:
    torch.manual_seed(0)
    vectors, words = torch.randn(2, 3, 4), torch.randn(3, 4)
    used = torch.tensor([[True, True, True], [True, True, False]])
    found = fragment_scores(vectors, words, used, torch.tensor([1, 2]))
    for photo, regions in ((0, 3), (1, 2)):
        for sentence, own in ((0, [0]), (1, [1, 2])):
            total = sum(
                max(0.0, float(vectors[photo, i] @ words[t])) for i in range(regions) for t in own
            )
            assert float(found[photo, sentence]) == pytest.approx(
                total / (regions * (len(own) + 5)), abs=1e-5
            )


def test_a_word_has_at_least_one_region_of_its_own_photo() -> None:
    """All products are negative: the best region alone is pulled up, all others are pushed down."""
    vectors = torch.tensor([[[-1.0], [-0.2]], [[-0.5], [-0.1]]], requires_grad=True)
    used = torch.ones(2, 2, dtype=torch.bool)
    instance_loss(vectors, torch.ones(1, 1), used, torch.tensor([0])).backward()
    assert vectors.grad is not None
    signs = vectors.grad.sign().flatten().tolist()
    assert signs == [0.0, -1.0, 1.0, 1.0]  # the first is below −1 + margin already
