"""What judges a sentence against references: METEOR, or a quick stand-in that needs no tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from regiontalk.evaluation.ptb import tokenize

Pair = tuple[str, Sequence[str]]  # a sentence and its references


class SentenceScorer(Protocol):
    """Scores sentences between 0 and 1. `metric` is the name under which the figures are reported."""

    metric: str

    def scores(self, pairs: Iterable[Pair]) -> list[float]: ...


class CorpusScorer(SentenceScorer, Protocol):
    """Also one figure for many sentences, which need not be their mean (METEOR adds up its counts)."""

    def corpus_score(self, pairs: Iterable[Pair]) -> float: ...


class UnigramF1:
    """The F1 of shared words with the nearest reference. Quick, without tables, and **not** METEOR.

    For dev figures during training on machines without METEOR's tables.
    """

    metric = "unigram_f1"

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        return [max((_f1(sentence, one) for one in references), default=0.0) for sentence, references in pairs]


def _f1(sentence: str, reference: str) -> float:
    ours, theirs = tokenize(sentence), tokenize(reference)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


class TreebankWords:
    """A scorer that is fed the words of `ptb.tokenize`, as coco-caption feeds METEOR."""

    def __init__(self, scorer: SentenceScorer) -> None:
        self.scorer = scorer
        self.metric = scorer.metric

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        return self.scorer.scores((_words(sentence), [_words(one) for one in more]) for sentence, more in pairs)


def _words(sentence: str) -> str:
    return " ".join(tokenize(sentence))


def score_once(scorer: SentenceScorer, pairs: Sequence[Pair]) -> list[float]:
    """`scorer.scores(pairs)` with every different pair scored once: models repeat themselves."""
    numbers: dict[tuple[str, tuple[str, ...]], int] = {}
    places = [numbers.setdefault((sentence, tuple(references)), len(numbers)) for sentence, references in pairs]
    scores = scorer.scores(list(numbers))
    return [scores[place] for place in places]


@contextmanager
def open_meteor(kind: str = "python") -> Iterator[CorpusScorer]:
    """METEOR 1.5: our own ("python") or the original in a Java process ("java")."""
    from regiontalk.evaluation import meteor

    if kind == "java":
        with meteor.JavaMeteor() as scorer:
            yield scorer
    else:
        yield meteor.Meteor.load()
