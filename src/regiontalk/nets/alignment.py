"""Regions and words in one space (K&FF section 3.1).

Letters: K photos, R regions of each, D the size of a code, L sentences, T words of each, W words of all sentences,
e the size of a word's vector, h that of the common space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.maxsim import word_scores

ENCODERS = ("brnn", "gru", "transformer", "edges")
SCORES = ("sum", "cosine", "fragments")
FIRST_SCALE = 15.0  # what cosines are multiplied with at first, in a contrastive loss
SMALLEST_SPREAD = 0.05  # of a number in codes; one that hardly ever differs must not become loud
FIRST_SPREAD = 0.05  # of the numbers in a region's first vector
LONGEST = 24  # words of a sentence that are read together; the exported graph is unrolled to as many


@dataclass(frozen=True)
class AlignmentConfig:
    """The defaults are the paper's."""

    words: str = "brnn"
    """What turns words into vectors. `brnn`: eqs. 2–6. Differs from the paper: `gru`, `transformer`. `edges`: those
    of a dependency tree (the paper's baseline)."""
    score: str = "sum"
    """Of a photo and a sentence. `sum`: eq. 8. `fragments`: eq. 7. Differs from the paper: `cosine`, the mean over
    the words of the best cosine."""
    size: int = 1024
    """h; the paper has 1000 to 1600."""
    hidden: int = 512
    """Of the recurrence; the paper has 300 to 600."""
    embedding: int = 300
    """e; with a file of word vectors, theirs."""
    train_embedding: bool = False
    dropout: float = 0.5
    """Of codes, words and what leaves the recurrence, never within it."""
    region_hidden: int = 0
    """Differs from the paper where it is not 0: eq. 1 gets a hidden layer of this size beside it."""
    weigh_words: bool = False
    """Differs from the paper, for cosines: the mean over the words is weighted, and the weights are learned. With inner
    products, a word that tells more has a longer vector; cosines take that away, and this gives it back."""
    layers: int = 1
    """Of the transformer."""
    heads: int = 4
    """Of the transformer."""


class RegionVectors(nn.Module):
    """codes (…, D) -> vectors (…, h); eq. 1.

    Codes are first brought to mean 0 and spread 1 (`standardise`), which an affine map could do as well, but learns
    slowly: some numbers of a code are many times as large as others.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, code: int, config: AlignmentConfig) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(code))
        self.register_buffer("spread", torch.ones(code))
        self.normalised = config.score == "cosine"
        self.dropout = nn.Dropout(config.dropout)
        self.linear = nn.Linear(code, config.size)
        if not self.normalised:  # else sums of products begin far beyond the margin of 1 that they are taught to keep
            nn.init.normal_(self.linear.weight, std=FIRST_SPREAD / math.sqrt(code))
        self.beside: nn.Module | None = None
        if config.region_hidden:
            self.beside = nn.Sequential(
                nn.Linear(code, config.region_hidden),
                nn.ReLU(),
                nn.Dropout(config.dropout),
                nn.Linear(config.region_hidden, config.size),
            )

    def standardise(self, codes: Tensor) -> None:
        """Takes mean and spread from codes (N, D) to learn from."""
        self.mean.copy_(codes.mean(dim=0))
        self.spread.copy_(codes.std(dim=0).clamp(min=SMALLEST_SPREAD))

    def forward(self, codes: Tensor) -> Tensor:
        codes = self.dropout((codes - self.mean) / self.spread)
        vectors = self.linear(codes)
        if self.beside is not None:
            vectors = vectors + self.beside(codes)
        return F.normalize(vectors, dim=-1) if self.normalised else vectors


class Brnn(nn.Module):
    """x (L, T, e), mask (L, T) -> (L, T, hidden); eqs. 3–6 up to the sum of both directions.

    Written as a loop: the exporter unrolls it, and a mask makes one unrolled length serve all sentences.
    """

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.enter = nn.Linear(embedding, hidden)
        self.forwards = nn.Linear(hidden, hidden)
        self.backwards = nn.Linear(hidden, hidden)
        for recurrence in (self.forwards, self.backwards):
            nn.init.orthogonal_(recurrence.weight)
            nn.init.zeros_(recurrence.bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        e = F.relu(self.enter(x))  # eq. 3
        return self._run(e, mask, self.forwards, reverse=False) + self._run(e, mask, self.backwards, reverse=True)

    def _run(self, e: Tensor, mask: Tensor, recurrence: nn.Linear, reverse: bool) -> Tensor:
        """eqs. 4 and 5; behind a sentence's last word the state stays zero."""
        h = e.new_zeros(len(e), self.hidden)
        states = []
        for t in reversed(range(e.shape[1])) if reverse else range(e.shape[1]):
            h = F.relu(e[:, t] + recurrence(h)) * mask[:, t, None]
            states.append(h)
        return torch.stack(states[::-1] if reverse else states, dim=1)


class Gru(nn.Module):
    """x (L, T, e), mask (L, T) -> (L, T, hidden), the sum of both directions; a loop, as `Brnn`."""

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.enter = nn.ModuleList(nn.Linear(embedding, 3 * hidden) for _ in range(2))
        self.recur = nn.ModuleList(nn.Linear(hidden, 3 * hidden) for _ in range(2))
        for recurrence in self.recur:
            assert isinstance(recurrence, nn.Linear)
            for gate in recurrence.weight.data.chunk(3):
                nn.init.orthogonal_(gate)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self._run(x, mask, 0) + self._run(x, mask, 1)

    def _run(self, x: Tensor, mask: Tensor, direction: int) -> Tensor:
        entering = self.enter[direction](x)  # (L, T, 3 · hidden)
        h = x.new_zeros(len(x), self.hidden)
        states = []
        for t in reversed(range(x.shape[1])) if direction else range(x.shape[1]):
            reset_in, update_in, new_in = entering[:, t].chunk(3, dim=-1)
            reset_h, update_h, new_h = self.recur[direction](h).chunk(3, dim=-1)
            update = torch.sigmoid(update_in + update_h)
            new = torch.tanh(new_in + torch.sigmoid(reset_in + reset_h) * new_h)
            h = ((1 - update) * new + update * h) * mask[:, t, None]
            states.append(h)
        return torch.stack(states[::-1] if direction else states, dim=1)


