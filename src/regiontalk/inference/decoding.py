"""Decodes captions from a step function: greedily, by sampling, or by beam search.

Shapes: R regions, V tokens, W the beam width. All regions are decoded together; a caption that has
ended is not stepped further. `<UNK>` is never emitted, and no caption is empty. Log-probabilities
are the model's own: they are not renormalised if rules forbid words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from regiontalk.language.vocabulary import END, UNKNOWN

Floats = NDArray[np.floating]
Integers = NDArray[np.int64]
State = tuple[NDArray[np.float32], ...]
"""Arrays with a row for every region (or for every beam of every region)."""
Rows = NDArray[np.intp]
Step = Callable[[Integers, State], tuple[Floats, State]]
"""Tokens (R,) and state -> log-probabilities of what follows (R, V), and the new state."""
Start = int | Integers
"""The first token: one for all regions, or one for each (R,)."""
Choose = Callable[[Floats], Integers]
"""Allowed log-probabilities (R, V), −inf where forbidden -> tokens (R,)."""


@dataclass(frozen=True)
class Caption:
    tokens: tuple[int, ...]
    """The words, without START and END."""
    logprobs: tuple[float, ...]
    """The log-probability of each word, and of END where it was reached."""

    @property
    def logprob(self) -> float:
        return sum(self.logprobs)

    @property
    def mean_logprob(self) -> float:
        """The mean for every word; END counts as one."""
        return self.logprob / (len(self.tokens) + 1)


@dataclass(frozen=True)
class Rules:
    """Rules for captions, and how those of different lengths are compared."""

    longest: int
    """Maximum number of words in a caption."""
    once: frozenset[int] = frozenset()
    """Tokens that a caption may have only once."""
    never_last: frozenset[int] = frozenset()
    """Tokens that END must not follow."""
    length_penalty: float = 0.0
    """α of Wu et al. 2016, eq. 14: beam search divides a log-probability by ((5 + words) / 6)^α, or
    it prefers the shortest caption. At 0 the likeliest one is the best."""
    limits: Integers | None = None
    """(R,) Maximum number of words in the caption of each region; None: `longest` for all."""

    def score(self, caption: Caption) -> float:
        """The score that beam search sorts by."""
        return self._normalised(caption.logprob, len(caption.logprobs))

    def highest(self, logprob: float) -> float:
        """The score that a caption with this log-probability so far may get."""
        return self._normalised(logprob, self.longest)

    def _normalised(self, logprob: float, length: int) -> float:
        return float(logprob / ((5 + length) / 6) ** self.length_penalty)


def likeliest(logprobs: Floats) -> Integers:
    """The likeliest token of each region."""
    tokens: Integers = logprobs.argmax(axis=1)
    return tokens


def word_by_word(
    step: Step, state: State, start: Start, rules: Rules, choose: Choose = likeliest
) -> list[Caption]:
    """Decodes one caption of each region; `choose` takes its next word, by default greedily."""
    count = len(state[0])
    words: list[list[int]] = [[] for _ in range(count)]
    word_logprobs: list[list[float]] = [[] for _ in range(count)]
    going = np.arange(count)  # the regions whose captions have not ended
    tokens = np.full(count, start, dtype=np.int64)
    for _ in range(rules.longest):
        if not len(going):
            break
        logprobs, state = step(tokens, state)
        allowed = _forbid(logprobs, [words[region] for region in going], rules, going)
        tokens = choose(allowed).astype(np.int64)
        chosen = allowed[np.arange(len(going)), tokens]
        for region, token, logprob in zip(
            going.tolist(), tokens.tolist(), chosen.tolist(), strict=True
        ):
            word_logprobs[region].append(logprob)
            if token != END:
                words[region].append(token)
        is_going = tokens != END
        going = going[is_going]
        tokens = tokens[is_going]
        state = tuple(part[is_going] for part in state)
    return [
        Caption(tuple(tokens), tuple(logprobs))
        for tokens, logprobs in zip(words, word_logprobs, strict=True)
    ]


def sample(
    step: Step,
    state: State,
    start: Start,
    rules: Rules,
    generator: np.random.Generator,
    temperature: float = 1.0,
    top_p: float = 1.0,
) -> list[Caption]:
    """Samples words with probability ∝ p^(1/temperature): near 0 it takes the likeliest ones,
    above 1 it is more random.

    Only the likeliest words that together have the probability `top_p` are sampled (Holtzman et al.
    2020).
    """

    def draw(logprobs: Floats) -> Integers:
        # argmax(log p / T + Gumbel noise) is a draw from the softmax of log p / T
        noise = generator.gumbel(size=logprobs.shape)
        tokens: Integers = (_nucleus(logprobs / temperature, top_p) + noise).argmax(axis=1)
        return tokens

    return word_by_word(step, state, start, rules, draw)


def _nucleus(logits: Floats, top_p: float) -> Floats:
    """Logits (R, V), −inf for the tokens that are not needed to reach the probability `top_p`."""
    order = np.argsort(-logits, axis=1, kind="stable")
    ranked = np.take_along_axis(logits, order, axis=1)
    probabilities = np.exp(ranked - np.logaddexp.reduce(ranked, axis=1, keepdims=True))
    before = probabilities.cumsum(axis=1) - probabilities  # of all likelier tokens
    kept = np.where(before < top_p, ranked, -np.inf)
    kept[:, 0] = ranked[:, 0]
    back = np.empty_like(kept)
    np.put_along_axis(back, order, kept, axis=1)
    return back


def _forbid(
    logprobs: Floats, captions: Sequence[Sequence[int]], rules: Rules, regions: Rows
) -> Floats:
    """Log-probabilities (R, V) in float64, −inf for tokens that must not follow the words of the
    captions so far, of these regions (R,)."""
    allowed = logprobs.astype(np.float64)
    allowed[:, UNKNOWN] = -np.inf
    if rules.limits is not None:
        lengths = np.array([len(words) for words in captions], dtype=np.intp)
        allowed[lengths >= rules.limits[regions], END + 1 :] = -np.inf
    for row, words in zip(allowed, captions, strict=True):
        row[[*repeating_words(words), *rules.once.intersection(words)]] = -np.inf
        if (not words or words[-1] in rules.never_last) and (row[END + 1 :] > -np.inf).any():
            row[END] = -np.inf
    return allowed


def repeating_words(words: Sequence[int]) -> list[int]:
    """The words that would complete an immediate repetition of a word or phrase: a cat and a | cat
    -> no; a big | big -> yes; in a hat in a | hat -> yes.
    """
    words_so_far = list(words)
    end = len(words_so_far)
    repeating = []
    for length in range(1, (end + 1) // 2 + 1):
        if words_so_far[end - length + 1 :] == words_so_far[end - 2 * length + 1 : end - length]:
            repeating.append(words_so_far[end - length])
    return repeating


@dataclass(frozen=True)
class _Beam:
    """A caption in progress."""

    row: int
    """The row of the step's state that belongs to it."""
    words: tuple[int, ...]
    logprobs: tuple[float, ...]

    @property
    def logprob(self) -> float:
        return sum(self.logprobs)


