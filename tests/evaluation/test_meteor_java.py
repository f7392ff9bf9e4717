from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from regiontalk.errors import MissingExtra, RegionTalkError, UsageError
from regiontalk.evaluation.meteor import JavaMeteor, Meteor

PAIRS = [
    ("a dog runs", ["the dogs run", "a cat"]),
    ("A man sat on a bench, reading.", ["A man is seated on a bench .", "someone reads"]),
    ("two\nlines", ["two lines"]),
    ("bars ||| and ||||", ["bars | | | and | | | |"]),
    ("", ["a dog"]),
    ("a dog", [""]),
    ("", [""]),
    ("漢字 naïve 😀", ["naïve 😀 漢字"]),
]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMeteor]:
    """One process for all: it takes the jar many seconds to read its tables."""
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    try:
        scorer = JavaMeteor.load()
    except MissingExtra as error:
        pytest.skip(f"METEOR's jar is not installed: {error}")
    with closing(scorer):
        yield scorer


@pytest.mark.slow
def test_the_jar_and_python_agree(java: JavaMeteor) -> None:
    meteor = Meteor.load()
    assert java.scores(PAIRS) == pytest.approx(meteor.scores(PAIRS), abs=1e-12)
    assert java.corpus_score(PAIRS) == pytest.approx(meteor.corpus_score(PAIRS), abs=1e-12)
    assert java.score(*PAIRS[0]) == pytest.approx(meteor.score(*PAIRS[0]), abs=1e-12)


@pytest.mark.slow
def test_more_questions_than_are_sent_at_once(java: JavaMeteor) -> None:
    scores = java.scores([(f"dog {n}", [f"dog {n % 2}"]) for n in range(100)])
    assert len(scores) == 100
    assert scores[:3] == [1.0, 1.0, scores[2]]
    assert scores[2] < 1
    assert java.scores([]) == []


def imitate(code: str, folder: Path, timeout: float = 20.0) -> JavaMeteor:
    return JavaMeteor([sys.executable, "-c", code], str(folder), timeout)


def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    begin = time.monotonic()
    with (
        closing(imitate("import time; time.sleep(60)", tmp_path, timeout=0.5)) as scorer,
        pytest.raises(RegionTalkError, match=r"no answer within 0\.5 s"),
    ):
        scorer.score("a", ["a"])
    assert time.monotonic() - begin < 30


def test_a_process_that_does_not_read_is_ended(tmp_path: Path) -> None:
    with (
        closing(imitate("import time; time.sleep(60)", tmp_path, timeout=0.5)) as scorer,
        pytest.raises(RegionTalkError, match="no answer"),
    ):
        scorer.score("a" * 1_000_000, ["a"])


def test_a_process_that_dies_says_why(tmp_path: Path) -> None:
    with (
        closing(imitate("raise SystemExit('out of memory')", tmp_path)) as scorer,
        pytest.raises(RegionTalkError, match="out of memory"),
    ):
        scorer.score("a", ["a"])


def test_an_answer_that_is_no_number(tmp_path: Path) -> None:
    code = "import sys\nfor line in sys.stdin: print('Error: what?\\n' * 2, end='', flush=True)"
    with closing(imitate(code, tmp_path)) as scorer, pytest.raises(RegionTalkError, match="Error: what"):
        scorer.score("a", ["a"])


def test_closed_is_closed(tmp_path: Path) -> None:
    scorer = imitate("", tmp_path)
    scorer.close()
    with pytest.raises(RegionTalkError):
        scorer.score("a", ["a"])


def test_no_reference_is_refused(tmp_path: Path) -> None:
    with closing(imitate("", tmp_path)) as scorer, pytest.raises(UsageError):
        scorer.score("a", [])


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        Meteor.load()
    except MissingExtra as error:
        pytest.skip(f"METEOR's jar is not installed: {error}")
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(RegionTalkError, match="java is not on the PATH"):
        JavaMeteor.load()
