"""Sentences against reference sentences: BLEU-1..4, ROUGE-L, CIDEr, METEOR (K&FF tables 2 and 3).

The first three equal coco-caption's figures; all work on the words of `ptb.tokenize`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from regiontalk.boxes import Floats, Integers
from regiontalk.errors import DataError
from regiontalk.lab.evaluation.intervals import bootstrap_photos
from regiontalk.lab.evaluation.language import CorpusScorer
from regiontalk.lab.evaluation.ptb import tokenize

Words = Sequence[str]
WordPair = tuple[Words, Sequence[Words]]  # a sentence and its references, as words
Ngrams = Counter[tuple[str, ...]]

LONGEST_NGRAM = 4  # words in an n-gram
CIDER_SIGMA = 6.0
ROUGE_BETA = 1.2


def evaluate_captions(
    pairs: Iterable[tuple[str, Sequence[str]]],
    meteor: CorpusScorer | None = None,
    photos: Sequence[Hashable] | None = None,
) -> dict[str, Any]:
    """Every figure for (sentence, references) pairs: between 0 and 1, CIDEr up to 10.

    `photos`: the photo of each pair, for `intervals` of 95 % over photos (METEOR has none).
    """
    words = [
        (tokenize(sentence), list(map(tokenize, references))) for sentence, references in pairs
    ]
    if not words:
        raise DataError("no sentence to evaluate")
    if not all(references for _, references in words):
        raise DataError("a sentence without references cannot be evaluated")
    figures: dict[str, Any] = {f"bleu{n}": value for n, value in enumerate(bleu(words), start=1)}
    if meteor is not None:
        joined = [(" ".join(ours), list(map(" ".join, references))) for ours, references in words]
        figures["meteor"] = meteor.corpus_score(joined)
    figures |= {"cider": cider(words), "rouge_l": rouge_l(words)}
    figures |= {"sentences": len(words), "distinct": len({ours for ours, _ in words})}
    return figures | ({} if photos is None else {"intervals": _intervals(words, photos)})


def _intervals(pairs: Sequence[WordPair], photos: Sequence[Hashable]) -> dict[str, list[float]]:
    """CIDEr's word frequencies stay those of all pairs."""
    counts = np.array([_bleu_counts(*pair) for pair in pairs])
    ciders = cider_scores(pairs)
    rouges = np.array([_rouge_l(*pair) for pair in pairs])

    def figures_of(times: Integers) -> dict[str, float]:
        bleus = {f"bleu{n}": value for n, value in enumerate(_bleu(times @ counts), start=1)}
        means = {"cider": times @ ciders / times.sum(), "rouge_l": times @ rouges / times.sum()}
        return bleus | {name: float(value) for name, value in means.items()}

    return bootstrap_photos(photos, figures_of)


def share_found(sentences: Iterable[str], training: Iterable[str]) -> float:
    """Share of the sentences that stand word for word in the training set (K&FF section 4.2)."""
    known = {tokenize(sentence) for sentence in training}
    are_known = [tokenize(sentence) in known for sentence in sentences]
    return sum(are_known) / len(are_known) if are_known else 0.0


def bleu(pairs: Sequence[WordPair]) -> tuple[float, float, float, float]:
    """Corpus BLEU with the reference length nearest to the sentence's (of two equally near, the
    shorter)."""
    return _bleu(np.sum([_bleu_counts(*pair) for pair in pairs], axis=0))


def _bleu_counts(ours: Words, references: Sequence[Words]) -> Floats:
    """What BLEU adds up over the pairs: right n-grams (4), n-grams (4), and the lengths of the
    sentence and of the nearest reference."""
    correct = np.zeros(LONGEST_NGRAM)
    limits: Ngrams = Counter()
    for reference in references:
        limits |= ngrams(reference)
    for gram, count in ngrams(ours).items():
        correct[len(gram) - 1] += min(count, limits[gram])
    guessed = [max(0, len(ours) - n) for n in range(LONGEST_NGRAM)]
    nearest = min((abs(len(reference) - len(ours)), len(reference)) for reference in references)[1]
    return np.array([*correct, *guessed, len(ours), nearest])


