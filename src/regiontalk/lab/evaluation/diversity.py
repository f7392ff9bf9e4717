"""How much captions differ from each other: different captions, different words and pairs of words
(distinct-n, Li et al. 2016), and captions that stand in the training data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from regiontalk.errors import DataError
from regiontalk.lab.evaluation.captions import ngrams, share_found
from regiontalk.lab.evaluation.ptb import tokenize


def evaluate_diversity(captions: Sequence[str], training: Iterable[str] = ()) -> dict[str, Any]:
    """`different`: the share of different captions, in percent; `distinct1`, `distinct2`: of
    different words, and pairs of neighbouring words, among all of them; `in_training`: the share of
    captions that are one of the `training` captions word for word."""
    words = [tokenize(caption) for caption in captions]
    if not words:
        raise DataError("no caption to evaluate")
    known = list(training)
    figures: dict[str, Any] = {
        "captions": len(words),
        "different_captions": len(set(words)),
        "different": 100 * len(set(words)) / len(words),
        "words": sum(map(len, words)) / len(words),
        "distinct1": _distinct(words, 1),
        "distinct2": _distinct(words, 2),
    }
    if known:
        figures["in_training"] = 100 * share_found(captions, known)
    return figures


def _distinct(captions: Iterable[Sequence[str]], length: int) -> float:
    every_gram = chain.from_iterable(ngrams(words).elements() for words in captions)
    grams = [gram for gram in every_gram if len(gram) == length]
    return 100 * len(set(grams)) / len(grams) if grams else 0.0
