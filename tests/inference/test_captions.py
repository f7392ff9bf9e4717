"""Which captions are chosen, by a language model made up here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.captions import choose_captions, with_captions
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.language.vocabulary import END, Vocabulary
from regiontalk.models.folder import ModelInfo
from regiontalk.models.name_table import NameTable
from regiontalk.models.runtime import Runtime, State
from regiontalk.models.settings import CONFIDENCE_FEATURES, Confidence, PredictionConfig

FRAME = Frame((100, 100), (100, 100), (1.0, 1.0))
WORDS = Vocabulary(("a", "dog", "cat", "brown", "in", "hat"), "karpathy", lengths=4)


class Teller(Runtime):
    """Says of every region, after a START token, the words it was given, each with the same
    probability."""

    def __init__(
        self, said: dict[int | None, tuple[str, float]], fitted: Confidence | None = None
    ) -> None:
        """`said`: by length that was asked for, None for the model's choice. Of other lengths it
        knows nothing."""
        settings = PredictionConfig(longest=6, confidence=fitted)
        self.info, self.words, self.heads = (
            ModelInfo("teller", "fcln", "float32", 64, 16, settings, {}),
            WORDS,
            {},
        )
        self.said = {
            WORDS.start() if length is None else WORDS.start_of_length(length): said[length]
            for length in said
        }
        self.steps: list[int] = []

    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        assert graph == "step"
        tokens, start, position, _ = inputs
        self.steps.append(len(tokens))
        start = np.where(position == 0, tokens, start)
        logprobs = np.full((len(tokens), len(WORDS)), -20.0)
        for row, (first, place) in enumerate(
            zip(start.tolist(), position.astype(int).tolist(), strict=True)
        ):
            text, probability = self.said.get(first, ("", 0.01))
            following = [*WORDS.encode(text.split()), END, END, END]
            logprobs[row, following[place]] = np.log(probability)
        return logprobs, start.astype(np.float32), position + 1

    def code_size(self) -> int:
        raise NotImplementedError

    def state(self, regions: int) -> State:
        return tuple(np.zeros(regions, dtype=np.float32) for _ in range(3))

    def captioned(self, regions: int) -> RegionTable:
        """Regions with the captions of the model's own choice."""
        table = RegionTable(
            FRAME,
            boxes_xyxy=np.zeros((regions, 4)),
            scores=np.zeros(regions),
            input_xyxy=np.zeros((regions, 4), dtype=np.float32),
            logits=np.zeros(regions, dtype=np.float32),
            state=self.state(regions),
        )
        return with_captions(self, table)

    def say(self, words: int | None = None, regions: int = 1) -> list[str]:
        chosen = choose_captions(self, self.captioned(regions), words)
        return [WORDS.decode(caption.tokens) for caption in chosen.captions]


# Confidence is the geometric mean of the words' probabilities, as the logit of a logistic
# regression at a scale of 5.
BY_WORDS = Confidence(
    CONFIDENCE_FEATURES,
    tuple(
        5.0 * (name == "mean_logprob") + 3.0 * (name == "agrees") for name in CONFIDENCE_FEATURES
    ),
    -1.0,
    likely=0.5,
)
LONG = {
    None: ("a dog", 0.8),
    2: ("a dog", 0.9),
    3: ("a brown dog", 0.9),
    4: ("a dog in hat", 0.9),
}


