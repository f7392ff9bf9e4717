"""Eq. 8 and the chain of eqs. 10–12: against brute force, and the same from numpy and torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regiontalk.inference.maxsim import (
    PADDING_SCORE,
    align_words,
    segments,
    similarities,
    word_scores,
)

small = st.floats(-3, 3, width=32)


def energy(fits: np.ndarray, chosen: np.ndarray, beta: float | np.ndarray) -> float:
    """E(a) of eq. 10."""
    unary = fits[np.arange(len(chosen)), chosen].sum()
    return float(unary + (beta * (chosen[1:] == chosen[:-1])).sum())


@st.composite
def chains(draw: st.DrawFn) -> tuple[np.ndarray, float | np.ndarray]:
    """Fits, and a β for all neighbours or one for each two."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 4)))
    beta = st.floats(0, 3, width=32)
    betas = st.one_of(beta, arrays(np.float64, shape[0] - 1, elements=beta))
    return draw(arrays(np.float64, shape, elements=small)), draw(betas)


@given(chains())
@settings(max_examples=150, deadline=None)
def test_the_chain_is_the_best_of_all_chains(
    given_chain: tuple[np.ndarray, float | np.ndarray],
) -> None:
    fits, beta = given_chain
    best = max(
        energy(fits, np.array(chosen), beta)
        for chosen in itertools.product(range(fits.shape[1]), repeat=len(fits))
    )
    assert energy(fits, align_words(fits, beta), beta) == pytest.approx(best, abs=1e-9)


@given(chains())
@settings(max_examples=50, deadline=None)
def test_without_beta_every_word_goes_to_its_best_region(
    given_chain: tuple[np.ndarray, float | np.ndarray],
) -> None:
    fits, _ = given_chain
    chosen = align_words(fits, 0.0)
    np.testing.assert_allclose(fits[np.arange(len(fits)), chosen], fits.max(axis=1), atol=1e-9)


def test_a_large_beta_keeps_all_words_together() -> None:
    fits = np.random.default_rng(0).normal(size=(9, 5))
    chosen = align_words(fits, 100.0)
    assert set(chosen) == {int(fits.sum(axis=0).argmax())}


def test_a_word_alone_and_none_at_all() -> None:
    assert align_words(np.array([[1.0, 3.0, 2.0]]), 1.0).tolist() == [1]
    assert align_words(np.zeros((0, 4)), 1.0).tolist() == []
    assert segments(np.zeros(0, dtype=int)) == []


def test_segments_are_stretches_of_one_region() -> None:
    assert segments(np.array([2, 2, 0, 2, 1, 1])) == [(0, 2), (2, 3), (3, 4), (4, 6)]


def test_scores_are_eq_8_in_numpy_and_torch() -> None:
    random = np.random.default_rng(1)
    vectors, words = random.normal(size=(3, 4, 5)), random.normal(size=(6, 5))
    used = np.array([[True] * 4, [True, False, False, False], [True, True, True, False]])
    found = word_scores(vectors, words, used)
    for photo, word in itertools.product(range(3), range(6)):
        expected = max(
            vectors[photo, region] @ words[word] for region in range(4) if used[photo, region]
        )
        assert found[photo, word] == pytest.approx(expected)
    in_torch = word_scores(
        torch.from_numpy(vectors), torch.from_numpy(words), torch.from_numpy(used)
    )
    assert in_torch.numpy() == pytest.approx(found)
    assert similarities(vectors, words, used)[1, 2, 0] == PADDING_SCORE


def test_gradients_reach_the_best_region_alone() -> None:
    vectors = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    words = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    used = torch.tensor([[True, True, False], [True, True, True]])
    word_scores(vectors, words, used).sum().backward()
    assert vectors.grad is not None
    assert not vectors.grad[0, 2].any()
    assert torch.autograd.gradcheck(lambda v, w: word_scores(v, w, used), (vectors, words))
