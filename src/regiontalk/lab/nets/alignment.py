"""Regions and words in one space (K&FF section 3.1), and the baseline of dependency edges that K&FF
build on.

Letters: K photos, R regions of each, D the size of a code, L sentences, T words of each, W words of
all sentences, e the size of a word's vector, h that of the common space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.inference.maxsim import LENGTHENED_CHAIN, similarities, word_scores
from regiontalk.lab.nets.sentence_encoders import Bert, Brnn, Gru, Transformer

FIRST_SCALE = 15.0  # inverse temperature of cosines at the first step of a contrastive loss
SMALLEST_STD = 0.05  # of a dimension of codes; one that hardly varies must not be amplified
SENTENCES_READ_TOGETHER = 32
FIRST_STD = 0.05  # of the numbers in a region's first vector


@dataclass(frozen=True)
class AlignmentConfig:
    """The defaults are the paper's."""

    words: Literal["brnn", "gru", "transformer", "bert", "edges"] = "brnn"
    """The sentence encoder. `brnn`: eqs. 2–6. Differs from the paper: `gru`, `transformer`, and
    `bert`, which starts from pretrained weights. `edges`: those of a dependency tree (the paper's
    baseline)."""
    score: Literal["sum", "cosine", "fragments"] = "sum"
    """The score of a photo and a sentence. `sum`: eq. 8. `fragments`: eq. 7. Differs from the
    paper: `cosine`, the mean over the words of the best cosine."""
    size: int = 1024
    """h; the paper has 1000 to 1600."""
    hidden: int = 512
    """Size of the recurrent state; the paper has 300 to 600. `bert` keeps that of the words."""
    embedding: int = 300
    """e; with a file of word vectors, theirs."""
    train_embedding: bool = False
    """Whether word embeddings are trained."""
    dropout: float = 0.5
    """Dropout on codes, words and the encoder's output, never within the recurrence. Words that
    `bert` reads have none."""
    encoder_dropout: float = 0.0
    """Dropout inside the encoder `bert`."""
    weigh_words: bool = False
    """Differs from the paper, for cosines: the mean over the words is weighted, and the weights are
    learned. With inner products, informative words have longer vectors; cosines ignore lengths, so
    weights replace them."""


class RegionVectors(nn.Module):
    """codes (…, D) -> vectors (…, h); eq. 1.

    Codes are first standardised to mean 0 and std 1 (`standardise`). An affine map could do that
    too, but learns it slowly: some dimensions of a code are many times as large as others.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, code: int, config: AlignmentConfig) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(code))
        self.register_buffer("std", torch.ones(code))
        self.normalised = config.score == "cosine"
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(code, config.size)
        if not self.normalised:  # else the first sums of products are far above the margin of 1
            nn.init.normal_(self.linear.weight, std=FIRST_STD / math.sqrt(code))

    def standardise(self, codes: Tensor) -> None:
        """Takes mean and std from training codes (N, D)."""
        self.mean.copy_(codes.mean(dim=0))
        self.std.copy_(codes.std(dim=0).clamp(min=SMALLEST_STD))

    def forward(self, codes: Tensor) -> Tensor:
        vectors = self.linear(self.dropout((codes - self.mean) / self.std))
        return F.normalize(vectors, dim=-1) if self.normalised else vectors


class WordVectors(nn.Module):
    """tokens (L, T), mask (L, T) -> vectors (L, T, h); eqs. 2–6."""

    def __init__(self, tokens: int, config: AlignmentConfig) -> None:
        super().__init__()
        self.normalised = config.score == "cosine"
        self.relu = config.words == "brnn"  # f of eq. 6; for cosines, ReLU would lose information
        self.table = nn.Embedding(tokens, config.embedding)
        nn.init.normal_(self.table.weight, std=0.1)
        self.table.weight.requires_grad_(config.train_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.word_dropout = nn.Dropout(0.0 if config.words == "bert" else config.dropout)
        self.encoder: nn.Module
        if config.words == "brnn":
            self.encoder = Brnn(config.embedding, config.hidden)
        elif config.words == "gru":
            self.encoder = Gru(config.embedding, config.hidden)
        elif config.words == "bert":
            self.encoder = Bert(config.embedding, config.encoder_dropout)
        else:
            self.encoder = Transformer(config.embedding, config.hidden, config.dropout)
        hidden = config.embedding if config.words == "bert" else config.hidden
        self.leave = nn.Linear(hidden, config.size)
        self.weigh = nn.Linear(hidden, 1) if config.weigh_words else None

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.word_dropout(self.table(tokens))  # eq. 2
        hidden = self.dropout(self.encoder(x, mask))  # (L, T, hidden)
        s = self.leave(hidden)  # eq. 6
        if not self.normalised:
            return F.relu(s) if self.relu else s
        s = F.normalize(s, dim=-1)
        return s if self.weigh is None else s * self._weights(self.weigh(hidden), mask)

    def _weights(self, importance: Tensor, mask: Tensor) -> Tensor:
        """Logits (L, T, 1), mask (L, T) -> the words' weights (L, T, 1), whose mean over each
        sentence is 1."""
        words = mask[..., None]
        shares = importance.float().masked_fill(words == 0, -1e4).softmax(dim=1)
        return shares * words.sum(dim=1, keepdim=True)


class EdgeVectors(nn.Module):
    """edges (W, 3) of relation, head and dependent -> vectors (W, h): s = f(W_R [x₁; x₂] + b_R).
    The baseline's."""

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
        s = x.new_zeros(len(x), self.biases.shape[1])
        for relation in edges[:, 0].unique().tolist():
            rows = edges[:, 0] == relation
            s[rows] = F.relu(x[rows] @ self.weights[relation] + self.biases[relation]).to(x.dtype)
        return F.normalize(s, dim=-1) if self.normalised else s


