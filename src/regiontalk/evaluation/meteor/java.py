"""The jar itself, kept as a reference: METEOR 1.5 in a Java process.

One line a question on stdin, answers on stdout:
    SCORE ||| reference ||| ... ||| hypothesis      the statistics of the best reference
    EVAL ||| statistics ||| ...                     a score for each, then one for all of them
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence

from regiontalk.errors import RegionTalkError, UsageError
from regiontalk.evaluation.meteor.score import Pair
from regiontalk.evaluation.meteor.tables import Sources

# Questions sent at once: their answers must fit into a pipe, or both sides would wait for each other.
_AT_ONCE = 32
_LINE_BREAK = re.compile(r"[\r\n]")
_BAR_BEFORE_BAR = re.compile(r"\|(?=\|)")


class JavaMeteor:
    """The same interface as `Meteor`. No question waits longer than `timeout` seconds for its answer.

    The first one takes long: the jar reads its tables, for 7 to 18 seconds. `close` ends the process.
    """

    metric = "meteor"

    def __init__(self, command: Sequence[str], folder: str, timeout: float = 120.0) -> None:
        self._timeout = timeout
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed in `close`
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    @classmethod
    def load(cls, timeout: float = 120.0) -> JavaMeteor:
        sources = Sources.find()
        java = shutil.which("java")
        if java is None:
            raise RegionTalkError("java is not on the PATH", hint="install a Java runtime, or do without it")
        # The jar parses numbers by the user's language: 1.5 is no number in German.
        options = ["-Xmx2G", "-Duser.language=en", "-Duser.country=US", "-jar", str(sources.jar)]
        command = [java, *options, "-", "-", "-stdio", "-l", "en", "-norm"]
        return cls(command, str(sources.jar.parent), timeout)

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        return self.scores([(hypothesis, references)])[0]

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        return self._evaluate(pairs)[0]

    def corpus_score(self, pairs: Iterable[Pair]) -> float:
        return self._evaluate(pairs)[1]

    def _evaluate(self, pairs: Iterable[Pair]) -> tuple[list[float], float]:
        """The score of each segment and of all together."""
        questions = [_question(hypothesis, references) for hypothesis, references in pairs]
        if not questions:
            return [], 0.0
        statistics: list[str] = []
        for start in range(0, len(questions), _AT_ONCE):
            some = questions[start : start + _AT_ONCE]
            statistics += self._ask("".join(some), answers=len(some))
        answers = self._ask(f"EVAL ||| {' ||| '.join(statistics)}\n", answers=len(statistics) + 1)
        *segments, corpus = map(_number, answers)
        return segments, corpus

    def _ask(self, text: str, answers: int) -> list[str]:
        """A watchdog ends the process when it does not answer, which ends the waiting here too."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(self._timeout, self._process.kill)
        with self._lock:
            watchdog.start()
            try:
                self._process.stdin.write(text.encode("utf-8", "replace"))
                self._process.stdin.flush()
                lines = [self._process.stdout.readline().decode().strip() for _ in range(answers)]
            except (OSError, ValueError):
                lines = [""]
            finally:
                watchdog.cancel()
        if not all(lines):
            raise RegionTalkError(self._failure())
        return lines

    def _failure(self) -> str:
        if self._errors.closed:
            return "METEOR's Java process was closed"
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        reason = said[0] if said else f"no answer within {self._timeout:g} s"
        return f"METEOR's Java process failed: {reason}"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def _question(hypothesis: str, references: Sequence[str]) -> str:
    if not references:
        raise UsageError("METEOR needs at least one reference")
    return f"SCORE ||| {' ||| '.join(map(_field, references))} ||| {_field(hypothesis)}\n"


def _field(text: str) -> str:
    """Without line breaks and "|||", which the protocol uses itself; the words stay the same."""
    return _BAR_BEFORE_BAR.sub("| ", _LINE_BREAK.sub(" ", text))


def _number(answer: str) -> float:
    try:
        return float(answer)
    except ValueError as error:
        raise RegionTalkError(f"METEOR's Java process answered {answer!r}") from error
