from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regiontalk.errors import MissingExtra, UsageError
from regiontalk.evaluation.meteor import Meteor, score
from regiontalk.evaluation.meteor.aligner import align
from regiontalk.evaluation.meteor.lexicon import EXACT, PARAPHRASE, STEM, SYNONYM, Sentence, java_hash
from regiontalk.evaluation.meteor.matching import Found, Match
from regiontalk.evaluation.meteor.score import (
    NOTHING,
    Statistics,
    count_chunks,
    score_of,
    statistics_of,
    upper_bound,
)

DATA = Path(__file__).parent / "data"

STATISTICS = Statistics(
    hypothesis_length=4,
    reference_length=5,
    hypothesis_function_words=1,
    reference_function_words=2,
    hypothesis_matches=(2, 0, 0, 0, 1, 0, 0, 0),
    reference_matches=(2, 0, 0, 0, 1, 0, 0, 0),
    chunks=2,
)


@pytest.fixture(scope="module")
def meteor() -> Meteor:
    try:
        return Meteor.load()
    except MissingExtra as error:
        pytest.skip(f"METEOR's tables are not installed: {error}")


def test_scores_of_the_jar(meteor: Meteor) -> None:
    """Made by `data/make_meteor_scores.py`; the last digit is left to the platform's power function."""
    sentences = (DATA / "meteor_sentences.txt").read_text(encoding="utf-8").split("\n")
    stored = json.loads((DATA / "meteor_scores.json").read_text(encoding="utf-8"))
    pairs = [(sentences[line], [sentences[other] for other in others]) for line, others, _ in stored["cases"]]
    expected = [score for _, _, score in stored["cases"]]
    assert meteor.scores(pairs) == pytest.approx(expected, abs=1e-12)
    assert meteor.corpus_score(pairs) == pytest.approx(stored["corpus"], abs=1e-12)


@pytest.mark.parametrize(
    ("hypothesis", "reference", "expected"),
    [
        ("a dog", "a dog", 1.0),
        ("A DOG", "a dog", 1.0),
        ("the of", "the of", 1.0),
        (".", ".", 1.0),
        ("", "a dog", 0.0),
        ("a dog", "", 0.0),
        ("", "", 0.0),
        ("zebra", "teapot", 0.0),
        ("漢字 😀", "漢字 😀", 1.0),
        # Java's hashes of these two words are equal, so the jar matches them.
        ("an", "c0", 1.0),
    ],
)
def test_plain_cases(meteor: Meteor, hypothesis: str, reference: str, expected: float) -> None:
    assert meteor.score(hypothesis, [reference]) == expected


@pytest.mark.parametrize(
    ("hypothesis", "reference", "weight"),
    [("kwyjibo", "kwyjibo", 1.0), ("kwyjibos", "kwyjibo", 0.6), ("sofa", "couch", 0.8)],
)
def test_each_matcher_has_its_weight(meteor: Meteor, hypothesis: str, reference: str, weight: float) -> None:
    """One matched word on both sides: precision and recall are the weight, and nothing is fragmented."""
    assert meteor.score(hypothesis, [reference]) == pytest.approx(weight)


def test_paraphrases_count(meteor: Meteor) -> None:
    rewritten, other = (
        meteor.score("a number of people", ["several people"]),
        meteor.score("a number of people", ["striped people"]),
    )
    assert rewritten == pytest.approx(0.6)
    assert other < 0.3


def test_a_lone_word_that_two_matchers_match_is_lost(meteor: Meteor) -> None:
    """The jar's search prefers no chunk to half a word; with a neighbour the word costs no chunk."""
    assert meteor.score("dogs", ["dog"]) == 0
    assert meteor.score("a dogs", ["a dog"]) == pytest.approx(0.7)


def test_the_best_reference_counts(meteor: Meteor) -> None:
    references = ["a cat", "the dog runs", "a bird"]
    best = max(meteor.score("a dog runs", [reference]) for reference in references)
    assert meteor.score("a dog runs", references) == best
    assert meteor.score("a dog runs", references[::-1]) == best


