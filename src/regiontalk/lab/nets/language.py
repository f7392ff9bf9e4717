"""The LSTM language model (DenseCap 3.1.4).

Shapes: R regions, D the size of a code, T words, V tokens that can be predicted (END included).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.boxes import PLACE_NUMBERS


@dataclass(frozen=True)
class LanguageConfig:
    embedding: int = 512
    """Size of a word embedding."""
    hidden: int = 512
    """Size of the LSTM."""
    feed: Literal["once", "always"] = "once"
    """`once`: the code is an input only before START (the paper). `always`: it is an input with
    every word."""
    surroundings: bool = False
    """Differs from the paper: the whole photo's code and the box's geometry are added to the
    region's code."""
    dropout: float = 0.0
    """Dropout on words and on the LSTM's output."""


class LanguageModel(nn.Module):
    """x₋₁ = ReLU(linear(code)), then START, then the words; y₋₁ is ignored; END closes the
    caption."""

    def __init__(self, code: int, tokens: int, starts: int, config: LanguageConfig) -> None:
        super().__init__()
        self.feed = config.feed
        self.surroundings = config.surroundings
        self.dropout = config.dropout
        self.hidden = config.hidden
        self.visual = nn.Linear(
            code * 2 + PLACE_NUMBERS if self.surroundings else code, config.embedding
        )
        self.embedding = nn.Embedding(tokens + starts, config.embedding)
        beside = config.embedding if self.feed == "always" else 0
        self.lstm = nn.LSTM(config.embedding + beside, config.hidden, batch_first=True)
        self.output = nn.Linear(config.hidden, tokens)

    def visual_inputs(self, codes: Tensor, photo_codes: Tensor, geometry: Tensor) -> Tensor:
        """The model's input for each region: codes (R, D), its photo's code (R, D), geometry (R, 5)
        -> (R, E)."""
        visible = (
            torch.cat([codes, photo_codes, geometry.to(codes.dtype)], dim=1)
            if self.surroundings
            else codes
        )
        return F.relu(self.visual(visible))

    def forward(
        self, visual_inputs: Tensor, tokens: Tensor, counted: Tensor | None = None
    ) -> Tensor:
        """Teacher forcing: START and words (R, T) -> logits of what follows each of them (R, T, V).

        With `counted` (R, T) only for those W positions (W, V). Most captions are much shorter than
        the longest, and logits of padding are not needed.
        """
        words = F.dropout(self.embedding(tokens), self.dropout, self.training)  # (R, T, E)
        if self.feed == "always":
            hidden, _ = self.lstm(
                torch.cat([words, visual_inputs[:, None, :].expand_as(words)], dim=2)
            )
        else:
            hidden, _ = self.lstm(torch.cat([visual_inputs[:, None, :], words], dim=1))
            hidden = hidden[:, 1:]  # y₋₁ is ignored
        hidden = hidden if counted is None else hidden[counted]
        return self.output(F.dropout(hidden, self.dropout, self.training))

    def begin(self, visual_inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The state (h, c), each (R, H), before START is fed."""
        zeros = visual_inputs.new_zeros(visual_inputs.shape[0], self.hidden)
        return (zeros, zeros) if self.feed == "always" else self._cell(visual_inputs, zeros, zeros)

    def step(
        self, tokens: Tensor, h: Tensor, c: Tensor, visual_inputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One decoding step: tokens (R,), state (R, H) twice, visual inputs (R, E) ->
        log-probabilities (R, V) and the new state."""
        word = self.embedding(tokens)
        h, c = self._cell(
            torch.cat([word, visual_inputs], dim=1) if self.feed == "always" else word, h, c
        )
        return torch.log_softmax(self.output(h), dim=1, dtype=torch.float32), h, c

    def _cell(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One LSTM step with the weights of `self.lstm`; on the CPU written out so that it exports
        as plain operations, on a GPU three kernels."""
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        from_input, from_state, input_bias, state_bias = (
            self.lstm.get_parameter(name) for name in names
        )
        if x.is_cuda:
            return torch.lstm_cell(x, (h, c), from_input, from_state, input_bias, state_bias)
        gates = F.linear(x, from_input, input_bias) + F.linear(h, from_state, state_bias)
        i, f, g, o = gates.chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
