"""Decoding over a toy language model that is small enough to try every caption."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.inference.decoding import (
    Caption,
    Floats,
    Integers,
    Rules,
    State,
    beam_search,
    repeating_words,
    sample,
    word_by_word,
)
from regiontalk.language.vocabulary import END, UNKNOWN

TOKENS, LONGEST = 5, 4
WORDS = range(2, TOKENS)
START = TOKENS
EVERYTHING = sum(len(WORDS) ** n for n in range(1, LONGEST + 1))
RULES = Rules(LONGEST)


def repeats(words: Sequence[int]) -> bool:
    """Whether a word or phrase stands twice in a row."""
    return any(
        words[start : start + length] == words[start + length : start + 2 * length]
        for length in range(1, len(words) // 2 + 1)
        for start in range(len(words) - 2 * length + 1)
    )


class ToyModel:
    """The next word depends on region, position and last word; `<UNK>` is likely, so that leaving
    it out shows."""

    def __init__(self, seed: int, regions: int = 3) -> None:
        self.regions = regions
        logits = np.random.default_rng(seed).normal(size=(regions, LONGEST, TOKENS + 1, TOKENS)) * 2
        logits[..., UNKNOWN] += 2
        self.table = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        self.rows_stepped: list[int] = []

    @property
    def state(self) -> State:
        return np.arange(self.regions, dtype=np.float32), np.zeros(self.regions, dtype=np.float32)

    def step(self, tokens: Integers, state: State) -> tuple[Floats, State]:
        region, position = state
        self.rows_stepped.append(len(tokens))
        return self.table[region.astype(int), position.astype(int), tokens], (region, position + 1)

    def logprobs(self, region: int, words: tuple[int, ...]) -> tuple[float, ...]:
        """Word by word, and END where there is room for it."""
        said = [*words, END][:LONGEST]
        before = [START, *words][: len(said)]
        return tuple(
            self.table[region, n, a, b] for n, (a, b) in enumerate(zip(before, said, strict=True))
        )

    def all_captions(self, region: int, rules: Rules) -> list[Caption]:
        every = itertools.chain.from_iterable(
            itertools.product(WORDS, repeat=n) for n in range(1, LONGEST + 1)
        )
        allowed = [
            words
            for words in every
            if not repeats(words)
            and all(words.count(one) < 2 for one in rules.once)
            and (len(words) == LONGEST or words[-1] not in rules.never_last)
        ]
        captions = [Caption(words, self.logprobs(region, words)) for words in allowed]
        return sorted(captions, key=lambda caption: -rules.score(caption))


seeds = st.integers(0, 10_000)
penalties = st.floats(0, 2)
some_rules = st.builds(
    Rules, st.just(LONGEST), once=st.frozensets(st.sampled_from(WORDS)), length_penalty=penalties
) | st.builds(
    Rules,
    st.just(LONGEST),
    never_last=st.frozensets(st.sampled_from(WORDS), max_size=1),
    length_penalty=penalties,
)


@given(seeds)
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    toy = ToyModel(seed)
    likeliest = word_by_word(toy.step, toy.state, START, RULES)
    assert beam_search(toy.step, toy.state, START, RULES, 1) == [[one] for one in likeliest]


@given(seeds)
def test_greedy_takes_the_likeliest_word_each_time(seed: int) -> None:
    toy = ToyModel(seed)
    for region, caption in enumerate(word_by_word(toy.step, toy.state, START, RULES)):
        last = START
        for position, token in enumerate([*caption.tokens, END][:LONGEST]):
            choices = toy.table[region, position, last].copy()
            choices[
                [UNKNOWN, *repeating_words(caption.tokens[:position]), *([] if position else [END])]
            ] = -np.inf
            assert token == choices.argmax()
            last = token


@given(seeds, some_rules)
def test_a_beam_of_everything_finds_the_best_captions_there_are(seed: int, rules: Rules) -> None:
    toy = ToyModel(seed)
    found = beam_search(toy.step, toy.state, START, rules, EVERYTHING)
    for region, captions in enumerate(found):
        best = toy.all_captions(region, rules)
        assert [caption.tokens for caption in captions] == [caption.tokens for caption in best]
        assert [caption.logprob for caption in captions] == pytest.approx(
            [caption.logprob for caption in best]
        )


@given(seeds, st.integers(1, 6))
def test_no_narrower_beam_beats_the_full_one(seed: int, width: int) -> None:
    toy = ToyModel(seed)
    narrow = beam_search(toy.step, toy.state, START, RULES, width)
    full = beam_search(toy.step, toy.state, START, RULES, EVERYTHING)
    assert all(a.logprob <= b.logprob + 1e-9 for (a, *_), (b, *_) in zip(narrow, full, strict=True))


@given(seeds, st.integers(1, 8), some_rules)
def test_n_best_are_sorted_different_and_rightly_scored(
    seed: int, width: int, rules: Rules
) -> None:
    toy = ToyModel(seed)
    found = beam_search(toy.step, toy.state, START, rules, width)
    assert len(found) == toy.regions
    for region, captions in enumerate(found):
        assert 1 <= len(captions) <= width
        scores = [rules.score(caption) for caption in captions]
        assert scores == sorted(scores, reverse=True)
        assert len({caption.tokens for caption in captions}) == len(captions)
        for caption in captions:
            assert caption.logprob == pytest.approx(sum(toy.logprobs(region, caption.tokens)))


@given(seeds, st.floats(0.1, 3.0))
def test_drawn_captions_carry_the_models_own_log_probability(seed: int, temperature: float) -> None:
    toy = ToyModel(seed)
    generator = np.random.default_rng(seed)
    for region, caption in enumerate(
        sample(toy.step, toy.state, START, RULES, generator, temperature)
    ):
        assert caption.logprob == pytest.approx(sum(toy.logprobs(region, caption.tokens)))


def test_a_draw_depends_on_nothing_but_the_seed() -> None:
    toy = ToyModel(1, regions=50)
    first, again, other = (
        sample(toy.step, toy.state, START, RULES, np.random.default_rng(seed)) for seed in (7, 7, 8)
    )
    assert first == again != other


def test_a_cold_draw_is_greedy() -> None:
    toy = ToyModel(2, regions=20)
    cold = sample(toy.step, toy.state, START, RULES, np.random.default_rng(0), temperature=1e-4)
    assert cold == word_by_word(toy.step, toy.state, START, RULES)


@pytest.mark.parametrize("width", [1, 3])
def test_each_region_has_its_own_limit(width: int) -> None:
    toy = ToyModel(4, regions=12)
    limits = np.arange(12) % (LONGEST - 1) + 1
    rules = Rules(LONGEST, limits=limits)
    captions = beam_search(toy.step, toy.state, START, rules, width)
    unlimited = beam_search(toy.step, toy.state, START, RULES, width)
    assert any(
        len(best.tokens) > limit for limit, (best, *_) in zip(limits, unlimited, strict=True)
    )
    for region, limit in enumerate(limits.tolist()):
        for caption in captions[region]:
            assert len(caption.tokens) <= limit
            assert caption.logprobs == pytest.approx(toy.logprobs(region, caption.tokens))


def test_draws_follow_the_models_probabilities() -> None:
    """The first word of many draws, with `<UNK>` and END left out and the rest scaled up."""
    toy, regions = ToyModel(3, regions=1), 4000
    state = np.zeros(regions, dtype=np.float32), np.zeros(regions, dtype=np.float32)
    drawn = sample(toy.step, state, START, RULES, np.random.default_rng(0))
    counts = np.bincount([caption.tokens[0] for caption in drawn], minlength=TOKENS)
    expected = np.exp(toy.table[0, 0, START])
    expected[[UNKNOWN, END]] = 0
    assert counts / regions == pytest.approx(expected / expected.sum(), abs=0.03)


@pytest.mark.parametrize(
    ("top_p", "drawn"), [(0.01, {2}), (0.5, {2}), (0.6, {2, 3}), (0.75, {2, 3}), (1.0, {2, 3, 4})]
)
def test_top_p_draws_the_likeliest_words_alone(top_p: float, drawn: set[int]) -> None:
    def step(tokens: Integers, state: State) -> tuple[Floats, State]:
        return np.log([[1e-9, 1e-9, 0.5, 0.3, 0.2]]).repeat(len(tokens), axis=0), state

    captions = sample(
        step, (np.zeros(500),), START, Rules(1), np.random.default_rng(0), top_p=top_p
    )
    assert {caption.tokens[0] for caption in captions} == drawn


def test_a_caption_ends_where_nothing_else_may_follow() -> None:
    toy = ToyModel(6)
    rules = Rules(LONGEST, once=frozenset(WORDS), never_last=frozenset(WORDS))
    for captions in beam_search(toy.step, toy.state, START, rules, 5):
        assert {len(caption.tokens) for caption in captions} == {len(WORDS)}


@given(seeds, st.integers(1, 40), some_rules)
def test_b3_no_caption_is_empty_or_says_a_word_of_once_again(
    seed: int, width: int, rules: Rules
) -> None:
    toy = ToyModel(seed)
    toy.table[..., END] += 5  # nothing is as likely as silence
    captions = [
        *word_by_word(toy.step, toy.state, START, rules),
        *sample(toy.step, toy.state, START, rules, np.random.default_rng(seed)),
        *itertools.chain(*beam_search(toy.step, toy.state, START, rules, width)),
    ]
    assert all(caption.tokens for caption in captions)
    assert not any(caption.tokens.count(word) > 1 for caption in captions for word in rules.once)


def test_b3_length_is_not_held_against_a_caption() -> None:
    """As many words as one likes cost 0.1 each; without the penalty, the first END wins."""

    def step(tokens: Integers, state: State) -> tuple[Floats, State]:
        said = [state[0] + 1]
        logprobs = np.full((len(tokens), 12), -9.0)
        logprobs[np.arange(len(tokens)), 2 + state[0].astype(int)] = -0.1  # another word each time
        logprobs[:, END] = -0.3
        return logprobs, tuple(said)

    lengths = [
        len(
            beam_search(step, (np.zeros(1),), START, Rules(8, length_penalty=penalty), 5)[0][
                0
            ].tokens
        )
        for penalty in (0.0, 1.0, 2.0)
    ]
    assert lengths[0] == 1
    assert lengths == sorted(lengths)
    assert lengths[2] > 4


@given(seeds, st.integers(1, 6))
def test_neither_unknown_words_nor_end_are_ever_said(seed: int, width: int) -> None:
    toy = ToyModel(seed)
    captions = [
        *word_by_word(toy.step, toy.state, START, RULES),
        *sample(toy.step, toy.state, START, RULES, np.random.default_rng(seed), 3.0),
        *itertools.chain(*beam_search(toy.step, toy.state, START, RULES, width)),
    ]
    assert all(token in WORDS for caption in captions for token in caption.tokens)


@given(seeds, st.integers(1, 6))
def test_captions_repeat_no_word_or_phrase_at_once(seed: int, width: int) -> None:
    toy = ToyModel(seed)
    captions = [
        *word_by_word(toy.step, toy.state, START, RULES),
        *itertools.chain(*beam_search(toy.step, toy.state, START, RULES, width)),
    ]
    assert not any(repeats(caption.tokens) for caption in captions)


@given(st.lists(st.integers(2, 4), max_size=9))
def test_repeating_words_are_those_that_would_end_in_a_phrase_said_twice(words: list[int]) -> None:
    def ends_twice(said: list[int]) -> bool:
        return any(said[-n:] == said[-2 * n : -n] for n in range(1, len(said) // 2 + 1))

    assert set(repeating_words(words)) == {
        word for word in range(2, 5) if ends_twice([*words, word])
    }


def test_what_has_ended_is_not_stepped_further() -> None:
    toy = ToyModel(4, regions=30)
    captions = word_by_word(toy.step, toy.state, START, RULES)
    needed = [
        sum(len(caption.tokens) >= position for caption in captions) for position in range(LONGEST)
    ]
    assert toy.rows_stepped == [rows for rows in needed if rows]


@pytest.mark.parametrize("width", [1, 3])
def test_no_regions_give_no_captions(width: int) -> None:
    toy = ToyModel(5, regions=0)
    assert word_by_word(toy.step, toy.state, START, RULES) == []
    assert beam_search(toy.step, toy.state, START, RULES, width) == []


def test_the_mean_counts_end_as_a_word() -> None:
    assert Caption((2, 3), (math.log(0.5),) * 3).mean_logprob == pytest.approx(math.log(0.5))
