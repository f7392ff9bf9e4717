"""The baseline that K&FF build on: sentence fragments from a dependency tree, and the score of eq. 7.

Letters as in `nets.alignment`; an edge joins two words by a relation.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.maxsim import similarities
from regiontalk.nets.alignment import AlignmentConfig, sum_sentences

LENGTHENED = 5  # words added to every sentence where a score is divided by lengths, so that short ones do not win


class EdgeVectors(nn.Module):
    """edges (W, 3) of relation, head and dependent -> vectors (W, h): s = f(W_R [x₁; x₂] + b_R)."""

    def __init__(self, tokens: int, relations: int, config: AlignmentConfig) -> None:
        super().__init__()
        self.normalised = config.score == "cosine"
        self.table = nn.Embedding(tokens, config.embedding)
        nn.init.normal_(self.table.weight, std=0.1)
        self.table.weight.requires_grad_(config.train_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.weights = nn.Parameter(torch.empty(relations, 2 * config.embedding, config.size))
        self.biases = nn.Parameter(torch.zeros(relations, config.size))
        nn.init.normal_(self.weights, std=(2 * config.embedding) ** -0.5)

    def forward(self, edges: Tensor) -> Tensor:
        x = self.dropout(self.table(edges[:, 1:]).flatten(1))  # (W, 2 · e)
        parts = [x.new_zeros(0, self.biases.shape[1])]
        order = torch.argsort(edges[:, 0], stable=True)
        for relation in edges[:, 0].unique().tolist():  # sorted, as the order is
            parts.append(x[edges[:, 0] == relation] @ self.weights[relation] + self.biases[relation])
        grouped = F.relu(torch.cat([part.to(x.dtype) for part in parts]))
        s = torch.empty_like(grouped).index_copy(0, order, grouped)
        return F.normalize(s, dim=-1) if self.normalised else s


def fragment_scores(vectors: Tensor, words: Tensor, used: Tensor, lengths: Tensor) -> Tensor:
    """Eq. 7: scores (K, L), the sum over regions and words of max(0, vᵢ·sₜ), `lengths` (L,) being the words of each
    sentence. As in the baseline's own paper it is divided by both lengths.
    """
    sums = F.relu(similarities(vectors, words, used)).float().sum(dim=1)  # (K, W)
    return sum_sentences(sums, lengths) / (used.sum(dim=1)[:, None] * (lengths + LENGTHENED))


def instance_loss(vectors: Tensor, words: Tensor, used: Tensor, owners: Tensor) -> Tensor:
    """Multiple-instance term: the mean of max(0, 1 − y·vᵢ·sₜ), `owners` (W,) being each word's photo.

    y is −1 for a region of another photo. For the word's own photo it is the sign that the net itself gives, but at
    least its best region has +1.
    """
    products = similarities(vectors, words, used)  # (K, R, W)
    photos = torch.arange(len(vectors), device=owners.device)
    own = (photos[:, None] == owners)[:, None, :] & used[:, :, None]
    best = products.detach() >= products.detach().amax(dim=1, keepdim=True)
    positive = own & ((products.detach() > 0) | best)
    signs = torch.where(positive, 1.0, -1.0)
    hinges = F.relu(1 - signs * products) * used[:, :, None]
    # Regions of other photos are many more: both kinds weigh the same.
    return hinges[own].mean() + hinges[~own & used[:, :, None]].mean()
