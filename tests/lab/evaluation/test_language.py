from __future__ import annotations

from collections.abc import Iterable

import pytest

from regiontalk.lab.evaluation.language import Pair, TreebankWords, UnigramF1, score_once
from regiontalk.lab.evaluation.meteor import Meteor


class Recorder:
    """Scores a sentence by its length and keeps what it was asked."""

    metric = "length"

    def __init__(self) -> None:
        self.asked: list[Pair] = []

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        asked = list(pairs)
        self.asked += asked
        return [float(len(sentence)) for sentence, _ in asked]


@pytest.mark.parametrize(
    ("sentence", "references", "score"),
    [
        ("a dog", ["a dog"], 1),
        ("A brown dog .", ["a cat", "the dog"], 2 / 3),  # one shared word of 2 + 1
        ("a dog", ["a cat"], 0),  # "a" does not count
        ("dog dog dog", ["a dog"], 0.5),
        ("", ["a dog"], 0),
        ("a dog", [], 0),
    ],
)
def test_unigram_f1(sentence: str, references: list[str], score: float) -> None:
    assert UnigramF1().scores([(sentence, references)]) == pytest.approx([score])


def test_only_meteor_is_called_meteor() -> None:
    assert TreebankWords(UnigramF1()).metric == UnigramF1.metric == "unigram_f1"
    assert Meteor.metric == "meteor"


def test_equal_pairs_are_scored_once_and_answers_keep_their_places() -> None:
    scorer = Recorder()
    pairs: list[Pair] = [("aa", ["x"]), ("b", ["x"]), ("aa", ("x",)), ("aa", ["y"])]
    assert score_once(scorer, pairs) == [2, 1, 2, 2]
    assert [(sentence, list(references)) for sentence, references in scorer.asked] == [
        ("aa", ["x"]),
        ("b", ["x"]),
        ("aa", ["y"]),
    ]


def test_treebank_words_reach_the_scorer() -> None:
    scorer = Recorder()
    TreebankWords(scorer).scores([("The dog's, ball!", ["A (red) ball"])])
    assert scorer.asked == [("the dog 's ball", ["a -lrb- red -rrb- ball"])]
