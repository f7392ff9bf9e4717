"""METEOR's jar in a Java process, through the wrapper that pycocoevalcap carries: the peer of our
own METEOR."""

from __future__ import annotations

from collections.abc import Sequence

from pycocoevalcap.meteor.meteor import Meteor

Pair = tuple[str, Sequence[str]]


class JarMeteor:
    """The interface of `regiontalk.lab.evaluation.meteor.Meteor`. Texts must have no line break and
    no "|||"."""

    def __init__(self) -> None:
        self._jar = Meteor()

    def score(self, hypothesis: str, references: Sequence[str]) -> float:
        return self.scores([(hypothesis, references)])[0]

    def scores(self, pairs: Sequence[Pair]) -> list[float]:
        return self.evaluate(pairs)[1]

    def evaluate(self, pairs: Sequence[Pair]) -> tuple[float, list[float]]:
        """The corpus score, and that of each pair."""
        references = {number: list(others) for number, (_, others) in enumerate(pairs)}
        corpus, scores = self._jar.compute_score(
            references, {n: [text] for n, (text, _) in enumerate(pairs)}
        )
        return corpus, scores
