"""Teacher forcing against the same step by step, one phrase and one region at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.inference import likelihood
from regiontalk.inference.decoding import State
from regiontalk.language.vocabulary import END, UNKNOWN
from regiontalk.models.runtime import Runtime

PHRASES = ((2, UNKNOWN, 3), (2, 3), (2, 3, 4), (2,), (5, 2, 3), (2, 3), (4, 4, 4, 2), ())


@pytest.fixture(scope="module")
def runtime(tiny_model: Path) -> Runtime:
    return regiontalk.load(tiny_model).runtime


def made_up_state(runtime: Runtime, regions: int, scale: float = 3.0) -> State:
    """States at random: what a phrase is worth differs much from region to region."""
    hidden, seen = (int(runtime.info.net["language"][name]) for name in ("hidden", "embedding"))
    generator = np.random.default_rng(5)
    sizes = (hidden, hidden, seen)
    return tuple(
        (scale * generator.normal(size=(regions, size))).astype(np.float32) for size in sizes
    )


def one_by_one(runtime: Runtime, state: State, tokens: tuple[int, ...], row: int) -> float:
    """log p of one phrase for one region."""
    own: State = tuple(part[row : row + 1] for part in state)
    total = 0.0
    for fed, wanted in zip((runtime.words.start(), *tokens), (*tokens, END), strict=True):
        logprobs, own = runtime.step(np.array([fed]), own)
        total += float(logprobs[0, wanted])
    return total


def directly(runtime: Runtime, state: State, phrases: tuple[tuple[int, ...], ...]) -> np.ndarray:
    return np.array(
        [[one_by_one(runtime, state, one, row) for row in range(len(state[0]))] for one in phrases]
    )


def test_phrases_that_share_beginnings_are_as_likely_as_each_alone(runtime: Runtime) -> None:
    state = made_up_state(runtime, 7)
    found = likelihood.log_probabilities(runtime, state, PHRASES)
    np.testing.assert_allclose(found, directly(runtime, state, PHRASES), atol=1e-4)


def test_per_word_divides_by_the_words_and_end() -> None:
    assert likelihood.per_word(np.array([[-6.0, -3.0], [-2.0, -4.0]]), [(4, 5), (7,)]).tolist() == [
        [-2, -1],
        [-1, -2],
    ]


def test_words_that_begin_a_caption_alone_or_after_an_article(runtime: Runtime) -> None:
    state, words = made_up_state(runtime, 5), ["red", "square", "never-seen"]
    tokens, (article,) = runtime.words.encode(words), runtime.words.encode(["a"])
    assert tokens[-1] == UNKNOWN
    first, after = runtime.step(np.full(5, runtime.words.start()), state)
    second, _ = runtime.step(np.full(5, article), after)
    expected = (np.exp(first[:, tokens]) + np.exp(second[:, tokens])).T / 2
    assert np.exp(likelihood.word_log_probabilities(runtime, state, words)) == pytest.approx(
        expected, rel=1e-4
    )


def test_a_caption_is_as_likely_as_it_was_when_it_was_said(runtime: Runtime) -> None:
    from regiontalk.inference.captions import decode_captions

    state = made_up_state(runtime, 5)
    said = decode_captions(runtime, state)
    found = likelihood.log_probabilities(runtime, state, [one.tokens for one in said])
    whole = [
        row for row, one in enumerate(said) if len(one.logprobs) > len(one.tokens)
    ]  # not cut off before END
    assert found[whole, whole] == pytest.approx([said[row].logprob for row in whole], abs=1e-4)


def test_many_regions_are_stepped_in_parts(runtime: Runtime) -> None:
    state = made_up_state(runtime, likelihood.ROWS_AT_ONCE + 3)
    found = likelihood.log_probabilities(runtime, state, PHRASES)
    for row in (
        0,
        likelihood.ROWS_AT_ONCE - 1,
        likelihood.ROWS_AT_ONCE,
        likelihood.ROWS_AT_ONCE + 2,
    ):
        alone = likelihood.log_probabilities(
            runtime, tuple(part[row : row + 1] for part in state), PHRASES
        )
        np.testing.assert_allclose(found[:, row], alone[:, 0], atol=1e-4)


def test_the_best_regions_are_those_of_all(runtime: Runtime) -> None:
    generator = np.random.default_rng(0)
    words = len(runtime.words)
    phrases = [
        tuple(generator.integers(2, words, size=generator.integers(1, 5)).tolist())
        for _ in range(30)
    ]
    state = made_up_state(runtime, 40)
    every = likelihood.log_probabilities(runtime, state, phrases)
    best = likelihood.best_regions(runtime, state, phrases)
    assert best.logprobs == pytest.approx(every.max(axis=1))
    assert best.rows.tolist() == every.argmax(axis=1).tolist()


def test_a_guess_is_never_too_high_and_is_the_likelihood_of_its_region(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likelihood, "BOUND_REGIONS", 1)
    state = made_up_state(runtime, 40)
    every = likelihood.log_probabilities(runtime, state, PHRASES)
    best = likelihood.best_regions(runtime, state, PHRASES, exact=False)
    assert (best.logprobs <= every.max(axis=1) + 1e-4).all()
    assert best.logprobs == pytest.approx(every[np.arange(len(PHRASES)), best.rows])


def test_fewer_steps_than_for_all_regions(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped = []
    step = type(runtime).step

    def counting(self: Runtime, tokens: np.ndarray, state: State) -> object:
        stepped.append(len(tokens))
        return step(self, tokens, state)

    monkeypatch.setattr(type(runtime), "step", counting)
    state, phrases = made_up_state(runtime, 60), [(2, 3, 4, 5), (2, 3, 5, 4), (3, 2)]
    likelihood.log_probabilities(runtime, state, phrases)
    every = sum(stepped)
    stepped.clear()
    likelihood.best_regions(runtime, state, phrases, exact=False)
    assert sum(stepped) < every / 2


def test_phrases_are_cleaned_as_captions_are(runtime: Runtime) -> None:
    assert likelihood.clean_phrase("There is a CUP!", runtime.words) == ["a", "cup"]
    assert likelihood.clean_phrase("cup " * 30, runtime.words) == ["cup"] * 30
