"""The multimodal RNN (K&FF section 3.2): a sentence from the code of a photo or of a region.

Shapes: R sentences, D the size of a code, N nested views, K regions, E the size of a word's vector,
A that of attention, H of the hidden state, G = H (RNN) or 4H (LSTM: four gates), T words, V tokens
that can be predicted, I = G or, with multiplicative conditioning, G + H.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regiontalk.boxes import PLACE_NUMBERS

NESTED_VIEWS = 3  # a region, its surroundings and its whole photo
SMALLEST_STD = 0.05  # of a dimension of codes; one that hardly varies must not be amplified
FAR_BELOW = -1e4  # added to the attention logits of padding


@dataclass(frozen=True)
class MultimodalRNNConfig:
    """The defaults are the paper's."""

    cell: Literal["rnn", "lstm"] = "rnn"
    """`rnn`: eq. 14 with f = ReLU. `lstm`: the same sum goes into an LSTM's four gates."""
    embedding: int = 512
    """Size of a word embedding."""
    hidden: int = 512
    """Size of the state."""
    views: Literal[1, 3] = 1
    """1: only the region's code (the paper). 3: with those of its surroundings and of the whole
    photo, which the paper proposes as "multiple saccades"."""
    conditioning: Literal["additive", "multiplicative"] = "additive"
    """`additive`: the image adds b_v at the first step (the paper). `multiplicative`, which the
    paper names as more expressive: the image also scales the state before every word, W_hh (h ⊙
    m_v) in eq. 14, m_v = 1 + W_mi CNN."""
    attention: int = 0
    """Size of the attention over the photo's regions, which is computed for each word; 0: none (the
    paper)."""
    heads: int = 1
    """Attention heads."""
    dropout: float = 0.5
    """Dropout on words, on codes and before the output; never between states."""


class Seen(NamedTuple):
    """The image inputs of a sentence."""

    bias: Tensor  # (R, I) b_v, eq. 13, and m_v appended
    memory: (
        Tensor  # (R, K, A) what can be attended to; without attention the regions' places, unused
    )
    absent: Tensor  # (R, K) 0, or `FAR_BELOW` for padding


class State(NamedTuple):
    """Before the first word or between two; every part has a row for each sentence."""

    h: Tensor  # (R, H)
    c: Tensor  # (R, H) of the LSTM; unused by the RNN
    bias: Tensor  # (R, I) what the image adds, b_v at the first step, then nothing; and m_v, always
    memory: Tensor
    absent: Tensor