def beam_search(
    step: Step, state: State, start: Start, rules: Rules, width: int
) -> list[list[Caption]]:
    """The best captions of every region by a beam of `width`: at most `width` captions, best first.

    Finished captions compete with those in progress, so a search ends as soon as none of the latter
    can reach the best `width`. Of equally good ones, the first found comes first.
    """
    if width == 1:
        return [
            [caption] for caption in word_by_word(step, state, start, rules)
        ]  # the same, but quicker
    beams = [[_Beam(row, (), ())] for row in range(len(state[0]))]
    ended: list[list[Caption]] = [[] for _ in beams]
    tokens = np.full(len(beams), start, dtype=np.int64)
    for position in range(rules.longest):
        if not len(tokens):
            break
        logprobs, state = step(tokens, state)
        stepped = list(itertools.chain.from_iterable(beams))
        regions = np.repeat(np.arange(len(beams)), [len(going) for going in beams])
        allowed = _forbid(logprobs, [beam.words for beam in stepped], rules, regions)
        is_last = position == rules.longest - 1
        for region, going in enumerate(beams):
            grown = _grow(going, allowed, width)
            ended[region] += [_finish(beam) for beam in grown if is_last or _is_over(beam)]
            ended[region] = sorted(ended[region], key=lambda caption: -rules.score(caption))[:width]
            beams[region] = [] if is_last else _promising(grown, ended[region], width, rules)
        going_on = list(itertools.chain.from_iterable(beams))
        rows = [beam.row for beam in going_on]
        tokens = np.array([beam.words[-1] for beam in going_on], dtype=np.int64)
        state = tuple(part[rows] for part in state)
        row_numbers = itertools.count()
        for region, going in enumerate(beams):
            beams[region] = [replace(beam, row=next(row_numbers)) for beam in going]
    return ended


def _grow(beams: Sequence[_Beam], allowed: Floats, width: int) -> list[_Beam]:
    """The `width` likeliest continuations by a word (or END), likeliest first."""
    if not beams:
        return []
    logprobs = np.array([beam.logprob for beam in beams])
    totals = logprobs[:, None] + allowed[[beam.row for beam in beams]]  # (W, V)
    grown = []
    for index in _largest(totals.ravel(), width).tolist():
        number, token = divmod(index, totals.shape[1])
        beam = beams[number]
        logprob = float(allowed[beam.row, token])
        grown.append(_Beam(beam.row, (*beam.words, token), (*beam.logprobs, logprob)))
    return grown


def _largest(values: Floats, count: int) -> NDArray[np.intp]:
    """The indices of the `count` largest values, largest first; of equal ones the first. −inf is
    left out."""
    least = np.partition(values, -count)[-count] if count < len(values) else -np.inf
    indices = np.flatnonzero((values >= least) & (values > -np.inf))
    return indices[np.argsort(-values[indices], kind="stable")][:count]


def _is_over(beam: _Beam) -> bool:
    return beam.words[-1] == END


def _finish(beam: _Beam) -> Caption:
    return Caption(beam.words[:-1] if _is_over(beam) else beam.words, beam.logprobs)


def _promising(
    grown: Sequence[_Beam], ended: Sequence[Caption], width: int, rules: Rules
) -> list[_Beam]:
    """The captions in progress that could still end among the best: log-probabilities only ever
    fall."""
    worst = rules.score(ended[-1]) if len(ended) == width else -np.inf
    return [beam for beam in grown if not _is_over(beam) and rules.highest(beam.logprob) > worst]
