"""Encoders of sentences for the alignment nets: words in their context.

Letters: L sentences, T words of each, e the size of a word's vector.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.lab.nets.text_tower import TextTower, TextTowerConfig

ATTENTION_HEADS = 4  # of attention
WINDOW_WORDS = 24  # words that are read at a time; the exported graph is unrolled to this length
HEAD_WIDTH = 32  # numbers of a token that each of all-MiniLM-L6-v2's attention heads reads
SENTENCE_ENDS = ("[CLS]", "[SEP]")  # BERT's tokens before and after a sentence


def recur(
    step: Callable[[Tensor, Tensor], Tensor], x: Tensor, mask: Tensor, h: Tensor, backwards: bool
) -> Tensor:
    """x (L, T, ·), mask (L, T), first state (L, hidden) -> states (L, T, hidden); after a
    sentence's last word they are zero.

    A loop: the exporter unrolls it, and with the mask one unrolled length works for all sentences.
    """
    states = []
    for t in reversed(range(x.shape[1])) if backwards else range(x.shape[1]):
        h = step(x[:, t], h) * mask[:, t, None]
        states.append(h)
    return torch.stack(states[::-1] if backwards else states, dim=1)


class Brnn(nn.Module):
    """x (L, T, e), mask (L, T) -> (L, T, hidden); eqs. 3–6 up to the sum of both directions."""

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
        zeros = e.new_zeros(len(e), self.hidden)
        h_f = recur(
            lambda e_t, h: F.relu(e_t + self.forwards(h)), e, mask, zeros, backwards=False
        )  # eq. 4
        h_b = recur(
            lambda e_t, h: F.relu(e_t + self.backwards(h)), e, mask, zeros, backwards=True
        )  # eq. 5
        return h_f + h_b


class Gru(nn.Module):
    """x (L, T, e), mask (L, T) -> (L, T, hidden), the sum of both directions."""

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
        def step(entering: Tensor, h: Tensor) -> Tensor:  # (L, 3 · hidden), (L, hidden)
            reset_in, update_in, new_in = entering.chunk(3, dim=-1)
            reset_h, update_h, new_h = self.recur[direction](h).chunk(3, dim=-1)
            update = torch.sigmoid(update_in + update_h)
            new = torch.tanh(new_in + torch.sigmoid(reset_in + reset_h) * new_h)
            return (1 - update) * new + update * h

        zeros = x.new_zeros(len(x), self.hidden)
        return recur(step, self.enter[direction](x), mask, zeros, backwards=direction == 1)


class Transformer(nn.Module):
    """x (L, T, e), mask (L, T) -> (L, T, hidden), by one layer."""

    def __init__(self, embedding: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.enter = nn.Linear(embedding, hidden)
        self.positions = nn.Parameter(torch.randn(WINDOW_WORDS, hidden) * 0.02)
        self.layer = nn.TransformerEncoderLayer(
            hidden,
            ATTENTION_HEADS,
            2 * hidden,
            dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.leave = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.enter(x) + self.positions[: x.shape[1]]
        return self.leave(self.layer(x, src_key_padding_mask=mask == 0))


class Bert(nn.Module):
    """x (L, T, e), mask (L, T) -> (L, T, e), by the encoder of a BERT model, which starts from its
    pretrained weights.

    Differs from BERT: a word is one token, however many pieces BERT would cut it into. So a word
    has one vector, as in K&FF's sentences. Sentences whose words are pieces are read as BERT does.
    """

    def __init__(self, embedding: int, dropout: float) -> None:
        super().__init__()
        heads = max(embedding // HEAD_WIDTH, 1)
        config = TextTowerConfig(width=embedding, heads=heads, dropout=dropout)
        self.tower = TextTower(len(SENTENCE_ENDS), config)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        start, end = self.tower.tokens.weight
        places = torch.arange(x.shape[1] + 2, device=x.device)
        last = mask.sum(dim=1, keepdim=True) + 1  # (L, 1), the place of END
        borders = x.new_zeros(len(x), 1, x.shape[2])
        padded = torch.cat([borders + start.to(x.dtype), x, borders], dim=1)  # (L, T + 2, e)
        padded = torch.where((places == last)[..., None], end.to(x.dtype), padded)
        return self.tower.encode(padded, places <= last)[:, 1:-1]