def test_of_equal_references_the_first_counts(meteor: Meteor) -> None:
    """All score 0 here, so only the corpus tells by whose length it was scored."""
    others = [("a dog", ["a dog runs"])]
    for first, second in (("teapot", "a teapot and cups"), ("three teapots and cups", "teapot")):
        both = meteor.corpus_score([("zebra", [first, second]), *others])
        assert both == meteor.corpus_score([("zebra", [first]), *others])


def test_references_that_cannot_win_change_nothing(meteor: Meteor) -> None:
    """Asked for together, they are not all aligned; asked for alone, before or after, they are."""
    texts = (DATA / "meteor_sentences.txt").read_text(encoding="utf-8").split("\n")[:300]
    cases = [(texts[n], texts[n + 1 : n + 7]) for n in range(0, len(texts) - 7, 3)]
    together = Meteor.load().scores(cases)
    alone = [max(meteor.score(hypothesis, [reference]) for reference in others) for hypothesis, others in cases]
    assert together == alone
    assert meteor.scores(cases) == alone


def test_no_reference_is_refused(meteor: Meteor) -> None:
    with pytest.raises(UsageError):
        meteor.score("a dog", [])


def test_memory_is_bounded_and_changes_nothing(meteor: Meteor, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(f"a dog and {n % 7} cats", [f"the dog has {n % 5} cats", "a cat"]) for n in range(60)]
    expected = meteor.scores(pairs)
    monkeypatch.setattr(score, "REMEMBERED_PAIRS", 8)
    monkeypatch.setattr(score, "REMEMBERED_SENTENCES", 4)
    monkeypatch.setattr(score, "REMEMBERED_STATISTICS", 3)
    forgetful = Meteor.load()
    assert forgetful.scores(pairs) == expected
    assert len(forgetful._pairs) <= 8
    assert len(forgetful._sentences) <= 4
    assert len(forgetful._scored) <= 3


def test_the_order_of_questions_changes_nothing(meteor: Meteor) -> None:
    """Words and phrases learn of each other as they are met."""
    texts = ["a man is going up the stairs", "the guy climbs some steps", "a car in the street", "an auto"]
    pairs = [(one, [other]) for one in texts for other in texts]
    expected = meteor.scores(pairs)
    assert Meteor.load().scores(pairs[::-1]) == expected[::-1]


def test_the_garbage_collector_is_left_as_it_was(meteor: Meteor) -> None:
    def failing() -> object:
        yield "a dog", ["a dog"]
        raise RuntimeError

    assert gc.isenabled()
    with pytest.raises(RuntimeError):
        meteor.scores(failing())  # type: ignore[arg-type]
    assert gc.isenabled()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40), st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_any_text_scores_between_0_and_1(meteor: Meteor, hypothesis: str, references: list[str]) -> None:
    assert 0 <= meteor.score(hypothesis, references) <= 1
    assert 0 <= meteor.corpus_score([(hypothesis, references)] * 2) <= 1


def sentence(function_words: list[bool]) -> Sentence:
    """Only what counting needs."""
    keys = tuple(range(len(function_words)))
    return Sentence(keys, tuple(function_words), sum(function_words), frozenset(), {}, frozenset(), {}, ())


@st.composite
def problems(draw: st.DrawFn, longest: int) -> tuple[Sentence, Sentence, Found]:
    """Two sentences and matches between them; longer ones are paraphrases."""
    hypothesis, reference = (sentence(draw(st.lists(st.booleans(), min_size=1, max_size=7))) for _ in range(2))
    found: Found = [[] for _ in reference.keys]
    for _ in range(draw(st.integers(0, 16))):
        start, place = draw(st.sampled_from(reference.keys)), draw(st.sampled_from(hypothesis.keys))
        length = draw(st.integers(1, min(longest, len(reference.keys) - start)))
        extent = draw(st.integers(1, min(longest, len(hypothesis.keys) - place)))
        single = length == extent == 1
        matcher = draw(st.sampled_from([EXACT, EXACT, STEM, SYNONYM])) if single else PARAPHRASE
        found[start].append((start, length, place, extent, matcher))
    return hypothesis, reference, found