def _bleu(totals: Floats) -> tuple[float, float, float, float]:
    correct, guessed = totals[:LONGEST_NGRAM], totals[LONGEST_NGRAM:-2]
    length, reference_length = totals[-2:].tolist()
    # The small numbers are coco-caption's: no division by zero, and zero stays (almost) zero.
    precisions = np.cumprod((correct + 1e-15) / (guessed + 1e-9))
    ratio = (length + 1e-15) / (reference_length + 1e-9)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    b1, b2, b3, b4 = (
        float(value ** (1 / n)) * brevity for n, value in enumerate(precisions, start=1)
    )
    return b1, b2, b3, b4


def rouge_l(pairs: Sequence[WordPair]) -> float:
    """Mean F-measure of the longest common subsequence; best precision and best recall taken
    apart."""
    return float(np.mean([_rouge_l(ours, references) for ours, references in pairs]))


def _rouge_l(ours: Words, references: Sequence[Words]) -> float:
    # Nothing counts as one empty word, as in coco-caption, which splits at single spaces.
    ours = ours or [""]
    lengths = [
        (common_length(ours, reference or [""]), len(reference or [""])) for reference in references
    ]
    precision = max(common for common, _ in lengths) / len(ours)
    recall = max(common / length for common, length in lengths)
    if precision == 0:
        return 0.0
    weight = ROUGE_BETA**2
    return (1 + weight) * precision * recall / (recall + weight * precision)


def common_length(a: Words, b: Words) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for j, other in enumerate(b, start=1):
            diagonal, row[j] = row[j], diagonal + 1 if word == other else max(row[j], row[j - 1])
    return row[-1]


def cider(pairs: Sequence[WordPair]) -> float:
    """CIDEr-D without its repetition clause, as coco-caption has it: mean over sentences, times
    ten."""
    return float(np.mean(cider_scores(pairs)))


def cider_scores(pairs: Sequence[WordPair]) -> Floats:
    """The CIDEr of each sentence."""
    references = [list(map(ngrams, more)) for _, more in pairs]
    frequency: Ngrams = Counter()
    for more in references:
        frequency.update(set(chain.from_iterable(more)))
    log_images = math.log(len(pairs))
    scores = []
    for (ours, _), more in zip(pairs, references, strict=True):
        vector = _Weights(ngrams(ours), frequency, log_images)
        total = sum(
            vector.similarity(_Weights(reference, frequency, log_images)) for reference in more
        )
        scores.append(10 * total / len(more))
    return np.array(scores)


class _Weights:
    """A sentence's n-grams, weighed: rarer among the images' references is heavier. By length of
    n-gram."""

    def __init__(self, counts: Ngrams, frequency: Ngrams, log_images: float) -> None:
        self.weights: list[dict[tuple[str, ...], float]] = [{} for _ in range(LONGEST_NGRAM)]
        for gram, count in counts.items():
            self.weights[len(gram) - 1][gram] = count * (
                log_images - math.log(max(1, frequency[gram]))
            )
        self.norms = [_norm(part.values()) for part in self.weights]
        # coco-caption takes the number of bigrams for the length.
        self.length = sum(count for gram, count in counts.items() if len(gram) == 2)

    def similarity(self, reference: _Weights) -> float:
        """Mean over n of the clipped cosine, less the more the lengths differ."""
        total = 0.0
        for ours, theirs, norm, other in zip(
            self.weights, reference.weights, self.norms, reference.norms, strict=True
        ):
            if norm and other:
                shared = sum(
                    min(value, theirs[gram]) * theirs[gram]
                    for gram, value in ours.items()
                    if gram in theirs
                )
                total += shared / (norm * other)
        apart = self.length - reference.length
        return total / LONGEST_NGRAM * math.exp(-(apart**2) / (2 * CIDER_SIGMA**2))


def _norm(values: Iterable[float]) -> float:
    return math.sqrt(sum(value * value for value in values))


def ngrams(words: Words) -> Ngrams:
    """Counts of every run of one to four words."""
    counts: Ngrams = Counter()
    for n in range(1, LONGEST_NGRAM + 1):
        counts.update(tuple(words[start : start + n]) for start in range(len(words) - n + 1))
    return counts
