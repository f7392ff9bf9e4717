"""The rules from a network's numbers to regions, on numbers made up here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from regiontalk import regions as rules
from regiontalk.calibration import calibrated, sigmoid
from regiontalk.confidence import FEATURES as FEATURES_OF_WORDS
from regiontalk.confidence import Confidence
from regiontalk.decoding import Caption
from regiontalk.model_folder import ModelInfo
from regiontalk.model_settings import PredictionConfig
from regiontalk.ranking import FEATURES, Ranking
from regiontalk.regions import Detections, Frame
from regiontalk.runtime import Runtime, State
from regiontalk.vocabulary import END, Vocabulary

FRAME = Frame(photo_size=(200, 100), size=(100, 50), scale=(0.5, 0.5))
WORDS = Vocabulary(("a", "dog", "cat", "brown", "in", "hat"), "karpathy", lengths=4)
DOG, CAT = WORDS.encode(["dog", "cat"])
SETTINGS = PredictionConfig(proposals=10, final_nms=0.5)
BIGGEST_FIRST = Ranking(FEATURES, (tuple(float(name == "area") for name in FEATURES),), (0.0,), (1.0,), 0.0)


def detections(*found: tuple[list[float], float, float]) -> Detections:
    """Boxes with the logits of recognition and of proposal."""
    boxes = np.array([box for box, _, _ in found], dtype=np.float32)
    logits, proposed = (np.array([row[column] for row in found], dtype=np.float32) for column in (1, 2))
    return Detections(boxes, proposed, boxes, logits, np.zeros((len(found), 3), np.float32), (np.arange(len(found)),))


TWO_AND_A_RIVAL = detections(([0, 0, 20, 20], 1.0, 0.0), ([0, 0, 20, 18], 2.0, -3.0), ([50, 10, 90, 40], 0.0, 5.0))


def test_boxes_go_into_the_input_and_back() -> None:
    boxes = np.array([[10.0, 20.0, 50.0, 60.0]])
    assert FRAME.to_input(boxes).tolist() == [[5, 10, 25, 30]]
    assert FRAME.to_photo(FRAME.to_input(boxes)).tolist() == boxes.tolist()
    assert FRAME.to_photo(np.array([[-1, 0, 120, 51]], dtype=np.float32)).tolist() == [[0, 0, 200, 100]]
    assert FRAME.whole_xyxy.tolist() == [[0, 0, 100, 50]]


@pytest.mark.parametrize(("score", "kept"), [("final", [1, 2]), ("product", [2, 0])])
def test_of_overlapping_regions_the_best_survives(score: str, kept: list[int]) -> None:
    assert rules.survivors(TWO_AND_A_RIVAL, replace(SETTINGS, score=score)).tolist() == kept


def test_the_first_proposals_are_as_if_no_more_had_been_asked_for() -> None:
    first = TWO_AND_A_RIVAL.first(2)
    assert [len(part) for part in (*first[:-1], first.state[0])] == [2] * 6
    assert rules.survivors(first, SETTINGS).tolist() == [1]


class TestScore:
    captions = (Caption((DOG,), (-1.0,)), Caption((DOG, CAT), (-2.0, -4.0)))
    evidence = rules.evidence_of(TWO_AND_A_RIVAL, np.array([1, 2]), captions, FRAME, SETTINGS)

    def test_evidence_is_in_the_photos_pixels_with_the_votes_of_all_proposals(self) -> None:
        assert self.evidence.size == (200, 100)
        assert self.evidence.boxes_xyxy.tolist() == [[0, 0, 40, 36], [100, 20, 180, 80]]
        assert self.evidence.votes.tolist() == [2, 1]
        few = replace(SETTINGS, proposals=1)
        one_voter = rules.evidence_of(TWO_AND_A_RIVAL, np.array([1, 2]), self.captions, FRAME, few)
        assert one_voter.votes.tolist() == [1, 1]

    def test_unlikely_words_lower_it(self) -> None:
        expected = sigmoid(np.array([2.0, 0.0])) * np.exp([0.5 * -1 / 2, 0.5 * -6 / 3])
        found = rules.score(self.evidence, replace(SETTINGS, caption_weight=0.5))
        np.testing.assert_allclose(found, expected)

    def test_a_ranking_takes_the_place_of_the_rules(self) -> None:
        settings = replace(SETTINGS, caption_weight=0.5, ranking=BIGGEST_FIRST)
        areas = np.array([40 * 36, 80 * 60]) / (200 * 100)
        np.testing.assert_allclose(rules.score(self.evidence, settings), sigmoid(areas))
        kept, scores = rules.rank(self.evidence, settings, WORDS)
        assert kept.tolist() == [1, 0]
        assert scores.tolist() == pytest.approx(sorted(sigmoid(areas), reverse=True))

    def test_calibration_comes_last(self) -> None:
        numbers = (0.5, 2.0, -1.0)
        raw = rules.score(self.evidence, SETTINGS)
        found = rules.score(self.evidence, replace(SETTINGS, calibration=numbers))
        assert np.array_equal(found, calibrated(raw, numbers))


def test_the_same_words_in_the_same_place_are_said_once() -> None:
    near, same, far = (10.0, 10.0, 50.0, 50.0), (12.0, 10.0, 50.0, 50.0), (60.0, 10.0, 90.0, 50.0)
    found = {
        "a tie": near,
        "tie": same,  # an article makes no other words
        "the tie": far,
        "a": same,
        "": far,
        "a line": (5.0, 5.0, 5.0, 9.0),
    }
    assert rules.without_repeats(np.array(list(found.values())), list(found)).tolist() == [0, 2, 3]
    assert rules.without_repeats(np.zeros((0, 4)), []).tolist() == []


class Teller(Runtime):
    """Says of every region, after a START token, the words it was given, each with the same probability."""

    def __init__(self, said: dict[int | None, tuple[str, float]], fitted: Confidence | None = None) -> None:
        """`said`: by length that was asked for, None for the model's choice. Of other lengths it knows nothing."""
        settings = PredictionConfig(longest=6, confidence=fitted)
        self.info, self.words, self.heads = ModelInfo("teller", "fcln", "float32", 64, 16, settings, {}), WORDS, {}
        self.said = {
            WORDS.start() if length is None else WORDS.start_of_length(length): said[length] for length in said
        }
        self.steps: list[int] = []

    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        assert graph == "step"
        tokens, start, position, _ = inputs
        self.steps.append(len(tokens))
        start = np.where(position == 0, tokens, start)
        logprobs = np.full((len(tokens), len(WORDS)), -20.0)
        for row, (first, place) in enumerate(zip(start.tolist(), position.astype(int).tolist(), strict=True)):
            text, probability = self.said.get(first, ("", 0.01))
            following = [*WORDS.encode(text.split()), END, END, END]
            logprobs[row, following[place]] = np.log(probability)
        return logprobs, start.astype(np.float32), position + 1

    def code_size(self) -> int:
        raise NotImplementedError

    def state(self, regions: int) -> State:
        return tuple(np.zeros(regions, dtype=np.float32) for _ in range(3))

    def to_caption(self, regions: int) -> rules.ToCaption:
        return rules.ToCaption(self.state(regions), np.zeros(regions, dtype=np.float32), np.zeros((regions, 2)))

    def say(self, words: int | None = None, regions: int = 1) -> list[str]:
        captions = rules.caption(self, self.state(regions))
        found = rules.say(self, self.to_caption(regions), captions, words)
        return [WORDS.decode(caption.tokens) for caption in found.captions]