class MultimodalRNN(nn.Module):
    """Codes are first standardised to mean 0 and std 1 (`standardise`): they are sparse and
    small."""

    views_mean: Tensor
    views_std: Tensor
    regions_mean: Tensor
    regions_std: Tensor

    def __init__(self, code: int, tokens: int, styles: int, config: MultimodalRNNConfig) -> None:
        super().__init__()
        self.config = config
        gates = config.hidden * (4 if config.cell == "lstm" else 1)
        scales = config.hidden if config.conditioning == "multiplicative" else 0
        self.image = nn.Linear(code * config.views, gates + scales)  # W_hi, and W_mi appended
        self.embedding = nn.Embedding(tokens + styles, config.embedding)
        self.word = nn.Linear(config.embedding, gates)  # W_hx and b_h
        self.recurrent = nn.Linear(config.hidden, gates, bias=False)  # W_hh
        self.output = nn.Linear(config.hidden, tokens)  # W_oh and b_o
        if config.attention:
            self.remember = nn.Linear(code + PLACE_NUMBERS, config.attention)
            self.ask = nn.Linear(config.hidden + config.embedding, config.attention)
            self.attended = nn.Linear(config.attention, gates, bias=False)
            self.attended_output = nn.Linear(config.attention, tokens, bias=False)
        for name, shape in (("views", (config.views, code)), ("regions", (code,))):
            self.register_buffer(f"{name}_mean", torch.zeros(shape))
            self.register_buffer(f"{name}_std", torch.ones(shape))
        self._initialize()

    @torch.no_grad()
    def _initialize(self) -> None:
        """Words, image and state get about the same initial weight, whatever their sizes; an LSTM's
        forget gate starts open."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                largest = 1 / math.sqrt(parameter.shape[1])
                parameter.uniform_(-largest, largest)
            else:
                parameter.zero_()
        self.embedding.weight.uniform_(-1, 1)
        if self.config.cell == "lstm":
            self.word.bias[self.config.hidden : 2 * self.config.hidden] = 1.0
        self.image.bias[self.word.out_features :] = 1.0  # m_v starts near 1

    def code_layers(self) -> list[nn.Module]:
        """The layers that read codes."""
        return [self.image, self.remember] if self.config.attention else [self.image]

    @torch.no_grad()
    def standardise(self, views: Tensor, regions: Tensor) -> None:
        """Takes means and stds from training views (M, N, D) and regions (M', D)."""
        self.views_mean.copy_(views[:, : self.config.views].mean(dim=0))
        self.views_std.copy_(views[:, : self.config.views].std(dim=0).clamp(min=SMALLEST_STD))
        self.regions_mean.copy_(regions.mean(dim=0))
        self.regions_std.copy_(regions.std(dim=0).clamp(min=SMALLEST_STD))

    @torch.no_grad()
    def begin_with_frequencies(self, counts: Tensor) -> None:
        """b_o = log word frequencies, which the first steps would otherwise have to learn; counts
        (V,)."""
        smoothed = counts.to(self.output.bias) + 1.0
        self.output.bias.copy_(smoothed.log() - smoothed.log().max())

    def look(self, views: Tensor, regions: Tensor, places: Tensor) -> Seen:
        """views (R, N, D) of what the sentence is about, the photo's regions (R, K, D), their
        places (R, K, 5)."""
        codes = (views[:, : self.config.views] - self.views_mean) / self.views_std
        bias = self.image(self._drop(codes.flatten(1)))  # eq. 13
        absent = FAR_BELOW * (places[:, :, 4] <= 0).to(codes.dtype)
        if not self.config.attention:
            return Seen(bias, places, absent)
        codes = (regions - self.regions_mean) / self.regions_std
        memory = F.relu(self.remember(torch.cat([self._drop(codes), places], dim=2)))
        return Seen(bias, memory, absent)

    def begin(self, seen: Seen) -> State:
        """The state before START."""
        zeros = seen.bias.new_zeros(seen.bias.shape[0], self.config.hidden)
        return State(zeros, zeros, *seen)

    def forward(self, seen: Seen, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Teacher forcing: START and words (R, T), longest rows first -> logits of what follows
        each, (ΣT, V).

        `lengths` (R,) count START and words; nothing is computed after them. The result is in
        `packed` order.
        """
        state = self.begin(seen)
        words = self._drop(self.embedding(tokens))  # (R, T, E)
        driven = self.word(words)  # (R, T, G)
        hidden = []
        contexts = []
        for place in range(int(lengths.max())):
            going = int((lengths > place).sum())
            state = State(*(part[:going] for part in state))
            state, context = self._advance(words[:going, place], driven[:going, place], state)
            hidden.append(state.h)
            contexts.append(context)
        return self._logits(
            torch.cat(hidden), torch.cat(contexts) if self.config.attention else None
        )

    def text_logprobs(self, seen: Seen, tokens: Tensor, words: Tensor, lengths: Tensor) -> Tensor:
        """log p(text), (R,), of texts, longest first: START and words (R, T), words and END (R, T),
        lengths (R,)."""
        logprobs = torch.log_softmax(self(seen, tokens, lengths).float(), dim=1)
        of_words = logprobs.gather(1, packed(words, lengths)[:, None])[:, 0]
        rows = torch.arange(len(words), device=words.device)[:, None].expand_as(words)
        return of_words.new_zeros(len(words)).index_add(0, packed(rows, lengths), of_words)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """One decoding step: tokens (R,) -> log-probabilities of what follows (R, V), and the new
        state."""
        word = self.embedding(tokens)
        state, context = self._advance(word, self.word(word), state)
        logits = self._logits(state.h, context if self.config.attention else None)
        return torch.log_softmax(logits.float(), dim=1), state

    def _advance(self, word: Tensor, driven: Tensor, state: State) -> tuple[State, Tensor]:
        """Eq. 14 for a word (R, E) and its W_hx x_t + b_h (R, G); the new state, and the
        attention's result (R, A)."""
        before, added, later = self._condition(state)
        total = driven + self.recurrent(before) + added
        context = state.h
        if self.config.attention:
            context = self._attend(torch.cat([state.h, word], dim=1), state)
            total = total + self.attended(context)
        if self.config.cell == "lstm":
            i, f, g, o = total.chunk(4, dim=1)
            c = torch.sigmoid(f) * state.c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        else:
            h = F.relu(total)
            c = state.c
        return State(h, c, later, state.memory, state.absent), context

    def _condition(self, state: State) -> tuple[Tensor, Tensor, Tensor]:
        """The image's effect on this step: the scaled state (R, H), the added term (R, G), the bias
        of later steps."""
        if self.config.conditioning == "additive":
            return state.h, state.bias, torch.zeros_like(state.bias)
        added, scale = state.bias.split(
            [self.word.out_features, self.config.hidden], dim=1
        )  # b_v, m_v
        return state.h * scale, added, torch.cat([torch.zeros_like(added), scale], dim=1)

    def _attend(self, asking: Tensor, state: State) -> Tensor:
        """Attention over the regions' memories (R, K, A); each head has A/heads of A."""
        rows, regions, size = state.memory.shape
        heads = self.config.heads
        question = self.ask(asking).view(rows, heads, size // heads, 1)
        memory = state.memory.view(rows, regions, heads, size // heads).transpose(
            1, 2
        )  # (R, heads, K, A/heads)
        fit = (memory @ question).squeeze(3) / math.sqrt(size / heads) + state.absent[:, None]
        weights = torch.softmax(fit, dim=2)[:, :, None]  # (R, heads, 1, K)
        return (weights.to(memory.dtype) @ memory).reshape(rows, size)

    def _logits(self, hidden: Tensor, context: Tensor | None) -> Tensor:
        logits = self.output(self._drop(hidden))  # eq. 15
        return logits if context is None else logits + self.attended_output(self._drop(context))

    def _drop(self, values: Tensor) -> Tensor:
        return F.dropout(values, self.config.dropout, self.training)


def packed(values: Tensor, lengths: Tensor) -> Tensor:
    """Values (R, T, …) of rows, longest first -> those within the lengths (ΣT, …), position by
    position."""
    places = torch.arange(values.shape[1], device=values.device)
    return values.transpose(0, 1)[places[:, None] < lengths[None, :]]
