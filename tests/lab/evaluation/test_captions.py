"""Equal to coco-caption on the same words, and right on cases small enough to work out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regiontalk.errors import DataError
from regiontalk.lab.evaluation import captions

WORDS = ["a", "dog", "man", "runs", "red", "on", "grass", "the", "two", "sits"]
sentence = st.lists(st.sampled_from(WORDS), max_size=9).map(tuple)
corpus = st.lists(
    st.tuples(sentence, st.lists(sentence, min_size=1, max_size=5)), min_size=1, max_size=12
)


def as_coco(pairs: list) -> tuple[dict, dict]:
    truth = {n: [" ".join(one) for one in references] for n, (_, references) in enumerate(pairs)}
    return truth, {n: [" ".join(ours)] for n, (ours, _) in enumerate(pairs)}


@given(corpus)
@settings(max_examples=150, deadline=None)
def test_bleu_equals_coco_caption(pairs: list) -> None:
    reference = pytest.importorskip("pycocoevalcap.bleu.bleu")
    expected, _ = reference.Bleu(4).compute_score(*as_coco(pairs), verbose=0)
    assert captions.bleu(pairs) == pytest.approx(expected, abs=1e-9)


@given(corpus)
@settings(max_examples=150, deadline=None)
def test_rouge_l_equals_coco_caption(pairs: list) -> None:
    reference = pytest.importorskip("pycocoevalcap.rouge.rouge")
    expected, _ = reference.Rouge().compute_score(*as_coco(pairs))
    assert captions.rouge_l(pairs) == pytest.approx(expected, abs=1e-9)


@given(corpus)
@settings(max_examples=150, deadline=None)
def test_cider_equals_coco_caption(pairs: list) -> None:
    reference = pytest.importorskip("pycocoevalcap.cider.cider")
    if not any(one for _, references in pairs for one in references):
        return  # coco-caption fails where all references are empty
    expected, _ = reference.Cider().compute_score(*as_coco(pairs))
    assert captions.cider(pairs) == pytest.approx(expected, abs=1e-9)


def test_bleu_by_hand() -> None:
    # "a red dog": 2 of 3 words right, 0 of 2 pairs; the nearest reference has 4 words.
    b1, b2, *_ = captions.bleu([(("a", "red", "dog"), [("a", "dog", "sits", "down")])])
    assert b1 == pytest.approx(2 / 3 * math.exp(1 - 4 / 3), abs=1e-8)
    assert b2 == pytest.approx(0, abs=1e-6)


def test_a_word_counts_no_more_often_than_in_one_reference() -> None:
    b1, *_ = captions.bleu(
        [(("the", "the", "the"), [("the", "dog", "runs"), ("the", "the", "cat")])]
    )
    assert b1 == pytest.approx(2 / 3, abs=1e-8)


def test_rouge_l_by_hand() -> None:
    value = captions.rouge_l(
        [(("a", "red", "dog"), [("a", "dog"), ("a", "red", "big", "dog", "runs", "far")])]
    )
    precision, recall = 1.0, 1.0  # "a red dog" inside the second; "a dog" whole
    assert value == pytest.approx((1 + 1.44) * precision * recall / (recall + 1.44 * precision))


def test_cider_of_one_image_is_zero_because_no_word_tells_images_apart() -> None:
    assert captions.cider([(("a", "dog"), [("a", "dog")])]) == 0


def test_cider_of_the_reference_itself_is_ten() -> None:
    pairs = [((str(n), "x", "y", str(-n)), [(str(n), "x", "y", str(-n))]) for n in range(1, 4)]
    assert captions.cider(pairs) == pytest.approx(10)


@pytest.mark.parametrize(
    ("a", "b", "length"), [("abcde", "ace", 3), ("abc", "xyz", 0), ("", "abc", 0), ("aab", "ab", 2)]
)
def test_longest_common_subsequence(a: str, b: str, length: int) -> None:
    assert (
        captions.common_length(list(a), list(b))
        == captions.common_length(list(b), list(a))
        == length
    )


def test_all_figures_of_sentences_with_punctuation() -> None:
    scores = captions.evaluate_captions(
        [("A dog runs.", ["a dog runs"]), ("Two men", ["two men !"])]
    )
    assert scores["bleu1"] == pytest.approx(1)
    assert scores["rouge_l"] == pytest.approx(1)
    assert scores["sentences"] == scores["distinct"] == 2
    assert "meteor" not in scores


def test_intervals_are_over_photos() -> None:
    pairs = [("a dog runs", ["a dog runs"]), ("red", ["red"]), ("two men", ["the grass sits"])]
    scores = captions.evaluate_captions(pairs, photos=["a", "a", "b"])
    intervals = scores["intervals"]
    assert set(intervals) == {"bleu1", "bleu2", "bleu3", "bleu4", "cider", "rouge_l"}
    # photo a alone has all words right, photo b alone none
    assert intervals["bleu1"] == [pytest.approx(0), pytest.approx(1)]
    assert intervals["rouge_l"] == [0, pytest.approx(1)]
    assert intervals["cider"][0] == 0
    assert intervals["cider"][1] > scores["cider"]
    assert "intervals" not in captions.evaluate_captions(pairs)


def test_meteor_gets_treebank_words() -> None:
    class Spy:
        metric = "meteor"

        def scores(self, pairs: object) -> list[float]:
            raise AssertionError

        def corpus_score(self, pairs: list) -> float:
            assert pairs == [("the dog 's ball", ["a dog"])]
            return 0.5

    assert captions.evaluate_captions([("The dog's ball!", ["A dog."])], Spy())["meteor"] == 0.5


def test_nothing_to_evaluate_is_an_error() -> None:
    with pytest.raises(DataError, match="no sentence"):
        captions.evaluate_captions([])
    with pytest.raises(DataError, match="without references"):
        captions.evaluate_captions([("a dog", [])])


def test_share_of_sentences_found_in_training() -> None:
    assert captions.share_found(["A dog .", "a cat"], ["a dog", "a horse"]) == 0.5
    assert captions.share_found([], ["a dog"]) == 0