def some_alignment(matches: list[Match]) -> list[Match]:
    """The matches one after the other, where their words are still free."""
    taken: list[Match] = []
    used: set[tuple[str, int]] = set()
    for match in matches:
        start, length, place, extent, _ = match
        words = {("reference", word) for word in range(start, start + length)}
        words |= {("hypothesis", word) for word in range(place, place + extent)}
        if used.isdisjoint(words):
            used |= words
            taken.append(match)
    return sorted(taken)


@pytest.mark.parametrize("longest", [1, 3])
@given(data=st.data())
def test_no_alignment_exceeds_the_bound(longest: int, data: st.DataObject) -> None:
    hypothesis, reference, found = data.draw(problems(longest))
    bound = upper_bound(hypothesis, reference, found)
    matches = data.draw(st.permutations([match for here in found for match in here]))
    for taken in (align(found, len(hypothesis.keys)), some_alignment(matches)):
        assert score_of(statistics_of(hypothesis, reference, taken)) <= bound


def test_the_bound_of_a_chunk_is_its_score() -> None:
    hypothesis, reference = sentence([True, False, False]), sentence([True, False, True, False])
    found = [[(0, 1, 0, 1, EXACT)], [(1, 1, 1, 1, SYNONYM)], [], []]
    score = score_of(statistics_of(hypothesis, reference, [match for here in found for match in here]))
    assert upper_bound(hypothesis, reference, found) == pytest.approx(score)


def test_the_formula() -> None:
    """P = R = weighted matches / weighted length, by hand: 2 * .75 + 1 * .25 of 3 * .75 + 1 * .25 or 2 * .25."""
    precision, recall = 1.75 / 2.5, 1.75 / 2.75
    f_mean = precision * recall / (0.85 * precision + 0.15 * recall)
    assert score_of(STATISTICS) == pytest.approx(f_mean * (1 - 0.6 * (2 / 3) ** 0.2))
    assert score_of(NOTHING) == 0


def test_more_chunks_score_less() -> None:
    scores = [score_of(STATISTICS._replace(chunks=chunks)) for chunks in (1, 2, 3)]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3


def test_pooling_adds_all_but_the_chunk_of_a_perfect_segment() -> None:
    perfect = Statistics(2, 2, 1, 1, (1, 0, 0, 0, 1, 0, 0, 0), (1, 0, 0, 0, 1, 0, 0, 0), 1)
    pooled = STATISTICS.pooled(perfect)
    assert pooled == Statistics(6, 7, 2, 3, (3, 0, 0, 0, 2, 0, 0, 0), (3, 0, 0, 0, 2, 0, 0, 0), 2)
    assert score_of(perfect.pooled(NOTHING)) == score_of(NOTHING.pooled(perfect)) == 1


@pytest.mark.parametrize(
    ("matches", "chunks"),
    [
        ([], 0),
        ([(0, 1, 0, 1, EXACT), (1, 1, 1, 1, EXACT)], 1),
        ([(0, 1, 0, 1, EXACT), (2, 1, 1, 1, EXACT)], 2),
        ([(0, 1, 1, 1, EXACT), (1, 1, 0, 1, EXACT)], 2),
        ([(0, 2, 0, 3, PARAPHRASE), (2, 1, 3, 1, EXACT)], 1),
    ],
)
def test_chunks(matches: list[tuple[int, int, int, int, int]], chunks: int) -> None:
    assert count_chunks(matches) == chunks


def test_java_hash() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("an") == java_hash("c0")
    assert java_hash("😀") == 1772899