class TestWords:
    def test_as_many_as_asked_for(self) -> None:
        teller = Teller(LONG)
        assert teller.say() == ["a dog"]
        assert [teller.say(words) for words in (1, 2, 3, 4)] == [
            ["dog"],
            ["a dog"],
            ["a brown dog"],
            ["a dog in hat"],
        ]

    def test_never_more(self) -> None:
        chatty = Teller(dict.fromkeys((None, 2, 3, 4), ("a dog in a hat", 0.9)))
        for words in range(1, 6):
            assert len(chatty.say(words)[0].split()) <= words

    @pytest.mark.parametrize("fitted", [None, BY_WORDS])
    def test_fewer_where_more_are_unsure(self, fitted: Confidence | None) -> None:
        assert Teller(LONG | {4: ("a dog in hat", 0.3)}, fitted).say(4) == ["a brown dog"]

    def test_no_less_than_without_a_limit(self) -> None:
        """Here "dog" and "brown dog" have a higher confidence than what is said without a limit."""
        said = {
            None: ("a dog", 0.7),
            2: ("brown dog", 0.95),
            3: ("a brown dog", 0.2),
            4: ("a dog in hat", 0.6),
        }
        teller = Teller(said, replace(BY_WORDS, longer=0.5))
        assert teller.say() == ["a dog"]
        assert [teller.say(words) for words in (2, 3)] == [["a dog"], ["a dog"]]
        assert teller.say(4) == ["a dog"], "its confidence is higher than that of four words"
        assert teller.say(1) == ["dog"], "a limit is a limit"
        likelier = Teller(said | {4: ("a dog in hat", 0.8)}, replace(BY_WORDS, bias=-3.0))
        assert likelier.say(4) == ["a dog in hat"]

    def test_no_less_than_without_a_limit_when_colours_are_left_out(self) -> None:
        """ "A brown dog" has the higher confidence, and without its colour fewer words."""
        teller = Teller({None: ("dog in hat", 0.7), 3: ("a brown dog", 0.95)}, BY_WORDS)
        assert teller.say(3) == ["a brown dog"]
        teller.colours = NameTable(
            "d", ("brown", "red"), ("brown", "red"), np.zeros((2, 1)), np.zeros(2)
        )
        regions = replace(teller.captioned(1), colours=np.array([[0.01, 0.99]]))
        chosen = choose_captions(teller, regions, 3)
        assert WORDS.decode(chosen.captions[0].tokens) == "dog in hat"

    def test_no_padding(self) -> None:
        """Whatever its confidence, which is about the name."""
        sure = replace(BY_WORDS, weights=(0.0,) * len(CONFIDENCE_FEATURES), longer=0.6)
        padded = LONG | {4: ("a dog in hat", 0.5)}
        assert Teller(padded, sure).say(4) == ["a brown dog"]
        assert Teller(padded, replace(sure, longer=0.4)).say(4) == ["a dog in hat"]
        assert Teller(padded | {None: ("a dog in hat", 0.5)}, sure).say(4) == ["a dog in hat"], (
            "its own choice"
        )

    @pytest.mark.parametrize("padded", ["a dog in a hat", "a dog in a", "a dog in dog"])
    def test_none_that_is_cut_off_or_says_a_name_twice(self, padded: str) -> None:
        assert Teller(LONG | {4: (padded, 0.95)}).say(4) == ["a brown dog"]

    @pytest.mark.parametrize("fitted", [None, BY_WORDS])
    def test_none_about_another_thing(self, fitted: Confidence | None) -> None:
        assert Teller(LONG | {4: ("a cat in hat", 0.99)}, fitted).say(4) == ["a brown dog"]

    def test_all_regions_and_lengths_at_once(self) -> None:
        teller = Teller(LONG)
        teller.say(4, regions=5)
        assert teller.steps[:4] == [5, 5, 5, 15], "the model's choice, then 5 regions in 3 lengths"

    def test_a_shorter_caption_where_the_own_is_unsure(self) -> None:
        unsure = {None: ("a brown dog", 0.3), 2: ("a dog", 0.9)}
        assert Teller(unsure, BY_WORDS).say() == ["a dog"]
        assert Teller(unsure).say() == ["a brown dog"], "nothing tells that it is unsure"
        sure = Teller({None: ("a brown dog", 0.9), 2: ("a dog", 0.99)}, BY_WORDS)
        assert sure.say() == ["a brown dog"]

    def test_but_not_a_bare_word(self) -> None:
        unsure = {None: ("a brown dog", 0.3), 1: ("dog", 0.99), 2: ("a dog", 0.9)}
        assert Teller(unsure, BY_WORDS).say() == ["a dog"]
        assert Teller({None: ("a dog", 0.3), 1: ("dog", 0.99)}, BY_WORDS).say() == ["a dog"]

    def test_up_to_two_words_more_where_they_are_likely(self) -> None:
        assert Teller(LONG, BY_WORDS).say() == ["a dog in hat"]
        assert Teller(LONG | {4: ("a dog in hat", 0.5)}, BY_WORDS).say() == ["a brown dog"]
        assert Teller(LONG | {4: ("a cat in hat", 0.99)}, BY_WORDS).say() == ["a brown dog"], (
            "another thing"
        )
        assert Teller(LONG).say() == ["a dog"], "nothing tells what is likely"

    def test_but_no_more_where_that_makes_a_sure_caption_unsure(self) -> None:
        strict = replace(BY_WORDS, likely=0.65)
        assert Teller({None: ("a dog", 0.8), 3: ("a brown dog", 0.7)}, strict).say() == ["a dog"]
        assert Teller({None: ("a dog", 0.7), 3: ("a brown dog", 0.7)}, strict).say() == [
            "a brown dog"
        ]

    def test_confidence_is_that_of_what_is_said(self) -> None:
        teller = Teller({None: ("a dog", 0.8), 2: ("a dog", 0.9)}, BY_WORDS)
        regions = teller.captioned(2)
        own = choose_captions(teller, regions).confidences
        longer = choose_captions(teller, regions, 2).confidences
        assert own is not None
        assert longer is not None
        assert own.tolist() == pytest.approx([sigmoid(np.array(5 * np.log(0.8) + 2))] * 2)
        assert longer.tolist() == pytest.approx([sigmoid(np.array(5 * np.log(0.9) + 2))] * 2)
        assert choose_captions(Teller(LONG), regions).confidences is None
        assert choose_captions(teller, teller.captioned(0), 3).captions == ()

    def test_confidence_depends_on_sizes(self) -> None:
        small = Confidence(("area", "enlarged"), (2.0, -1.0), 0.0, likely=0.5)
        teller = Teller(LONG, small)
        boxes = np.array([[0, 0, 50, 100], [0, 0, 10, 10]], dtype=np.float32)
        regions = replace(teller.captioned(2), input_xyxy=boxes)
        enlarged = replace(regions, frame=Frame((50, 50), (100, 100), (2.0, 2.0)))
        for table, expected in ((regions, [1.0, 0.02]), (enlarged, [0.0, -0.98])):
            confidences = choose_captions(teller, table).confidences
            assert confidences is not None
            assert confidences.tolist() == pytest.approx(sigmoid(np.array(expected)))
