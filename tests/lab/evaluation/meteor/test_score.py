from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regiontalk.errors import MissingExtra, UsageError
from regiontalk.lab.evaluation.meteor import Meteor, score

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def meteor() -> Meteor:
    try:
        return Meteor.load()
    except MissingExtra as error:
        pytest.skip(f"METEOR's tables are not installed: {error}")


def test_scores_of_the_jar(meteor: Meteor) -> None:
    """Made by `data/make_meteor_scores.py`; the last digit is left to the platform's power
    function."""
    sentences = (DATA / "meteor_sentences.txt").read_text(encoding="utf-8").split("\n")
    stored = json.loads((DATA / "meteor_scores.json").read_text(encoding="utf-8"))
    pairs = [
        (sentences[line], [sentences[other] for other in others])
        for line, others, _ in stored["cases"]
    ]
    expected = [score for _, _, score in stored["cases"]]
    assert meteor.scores(pairs) == pytest.approx(expected, abs=1e-12)
    assert meteor.corpus_score(pairs) == pytest.approx(stored["corpus"], abs=1e-12)


@pytest.mark.slow
def test_the_jar_itself_agrees(meteor: Meteor) -> None:
    """The jar takes many seconds to read its tables."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    jar = pytest.importorskip("pycocoevalcap.meteor.meteor").Meteor()
    pairs = [
        ("a dog runs", ["the dogs run", "a cat"]),
        ("A man sat on a bench, reading.", ["A man is seated on a bench .", "someone reads"]),
        ("", ["a dog"]),
        ("a dog", [""]),
        ("漢字 naïve 😀", ["naïve 😀 漢字"]),
    ]
    references = {number: others for number, (_, others) in enumerate(pairs)}
    corpus, scores = jar.compute_score(
        references, {number: [text] for number, (text, _) in enumerate(pairs)}
    )
    jar.meteor_p.kill()
    jar.meteor_p.communicate()  # closes its pipes
    assert meteor.scores(pairs) == pytest.approx(scores, abs=1e-12)
    assert meteor.corpus_score(pairs) == pytest.approx(corpus, abs=1e-12)


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
def test_each_matcher_has_its_weight(
    meteor: Meteor, hypothesis: str, reference: str, weight: float
) -> None:
    """One matched word on both sides: precision and recall are the weight, and nothing is
    fragmented."""
    assert meteor.score(hypothesis, [reference]) == pytest.approx(weight)


def test_paraphrases_count(meteor: Meteor) -> None:
    rewritten, other = (
        meteor.score("a number of people", ["several people"]),
        meteor.score("a number of people", ["striped people"]),
    )
    assert rewritten == pytest.approx(0.6)
    assert other < 0.3


def test_a_lone_word_that_two_matchers_match_is_lost(meteor: Meteor) -> None:
    """The jar's search prefers no chunk to half a word; with a neighbour the word costs no
    chunk."""
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


def test_no_reference_is_refused(meteor: Meteor) -> None:
    with pytest.raises(UsageError):
        meteor.score("a dog", [])


def test_neither_order_nor_company_of_questions_matters(
    meteor: Meteor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words are numbered as they are met, and questions answered many at a time."""
    texts = (DATA / "meteor_sentences.txt").read_text(encoding="utf-8").split("\n")[:300]
    cases = [(texts[n], texts[n + 1 : n + 7]) for n in range(0, len(texts) - 7, 3)]
    together = Meteor.load().scores(iter(cases))
    assert meteor.scores(cases[::-1]) == together[::-1]
    assert [
        max(meteor.score(one, [other]) for other in others) for one, others in cases
    ] == together
    corpus = meteor.corpus_score(cases)
    monkeypatch.setattr(score, "PAIRS_AT_ONCE", 10)
    assert meteor.scores(cases) == together
    assert meteor.corpus_score(cases) == corpus


def test_nothing_to_score(meteor: Meteor) -> None:
    assert meteor.scores([]) == []
    assert meteor.corpus_score([]) == 0


def test_very_long_sentences(meteor: Meteor) -> None:
    """More matches and words in use than there is room for at first."""
    text = " ".join(f"word{n % 90} a" for n in range(300))
    assert meteor.score(text, [text]) == 1
    one_chunk = 1 - 0.6 * (1 / 600) ** 0.2
    assert meteor.score(text, [f"{text} more"]) == pytest.approx(one_chunk, abs=0.003)
    assert meteor.score("a " * 600, ["a " * 600 + "the"]) == pytest.approx(one_chunk, abs=0.003)


def test_a_long_start_is_announced(meteor: Meteor, monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient(threading.Timer):
        def start(self) -> None:
            self.function(*self.args)

    said: list[str] = []
    Meteor.load(said.append)
    assert said == []
    monkeypatch.setattr(score, "Timer", Impatient)
    Meteor.load(said.append)
    assert [line.split()[0] for line in said] == ["Compiling"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40), st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_any_text_scores_between_0_and_1(
    meteor: Meteor, hypothesis: str, references: list[str]
) -> None:
    assert 0 <= meteor.score(hypothesis, references) <= 1
    assert 0 <= meteor.corpus_score([(hypothesis, references)] * 2) <= 1
