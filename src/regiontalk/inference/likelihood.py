"""Likelihood of given phrases for given regions by the language model, with teacher forcing
(DenseCap section 4.2).

    log p(phrase | region) = Σₜ log p(wordₜ | START, the words before, region) + log p(END | phrase,
    region)

It is a sum, as in the paper; `per_word` divides it by the number of words, END included. START is
that of captions at inference. A word that the model does not know is `<UNK>`, as in training.

The phrases are put into a prefix tree, so that a common prefix is computed once.

Shapes: P phrases, R regions, N nodes of the tree, M pairs of a node and a region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference.decoding import State
from regiontalk.language.vocabulary import END, Vocabulary, clean_karpathy
from regiontalk.models.runtime import Runtime

ROWS_AT_ONCE = 100  # in a step; measured to be the fastest
BOUND_REGIONS = 4  # regions of each phrase that are followed to get a bound

LogProbs = NDArray[np.float64]
Rows = NDArray[np.intp]
Tokens = Sequence[int]


class Best(NamedTuple):
    """The region that each phrase is likeliest for."""

    logprobs: LogProbs
    """(P,) the log-probability of each phrase in that region."""
    rows: Rows
    """(P,) the region's row."""


def clean_phrase(phrase: str, words: Vocabulary) -> list[str]:
    """The words of a phrase, cleaned as in training, also if it is longer than phrases there."""
    return words.clean(phrase) or clean_karpathy(phrase)


def per_word(logprobs: LogProbs, phrases: Sequence[Tokens]) -> LogProbs:
    """Log-probabilities (P, R) per word, END included, so that phrases of different lengths can be
    compared."""
    shared: LogProbs = logprobs / (1 + np.array([len(tokens) for tokens in phrases]).reshape(-1, 1))
    return shared


def log_probabilities(runtime: Runtime, state: State, phrases: Sequence[Tokens]) -> LogProbs:
    """(P, R), for regions with the language model's state before START."""
    tree = _Tree.of(phrases, runtime.words)
    return _follow(runtime, state, tree, lambda pairs: np.ones(len(pairs.nodes), dtype=bool))[
        tree.ends
    ]


def word_log_probabilities(runtime: Runtime, state: State, words: Sequence[str]) -> LogProbs:
    """(W, R): log ½ [p(word | START, region) + p(word | START, "a", region)], of a caption that
    begins with the word, or with "a" and the word. Two steps, however many words there are."""
    count = len(state[0])
    (article,) = runtime.words.encode(["a"])
    tokens = runtime.words.encode(words)
    first, next_state = runtime.step(np.full(count, runtime.words.start()), state)
    second, _ = runtime.step(np.full(count, article), next_state)
    logprobs: LogProbs = np.logaddexp(first[:, tokens], second[:, tokens]).T - np.log(2)
    return logprobs.astype(np.float64)


def best_regions(
    runtime: Runtime, state: State, phrases: Sequence[Tokens], exact: bool = True
) -> Best:
    """The highest of `log_probabilities` for each phrase, and its region, without computing all of
    them.

    First each phrase is followed in the `BOUND_REGIONS` regions where its prefixes are likeliest.
    The best of them is a lower bound. Since every word lowers a log-probability, a region whose
    prefix is not above the bound cannot be better; `exact` follows all others to their end."""
    tree = _Tree.of(phrases, runtime.words)
    counts = BOUND_REGIONS * tree.phrases_through()
    totals = _follow(runtime, state, tree, lambda pairs: _likeliest(pairs, counts))
    if exact:
        bounds = tree.lowest_through(totals.max(axis=1))
        above = _follow(runtime, state, tree, lambda pairs: pairs.totals > bounds[pairs.nodes])
        totals = np.maximum(totals, above)
    return Best(totals.max(axis=1)[tree.ends], totals.argmax(axis=1)[tree.ends])