class Transformer(nn.Module):
    """x (L, T, e), mask (L, T) -> (L, T, hidden)."""

    def __init__(self, embedding: int, hidden: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.enter = nn.Linear(embedding, hidden)
        self.places = nn.Parameter(torch.randn(LONGEST, hidden) * 0.02)
        self.layers = nn.ModuleList(TransformerLayer(hidden, heads, dropout) for _ in range(layers))
        self.leave = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.enter(x) + self.places[: x.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        return self.leave(x)


class TransformerLayer(nn.Module):
    """Attention and a small network, each behind a normalisation and beside a short cut."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mixing = nn.LayerNorm(size), nn.LayerNorm(size)
        self.ask, self.answer = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mix = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * size, size))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        sentences, words, size = x.shape
        parts = self.ask(self.before_attention(x)).view(sentences, words, 3, self.heads, size // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)  # each (L, heads, T, size / heads)
        fits = queries @ keys.transpose(2, 3) / math.sqrt(size // self.heads)
        fits = fits.masked_fill(mask[:, None, None, :] == 0, -1e4)
        seen = (fits.softmax(dim=-1) @ values).transpose(1, 2).reshape(sentences, words, size)
        x = x + self.dropout(self.answer(seen))
        return x + self.dropout(self.mix(self.before_mixing(x)))


class WordVectors(nn.Module):
    """tokens (L, T), mask (L, T) -> vectors (L, T, h); eqs. 2–6."""

    def __init__(self, tokens: int, config: AlignmentConfig) -> None:
        super().__init__()
        self.normalised = config.score == "cosine"
        self.relu = config.words == "brnn"  # f of eq. 6; a cosine of vectors without a minus sign would tell less
        self.table = nn.Embedding(tokens, config.embedding)
        nn.init.normal_(self.table.weight, std=0.1)
        self.table.weight.requires_grad_(config.train_embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder: nn.Module
        if config.words == "brnn":
            self.encoder = Brnn(config.embedding, config.hidden)
        elif config.words == "gru":
            self.encoder = Gru(config.embedding, config.hidden)
        else:
            self.encoder = Transformer(config.embedding, config.hidden, config.layers, config.heads, config.dropout)
        self.leave = nn.Linear(config.hidden, config.size)
        self.weigh = nn.Linear(config.hidden, 1) if config.weigh_words else None

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.dropout(self.table(tokens))  # eq. 2
        hidden = self.dropout(self.encoder(x, mask))  # (L, T, hidden)
        s = self.leave(hidden)  # eq. 6
        if not self.normalised:
            return F.relu(s) if self.relu else s
        s = F.normalize(s, dim=-1)
        return s if self.weigh is None else s * self._weights(self.weigh(hidden), mask)

    def _weights(self, importance: Tensor, mask: Tensor) -> Tensor:
        """(L, T, 1) twice over -> the words' weights, whose mean over each sentence is 1."""
        words = mask[..., None]
        shares = importance.float().masked_fill(words == 0, -1e4).softmax(dim=1)
        return shares * words.sum(dim=1, keepdim=True)


class Texts(NamedTuple):
    """L sentences: the tokens (L, T) of words, padded, or edges (W, 3) one after another; and how many each has."""

    tokens: Tensor
    lengths: Tensor  # (L,)

    def to(self, device: torch.device) -> Texts:
        return Texts(self.tokens.to(device), self.lengths.to(device))


class AlignmentNet(nn.Module):
    """Both halves. A learned temperature stands beside them for losses that need one."""

    def __init__(self, config: AlignmentConfig, code: int, tokens: int, relations: int = 0) -> None:
        super().__init__()
        self.config = config
        self.regions = RegionVectors(code, config)
        self.words: nn.Module
        if config.words == "edges":
            from regiontalk.nets.fragments import EdgeVectors

            self.words = EdgeVectors(tokens, relations, config)
        else:
            self.words = WordVectors(tokens, config)
        self.log_scale = nn.Parameter(torch.tensor(math.log(FIRST_SCALE)))

    def read(self, texts: Texts) -> Tensor:
        """The vectors (W, h) of all words, sentence after sentence."""
        if self.config.words == "edges":
            return self.words(texts.tokens)
        mask = torch.arange(texts.tokens.shape[1], device=texts.tokens.device) < texts.lengths[:, None]
        return self.words(texts.tokens, mask.float())[mask]

    def scores(self, vectors: Tensor, used: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """How well photos, vectors (K, R, h), and sentences, words (W, h), fit: (K, L)."""
        if self.config.score == "fragments":
            from regiontalk.nets.fragments import fragment_scores

            return fragment_scores(vectors, words, used, lengths)
        total = sum_sentences(word_scores(vectors, words, used), lengths)  # eq. 8
        return total / lengths.clamp(min=1) if self.config.score == "cosine" else total


def sum_sentences(values: Tensor, lengths: Tensor) -> Tensor:
    """values (K, W) -> sums (K, L) over the words of each sentence.

    Not by a product of matrices, which autocast would round to eight bits: sentences would come out alike.
    """
    sentence = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
    sums = torch.zeros(len(values), len(lengths), device=values.device)
    return sums.index_add(1, sentence, values.float())
