"""Sentences that a net draws, and how good they are: learning from CIDEr itself instead of likelihood.

Differs from the paper, which knows likelihood alone. For every subject several sentences are drawn; one that is better
than the others becomes likelier, one that is worse less likely (REINFORCE with the mean of the others as a baseline).

Shapes: S subjects, M draws of each, R = S·M sentences, T words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from regiontalk.evaluation.captions import CiderVector, CiderWeights, ngrams
from regiontalk.nets.multimodal_rnn import MultimodalRNN, Seen
from regiontalk.training.subjects import Subject, known_tokens
from regiontalk.vocabulary import END, UNKNOWN, Vocabulary


class Drawn(NamedTuple):
    """Sentences by falling length."""

    words: Tensor  # (R, T) and END
    lengths: Tensor  # (R,) words and END
    rows: Tensor  # (R,) of what each was drawn for


@torch.no_grad()
def draw(net: MultimodalRNN, seen: Seen, start: int, longest: int) -> Drawn:
    """One sentence for every row, its words drawn by their probability."""
    state = net.begin(seen)
    token = torch.full((len(seen.bias),), start, device=seen.bias.device)
    going = torch.ones_like(token, dtype=torch.bool)
    words = []
    for _ in range(longest):
        logprobs, state = net.step(token, state)
        logprobs[:, UNKNOWN] = -torch.inf
        token = torch.where(going, torch.multinomial(logprobs.exp(), 1)[:, 0], END)
        words.append(token)
        going = going & (token != END)
        if not going.any():
            break
    said = torch.stack([*words, torch.full_like(token, END)], dim=1)
    lengths = (said != END).sum(dim=1) + 1
    order = torch.argsort(lengths, descending=True, stable=True)
    return Drawn(said[order, : int(lengths.max())], lengths[order], order)


def advantages(rewards: Tensor, draws: int) -> Tensor:
    """How much better each of R = S·M sentences is than the mean of the others drawn for its subject."""
    by_subject = rewards.view(-1, draws)
    others = (by_subject.sum(dim=1, keepdim=True) - by_subject) / (draws - 1)
    return (by_subject - others).flatten()


@dataclass
class CiderReward:
    """CIDEr of a sentence against its subject's texts; END counts as a word, so that sentences learn to end well."""

    weights: CiderWeights
    words: Vocabulary
    known: dict[tuple[int, int], list[CiderVector]] = field(default_factory=dict)

    @classmethod
    def of(cls, subjects: Sequence[Subject], words: Vocabulary) -> CiderReward:
        """What is rare is rare among these subjects' texts."""
        frequency: Counter[tuple[str, ...]] = Counter()
        for subject in subjects:
            frequency.update({gram for text in subject.texts for gram in ngrams(_spoken(text.words, words))})
        return cls(CiderWeights(frequency, math.log(max(len(subjects), 2))), words)

    def __call__(self, subject: Subject, tokens: Sequence[int]) -> float:
        vector = self.weights(ngrams([str(token) for token in tokens]))
        references = self._references(subject)
        return 10 * sum(vector.similarity(one) for one in references) / len(references)

    def _references(self, subject: Subject) -> list[CiderVector]:
        key = (subject.photo, subject.row)
        if key not in self.known:
            self.known[key] = [self.weights(ngrams(_spoken(text.words, self.words))) for text in subject.texts]
        return self.known[key]


def _spoken(text: str, words: Vocabulary) -> list[str]:
    """A text as what the net could say of it, END included; tokens stand for words."""
    return [str(token) for token in (*known_tokens(text, words), END)]