@dataclass(frozen=True)
class _Tree:
    """The prefix tree of phrases: a node is a token after the tokens of its parents; the roots are
    START tokens. Nodes come after their parents."""

    tokens: NDArray[np.int64]
    """(N,) the token of each node."""
    parents: NDArray[np.intp]
    """(N,) the parent of each node; −1 for roots."""
    ends: NDArray[np.intp]
    """(P,) the node of each phrase's last word."""

    @classmethod
    def of(cls, phrases: Sequence[Tokens], words: Vocabulary) -> _Tree:
        nodes: dict[tuple[int, int], int] = {}  # (parent, token) -> node
        ends = []
        for tokens in phrases:
            node = -1
            for token in (words.start(), *tokens):
                node = nodes.setdefault((node, token), len(nodes))
            ends.append(node)
        parents, read = np.array(list(nodes), dtype=np.int64).reshape(-1, 2).T
        return cls(read, parents.astype(np.intp), np.array(ends, dtype=np.intp))

    def children(self, node: int) -> NDArray[np.intp]:
        return np.flatnonzero(self.parents == node)

    def phrases_through(self) -> NDArray[np.intp]:
        """(N,) how many different phrases go through each node."""
        counts = np.zeros(len(self.tokens), dtype=np.intp)
        counts[self.ends] = 1
        self._pass_up(np.add, counts)
        return counts

    def lowest_through(self, values: LogProbs) -> LogProbs:
        """(N,) the lowest of the values (N,) at the ends of the phrases that go through each
        node."""
        lowest = np.full(len(self.tokens), np.inf)
        lowest[self.ends] = values[self.ends]
        self._pass_up(np.minimum, lowest)
        return lowest

    def _pass_up(self, join: np.ufunc, values: NDArray[np.generic]) -> None:
        """Combines each node's value with its parent's, from the leaves to the roots."""
        for node in range(len(values) - 1, -1, -1):
            if self.parents[node] >= 0:
                values[self.parents[node]] = join(values[self.parents[node]], values[node])


class _Pairs(NamedTuple):
    """Prefixes in progress, each with a region."""

    nodes: NDArray[np.intp]
    """(M,) the last node of each prefix."""
    rows: Rows
    """(M,) the region of each prefix."""
    totals: LogProbs
    """(M,) the log-probability of each prefix."""
    state: State
    """The language model's state before the last node's token."""

    def take(self, kept: NDArray[np.bool_] | NDArray[np.intp]) -> _Pairs:
        return _Pairs(
            self.nodes[kept],
            self.rows[kept],
            self.totals[kept],
            tuple(part[kept] for part in self.state),
        )


def _follow(
    runtime: Runtime, state: State, tree: _Tree, keep: Callable[[_Pairs], NDArray[np.bool_]]
) -> LogProbs:
    """Log-probabilities (N, R) of the phrases that end at each node; −inf if none ends there, or if
    `keep` (M,) dropped the pair. All nodes of one depth are stepped together."""
    regions = len(state[0])
    totals = np.full((len(tree.tokens), regions), -np.inf)
    ends = np.zeros(len(tree.tokens), dtype=bool)
    ends[tree.ends] = True
    children = [tree.children(node) for node in range(len(tree.tokens))]
    roots = tree.children(-1)
    rows = np.tile(np.arange(regions), len(roots))
    pairs = _Pairs(
        nodes=np.repeat(roots, regions),
        rows=rows,
        totals=np.zeros(len(rows)),
        state=tuple(part[rows] for part in state),
    )
    while len(pairs.nodes):
        grown = []
        for start in range(0, len(pairs.nodes), ROWS_AT_ONCE):
            chunk = pairs.take(np.arange(start, min(start + ROWS_AT_ONCE, len(pairs.nodes))))
            logprobs, next_state = runtime.step(tree.tokens[chunk.nodes], chunk.state)
            ending = ends[chunk.nodes]
            end_totals = (chunk.totals + logprobs[:, END])[ending]
            totals[chunk.nodes[ending], chunk.rows[ending]] = end_totals
            grown.append(_grow(chunk._replace(state=next_state), logprobs, tree.tokens, children))
        pairs = _join(grown)
        pairs = pairs.take(keep(pairs))
    return totals


def _grow(
    pairs: _Pairs,
    logprobs: NDArray[np.floating],
    tokens: NDArray[np.int64],
    children: Sequence[NDArray[np.intp]],
) -> _Pairs:
    """Every pair, extended by each of the words that follow in a phrase."""
    counts = [len(children[node]) for node in pairs.nodes]
    numbers = np.repeat(np.arange(len(pairs.nodes)), counts)
    nodes = np.concatenate([np.empty(0, dtype=np.intp), *(children[node] for node in pairs.nodes)])
    grown = pairs.take(numbers)
    return grown._replace(nodes=nodes, totals=grown.totals + logprobs[numbers, tokens[nodes]])


def _join(parts: Sequence[_Pairs]) -> _Pairs:
    nodes, rows, totals, states = zip(*parts, strict=True)
    state = tuple(np.concatenate(columns) for columns in zip(*states, strict=True))
    return _Pairs(np.concatenate(nodes), np.concatenate(rows), np.concatenate(totals), state)


def _likeliest(pairs: _Pairs, counts: NDArray[np.intp]) -> NDArray[np.bool_]:
    """(M,) which pairs are among the `counts` (N,) of their node with the highest totals."""
    order = np.lexsort((-pairs.totals, pairs.nodes))
    nodes = pairs.nodes[order]
    ranks = np.arange(len(nodes)) - np.searchsorted(nodes, nodes)
    kept = np.zeros(len(nodes), dtype=bool)
    kept[order] = ranks < counts[nodes]
    return kept