# Confidence is the geometric mean of the words' probabilities, as the logit of a logistic regression at a scale of 5.
BY_WORDS = Confidence(
    FEATURES_OF_WORDS,
    tuple(5.0 * (name == "mean_logprob") + 3.0 * (name == "agrees") for name in FEATURES_OF_WORDS),
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
        assert [teller.say(words) for words in (1, 2, 3, 4)] == [["dog"], ["a dog"], ["a brown dog"], ["a dog in hat"]]

    def test_never_more(self) -> None:
        chatty = Teller(dict.fromkeys((None, 2, 3, 4), ("a dog in a hat", 0.9)))
        for words in range(1, 6):
            assert len(chatty.say(words)[0].split()) <= words

    @pytest.mark.parametrize("fitted", [None, BY_WORDS])
    def test_fewer_where_more_are_unsure(self, fitted: Confidence | None) -> None:
        assert Teller(LONG | {4: ("a dog in hat", 0.3)}, fitted).say(4) == ["a brown dog"]

    def test_no_padding(self) -> None:
        """Whatever its confidence, which is about the name."""
        sure = replace(BY_WORDS, weights=(0.0,) * len(FEATURES_OF_WORDS), longer=0.6)
        padded = LONG | {4: ("a dog in hat", 0.5)}
        assert Teller(padded, sure).say(4) == ["a brown dog"]
        assert Teller(padded, replace(sure, longer=0.4)).say(4) == ["a dog in hat"]
        assert Teller(padded | {None: ("a dog in hat", 0.5)}, sure).say(4) == ["a dog in hat"], "its own choice"

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
        assert Teller(LONG | {4: ("a cat in hat", 0.99)}, BY_WORDS).say() == ["a brown dog"], "another thing"
        assert Teller(LONG).say() == ["a dog"], "nothing tells what is likely"

    def test_but_no_more_where_that_makes_a_sure_caption_unsure(self) -> None:
        strict = replace(BY_WORDS, likely=0.65)
        assert Teller({None: ("a dog", 0.8), 3: ("a brown dog", 0.7)}, strict).say() == ["a dog"]
        assert Teller({None: ("a dog", 0.7), 3: ("a brown dog", 0.7)}, strict).say() == ["a brown dog"]

    def test_confidence_is_that_of_what_is_said(self) -> None:
        teller = Teller({None: ("a dog", 0.8), 2: ("a dog", 0.9)}, BY_WORDS)
        regions = teller.to_caption(2)
        captions = rules.caption(teller, regions.state)
        own, longer = (rules.say(teller, regions, captions, words).confidences for words in (None, 2))
        assert own is not None
        assert longer is not None
        assert own.tolist() == pytest.approx([sigmoid(np.array(5 * np.log(0.8) + 2))] * 2)
        assert longer.tolist() == pytest.approx([sigmoid(np.array(5 * np.log(0.9) + 2))] * 2)
        assert rules.say(Teller(LONG), regions, captions).confidences is None
        assert rules.say(teller, teller.to_caption(0), [], 3).captions == []

    def test_confidence_depends_on_sizes(self) -> None:
        small = Confidence(("area", "enlarged"), (2.0, -1.0), 0.0, likely=0.5)
        teller = Teller(LONG, small)
        sizes = np.array([[0.5, 0.0], [0.5, 1.0], [0.01, 0.0]])
        regions = teller.to_caption(3)._replace(size_features=sizes)
        said = rules.say(teller, regions, rules.caption(teller, regions.state))
        assert said.confidences is not None
        assert said.confidences.tolist() == pytest.approx(sigmoid(np.array([1.0, 0.0, 0.02])))


def test_size_features_of_boxes() -> None:
    boxes = np.array([[0, 0, 40, 30], [0, 0, 20, 30]], dtype=np.float32)
    small = rules.Frame((20, 15), (40, 30), (2.0, 2.0))
    assert small.size_features(boxes).tolist() == [[1.0, 1.0], [0.5, 1.0]]
    large = rules.Frame((400, 300), (40, 30), (0.1, 0.1))
    assert large.size_features(boxes).tolist() == [[1.0, 0.0], [0.5, 0.0]]
    assert large.size_features(boxes[:0]).shape == (0, 2)
