"""The rules from a network's numbers to regions, on numbers made up here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from regiontalk import regions as rules
from regiontalk.calibration import calibrated, sigmoid
from regiontalk.decoding import Caption
from regiontalk.model_folder import PredictionConfig
from regiontalk.ranking import FEATURES, Ranking
from regiontalk.regions import Detections, Frame
from regiontalk.types import Region
from regiontalk.vocabulary import Vocabulary

FRAME = Frame(photo_size=(200, 100), size=(100, 50), scale=(0.5, 0.5))
WORDS = Vocabulary(("a", "dog", "cat"), "karpathy")
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
        regions = rules.rank(self.evidence, settings, WORDS)
        assert [region.caption for region in regions] == ["dog cat", "dog"]

    def test_calibration_comes_last(self) -> None:
        numbers = (0.5, 2.0, -1.0)
        raw = rules.score(self.evidence, SETTINGS)
        found = rules.score(self.evidence, replace(SETTINGS, calibration=numbers))
        assert np.array_equal(found, calibrated(raw, numbers))


def test_the_same_words_in_the_same_place_are_said_once() -> None:
    near, same, far = (10.0, 10.0, 50.0, 50.0), (12.0, 10.0, 50.0, 50.0), (60.0, 10.0, 90.0, 50.0)
    found = [
        Region(near, 0.9, "a tie"),
        Region(same, 0.8, "tie"),  # an article makes no other words
        Region(far, 0.7, "the tie"),
        Region(same, 0.6, "a"),
        Region(far, 0.5, ""),
        Region((5.0, 5.0, 5.0, 9.0), 0.4, "a line"),
    ]
    assert [region.caption for region in rules.without_repeats(found)] == ["a tie", "the tie", "a"]
    assert rules.without_repeats([]) == []