class Texts(NamedTuple):
    """L sentences: tokens (L, T) of words, padded, or edges (W, 3) of all sentences; and how many
    each has."""

    tokens: Tensor
    lengths: Tensor  # (L,)


class AlignmentNet(nn.Module):
    """Regions and words in one space, and a learned temperature for losses that need one."""

    def __init__(self, config: AlignmentConfig, code: int, tokens: int, relations: int = 0) -> None:
        super().__init__()
        self.config = config
        self.regions = RegionVectors(code, config)
        self.words: nn.Module
        if config.words == "edges":
            self.words = EdgeVectors(tokens, relations, config)
        else:
            self.words = WordVectors(tokens, config)
        self.log_scale = nn.Parameter(torch.tensor(math.log(FIRST_SCALE)))

    def code_layers(self) -> list[nn.Module]:
        """The layers that read codes."""
        return [self.regions]

    def read(self, texts: Texts) -> Tensor:
        """The vectors (W, h) of all words, sentence after sentence."""
        if self.config.words == "edges":
            return self.words(texts.tokens)
        places = torch.arange(texts.tokens.shape[1], device=texts.tokens.device)
        mask = places < texts.lengths[:, None]
        return self._read_sentences(texts, mask)[mask]

    def _read_sentences(self, texts: Texts, mask: Tensor) -> Tensor:
        """The vectors of tokens (L, T), padding included: (L, T, h).

        `bert` reads sentences of about equal length together, so that little of its work is
        padding; to recurrent nets more rows cost little, but more loops do.
        """
        if self.config.words != "bert":
            return self.words(texts.tokens, mask.float())
        by_length = texts.lengths.argsort()
        parts = []
        for rows in by_length.split(SENTENCES_READ_TOGETHER):
            longest = int(texts.lengths[rows].max())
            part = self.words(texts.tokens[rows, :longest], mask[rows, :longest].float())
            parts.append(F.pad(part, (0, 0, 0, mask.shape[1] - longest)))
        return torch.cat(parts)[by_length.argsort()]

    def scores(self, vectors: Tensor, used: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """How well photos, vectors (K, R, h), and sentences, words (W, h), fit: (K, L)."""
        if self.config.score == "fragments":
            return fragment_scores(vectors, words, used, lengths)
        total = sum_sentences(word_scores(vectors, words, used), lengths)  # eq. 8
        return total / lengths.clamp(min=1) if self.config.score == "cosine" else total


def sum_sentences(values: Tensor, lengths: Tensor) -> Tensor:
    """values (K, W) -> sums (K, L) over the words of each sentence.

    Not by a matrix product, which autocast would round to eight bits: sentences would get equal
    scores.
    """
    sentence = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    sums = torch.zeros(len(values), len(lengths), device=values.device)
    return sums.index_add(1, sentence, values.float())


def fragment_scores(vectors: Tensor, words: Tensor, used: Tensor, lengths: Tensor) -> Tensor:
    """Eq. 7: scores (K, L), the sum over regions and words of max(0, vᵢ·sₜ); `lengths` (L,) are the
    numbers of words of the sentences. As in the baseline's own paper it is divided by both lengths.
    """
    sums = F.relu(similarities(vectors, words, used)).float().sum(dim=1)  # (K, W)
    return sum_sentences(sums, lengths) / (used.sum(dim=1)[:, None] * (lengths + LENGTHENED_CHAIN))


def instance_loss(vectors: Tensor, words: Tensor, used: Tensor, owners: Tensor) -> Tensor:
    """Multiple-instance term: the mean of max(0, 1 − y·vᵢ·sₜ); `owners` (W,) is each word's photo.

    y is −1 for regions of other photos. For regions of the word's own photo it is the sign of the
    product, but the best of them always has +1.
    """
    products = similarities(vectors, words, used)  # (K, R, W)
    photos = torch.arange(len(vectors), device=owners.device)
    own = (photos[:, None] == owners)[:, None, :] & used[:, :, None]
    best = products.detach() >= products.detach().amax(dim=1, keepdim=True)
    positive = own & ((products.detach() > 0) | best)
    signs = torch.where(positive, 1.0, -1.0)
    hinges = F.relu(1 - signs * products) * used[:, :, None]
    # There are many more regions of other photos: both kinds get the same total weight.
    return hinges[own].mean() + hinges[~own & used[:, :, None]].mean()
