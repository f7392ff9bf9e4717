"""The fragments of the baseline: edges, eq. 7 and its multiple-instance term, against loops."""

from __future__ import annotations

import pytest
import torch

from regiontalk.nets.alignment import AlignmentConfig
from regiontalk.nets.fragments import EdgeVectors, fragment_scores, instance_loss

CONFIG = AlignmentConfig(words="edges", size=6, embedding=5, dropout=0.0)


def test_every_edge_goes_through_its_relations_weights() -> None:
    torch.manual_seed(0)
    net = EdgeVectors(10, 3, CONFIG)
    edges = torch.tensor([[2, 1, 4], [0, 3, 3], [2, 5, 6], [1, 9, 0]])
    found = net(edges)
    for row, (relation, head, dependent) in enumerate(edges.tolist()):
        x = torch.cat([net.table.weight[head], net.table.weight[dependent]])
        assert torch.allclose(found[row], torch.relu(x @ net.weights[relation] + net.biases[relation]), atol=1e-6)


def test_no_edges_no_vectors() -> None:
    assert EdgeVectors(10, 3, CONFIG)(torch.zeros(0, 3, dtype=torch.long)).shape == (0, 6)


def test_eq_7_sums_what_is_positive() -> None:
    torch.manual_seed(0)
    vectors, words = torch.randn(2, 3, 4), torch.randn(3, 4)
    used = torch.tensor([[True, True, True], [True, True, False]])
    found = fragment_scores(vectors, words, used, torch.tensor([1, 2]))
    for photo, regions in ((0, 3), (1, 2)):
        for sentence, own in ((0, [0]), (1, [1, 2])):
            total = sum(max(0.0, float(vectors[photo, i] @ words[t])) for i in range(regions) for t in own)
            assert float(found[photo, sentence]) == pytest.approx(total / (regions * (len(own) + 5)), abs=1e-5)


def test_a_word_has_at_least_one_region_of_its_own_photo() -> None:
    """All products are negative: the best region alone is pulled up, all others are pushed down."""
    vectors = torch.tensor([[[-1.0], [-0.2]], [[-0.5], [-0.1]]], requires_grad=True)
    used = torch.ones(2, 2, dtype=torch.bool)
    instance_loss(vectors, torch.ones(1, 1), used, torch.tensor([0])).backward()
    assert vectors.grad is not None
    signs = vectors.grad.sign().flatten().tolist()
    assert signs == [0.0, -1.0, 1.0, 1.0]  # the first is below −1 + margin already
