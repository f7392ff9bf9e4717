"""Scorers of a sentence against references: METEOR, or a quick stand-in that needs no tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from regiontalk.lab.evaluation.ptb import tokenize
from regiontalk.language.vocabulary import word_set

Pair = tuple[str, Sequence[str]]  # a sentence and its references


class SentenceScorer(Protocol):
    """Scores sentences between 0 and 1; figures are reported under the name `metric`."""

    metric: str

    def scores(self, pairs: Iterable[Pair]) -> list[float]: ...


class CorpusScorer(SentenceScorer, Protocol):
    """A scorer with one figure for many sentences, which need not be their mean (METEOR adds up its
    counts)."""

    def corpus_score(self, pairs: Iterable[Pair]) -> float: ...


UNSCORED_WORDS = word_set("a an the of in on at to with and or is are his her its their")
"""Words that `UnigramF1` leaves out. Fewer than the vocabulary's function words: recorded dev
figures, which chose checkpoints, were measured with these."""


class UnigramF1:
    """The F1 of shared words with the nearest reference. Quick, without tables, and **not** METEOR.

    Words such as "a" do not count, or any two phrases would have something in common. For dev
    figures during training and for machines without METEOR's tables.
    """

    metric = "unigram_f1"

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        return [_best_f1(sentence, references) for sentence, references in pairs]


def _best_f1(sentence: str, references: Iterable[str]) -> float:
    return max((_f1(sentence, reference) for reference in references), default=0.0)


def _f1(sentence: str, reference: str) -> float:
    ours = _content_words(sentence)
    theirs = _content_words(reference)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def _content_words(text: str) -> list[str]:
    return [word for word in tokenize(text) if word not in UNSCORED_WORDS]


class TreebankWords:
    """A scorer that is fed the words of `ptb.tokenize`, as coco-caption feeds METEOR."""

    def __init__(self, scorer: SentenceScorer) -> None:
        self.scorer = scorer
        self.metric = scorer.metric

    def scores(self, pairs: Iterable[Pair]) -> list[float]:
        return self.scorer.scores(
            [(_words(sentence), list(map(_words, references))) for sentence, references in pairs]
        )


def _words(sentence: str) -> str:
    return " ".join(tokenize(sentence))


def score_once(scorer: SentenceScorer, pairs: Sequence[Pair]) -> list[float]:
    """`scorer.scores(pairs)` with every different pair scored once: models repeat themselves."""
    numbers: dict[tuple[str, tuple[str, ...]], int] = {}
    places = [
        numbers.setdefault((sentence, tuple(references)), len(numbers))
        for sentence, references in pairs
    ]
    scores = scorer.scores(list(numbers))
    return [scores[index] for index in places]
