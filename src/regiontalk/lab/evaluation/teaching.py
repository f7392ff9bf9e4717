"""How well words are recognised that were taught with a few examples, and how often they are said
of regions that show none of them.

Names that the model was never trained on are taught with 1, 3, 5 and 10 of their examples; the
other examples are to be recognised. Some of these names are also looked for in everyday photos,
where each one that is said counts as false.

Shapes: E examples of a word, D the size of a code or vector, M regions of everyday photos, W words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import DataError
from regiontalk.inference.codes import with_codes
from regiontalk.inference.look import caption
from regiontalk.inference.taught import SURE, TaughtWord, TaughtWords, Weights
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.fitting.regression import logistic_regression, smoothed
from regiontalk.models.background import Space
from regiontalk.models.runtime import Floats
from regiontalk.results import BoxXYXY

COUNTS = (1, 3, 5, 10)
"""Examples that words are taught with."""
MIN_EXAMPLES = 11
MAX_PHOTOS = 16
"""Of a word, so that frequent words count like others."""
TAUGHT = 50
"""Words that are looked for in everyday photos."""
REPEATS = 5
FALSE_SHARE = 0.015
"""Of the everyday regions, so many may be called by one of `TAUGHT` words."""

USUAL_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of u that are tried, relative to that of s."""

NAMED_TYPES = ("object", "whole")
"""Regions whose phrase is a name: of the thing in the box, or of the whole photo."""

SAME = 0.99
"""Regions whose z are as close as this are one region of one photo."""

Words = Mapping[str, Floats]
"""Word -> codes (E, D) of its examples."""


class _Trial(NamedTuple):
    known: TaughtWords
    shown: Floats
    """(E, k) z of the examples that were held back, of all words."""
    words: NDArray[np.intp]
    """(E,) the number of the word that each shows."""

    def fits(self, z: Floats) -> Floats:
        """(B, W) s of z (B, k)."""
        fits: Floats = self.known.space.place(z) @ self.known.middles.T
        return fits


def enough(words: Words) -> dict[str, Floats]:
    """The words with enough examples, in alphabetical order."""
    chosen = {word: words[word] for word in sorted(words) if len(words[word]) >= MIN_EXAMPLES}
    if len(chosen) < 2:
        raise DataError(
            f"{len(chosen)} words with {MIN_EXAMPLES} examples or more; it needs two or more"
        )
    return chosen


def halves(words: Words) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """One half of the words chooses the settings, the other half is reported."""
    names = sorted(words)
    first = {name: words[name] for name in names[::2]}
    return first, {name: words[name] for name in names[1::2]}


def without_examples(space: Space, words: Words) -> Space:
    """The space without the background's regions that are examples of the words: its photos may be
    among theirs."""
    is_example = np.zeros(len(space.places), dtype=bool)
    for codes in words.values():
        is_example |= (space.places @ space.place(codes).T).max(axis=1) > SAME
    return replace(space, places=space.places[~is_example])


def measure(words: Words, everyday: Floats, space: Space, weights: Weights) -> dict[str, Any]:
    """The shares of held-back examples that are right among all words, and that are right and said;
    and of `everyday` regions (M, D) that are called by one of `TAUGHT` words. In percent."""
    z = {word: space.place(codes) for word, codes in words.items()}
    others = space.place(everyday)
    report = {}
    for count in COUNTS:
        figures = [_measure_once(z, others, space, weights, count, seed) for seed in range(REPEATS)]
        report[str(count)] = {
            name: round(float(np.mean([shares[name] for shares in figures])), 2)
            for name in figures[0]
        }
    return {
        "words": len(words),
        "examples": sum(map(len, words.values())),
        "everyday_regions": len(everyday),
        "background_regions": len(space.places),
        "words_for_false": min(TAUGHT, len(words)),
        "weights": list(weights),
        "by_examples": report,
    }


def _measure_once(
    z: Words, others: Floats, space: Space, weights: Weights, count: int, seed: int
) -> dict[str, float]:
    trial = _teach(z, space, weights, count, seed)
    likely = trial.known.probabilities(trial.shown)
    best = likely.argmax(axis=1)
    is_right = best == trial.words
    is_said = likely.max(axis=1) >= SURE
    alone = _teach(_for_false(z, seed), space, weights, count, seed).known
    said_of_others = alone.probabilities(others).max(axis=1) >= SURE
    shares = {
        "right": is_right,
        "right_and_said": is_right & is_said,
        "another_said": ~is_right & is_said,
        "false": said_of_others,
    }
    return {name: 100 * float(share.mean()) for name, share in shares.items()}


def _for_false(z: Words, seed: int) -> dict[str, Floats]:
    """The words that are looked for in everyday photos, taught without the others."""
    names = list(z)
    chosen = np.random.default_rng(seed).permutation(len(names))[:TAUGHT]
    return {names[row]: z[names[row]] for row in chosen.tolist()}


def _teach(z: Words, space: Space, weights: Weights, count: int, seed: int) -> _Trial:
    """Teaches every word with `count` of its examples. What is known reads z in place of codes."""
    random = np.random.default_rng([seed, count])
    taught = list[TaughtWord]()
    held_back = list[Floats]()
    numbers = list[int]()
    for number, (word, places) in enumerate(z.items()):
        order = random.permutation(len(places))
        taught.append(TaughtWord(word, places[order[:count]], places[:0]))
        held_back.append(places[order[count:]])
        numbers += [number] * (len(places) - count)
    axes = space.places.shape[1]
    of_z = Space(np.zeros(axes, np.float32), np.eye(axes, dtype=np.float32), space.places)
    known = TaughtWords.compare(taught, of_z, weights).sharpened()
    return _Trial(known, np.concatenate(held_back), np.array(numbers, dtype=np.intp))


def fit(words: Words, everyday: Floats, space: Space) -> Weights:
    """The numbers of `Weights`. The weight of s is that of a logistic regression on held-back
    examples and everyday regions (M, D). The weight of u is the one with which most held-back
    examples are right, as a search needs, and right and said, as captions need. Bias and weight of
    ln n are set so that, with any number of examples, `FALSE_SHARE` of the everyday regions are
    called by a taught word."""
    z = {word: space.place(codes) for word, codes in words.items()}
    others = space.place(everyday)
    slope = _slope(z, others, space)
    tried = []
    for share in USUAL_SHARES:
        weights = _with_bias(z, others, space, Weights(slope, share * slope, 0.0, 0.0))
        figures = [_measure_once(z, others, space, weights, count, 0) for count in COUNTS]
        shares = [(one["right"] + one["right_and_said"]) / 2 for one in figures]
        tried.append((float(np.mean(shares)), weights))
    best = max(tried, key=lambda one: one[0])[1]
    return Weights(*(round(number, 3) for number in best))


def _slope(z: Words, others: Floats, space: Space) -> float:
    """How quickly a word becomes likelier with s."""
    slopes = []
    for count in COUNTS:
        trial = _teach(z, space, Weights(1.0, 0.0, 0.0, 0.0), count, count)
        own = trial.fits(trial.shown)[np.arange(len(trial.words)), trial.words]
        nearest = trial.fits(others).max(axis=1)
        fits = np.concatenate([own, nearest]).astype(np.float64)
        shows = np.arange(len(fits)) < len(own)
        columns = np.stack([fits, np.ones_like(fits)])
        slopes.append(logistic_regression(columns, smoothed(shows))[0])
    slope = float(np.mean(slopes))
    if slope <= 0:
        raise DataError(
            "the words cannot be told from everyday regions",
            hint="other words, or a model with better region codes",
        )
    return slope


def _with_bias(z: Words, others: Floats, space: Space, weights: Weights) -> Weights:
    """The weights with the bias, and the weight of ln n, with which `FALSE_SHARE` of other regions
    are called by one of `TAUGHT` words."""
    biases = []
    for count in COUNTS:
        lines = []
        for seed in range(REPEATS):
            trial = _teach(_for_false(z, seed), space, weights, count, seed)
            logits = weights.fit * trial.fits(others) + trial.known.offsets
            lines.append(-np.quantile(logits.max(axis=1), 1 - FALSE_SHARE))
        biases.append(np.mean(lines))
    examples, bias = np.polyfit(np.log(COUNTS), biases, 1)
    return weights._replace(examples=float(examples), bias=float(bias))


def choose_words(
    records: Iterable[Record], count: int, seed: int, known: Container[str]
) -> frozenset[str]:
    """`count` names at random, of those that enough photos have and that the model cannot know:
    they have a word that is not among its `known` ones."""
    photos = Counter(chain.from_iterable(_named(record) for record in records))
    names = sorted(
        name
        for name, number in photos.items()
        if number >= MIN_EXAMPLES and any(word not in known for word in _words_of(name))
    )
    chosen = np.random.default_rng(seed).permutation(len(names))[:count]
    return frozenset(names[row] for row in chosen.tolist())


def _words_of(name: str) -> list[str]:
    return name.replace("-", " ").split()


def photos_of(records: Iterable[Record], words: Container[str], seed: int) -> list[int]:
    """The numbers of at most `MAX_PHOTOS` photos of each word, at random."""
    named = [[name for name in _named(record) if name in words] for record in records]
    counts = Counter[str]()
    chosen = []
    for number in np.random.default_rng(seed).permutation(len(named)).tolist():
        if any(counts[name] < MAX_PHOTOS for name in named[number]):
            counts.update(named[number])
            chosen.append(number)
    return sorted(chosen)


def _named(record: Record) -> dict[str, BoxXYXY]:
    """The names in a photo, each with its first box."""
    named: dict[str, BoxXYXY] = {}
    for region in record.regions:
        if region.type in NAMED_TYPES and region.phrase:
            named.setdefault(region.phrase.lower(), region.xyxy)
    return named


def examples_of(
    dataset_model: DatasetModel, records: Iterable[Record], words: Container[str]
) -> dict[str, Floats]:
    """Words with the codes (E, D) of their examples in photos, at most `MAX_PHOTOS` of each."""
    examples = defaultdict[str, list[Floats]](list)
    for record in records:
        named = {name: box for name, box in _named(record).items() if name in words}
        codes = dataset_model.codes_at(record, np.array(list(named.values())))
        for name, code in zip(named, codes, strict=True):
            if len(examples[name]) < MAX_PHOTOS:
                examples[name].append(code)
    return enough({name: np.stack(codes) for name, codes in examples.items()})


def codes_of_regions(dataset_model: DatasetModel, record: Record) -> Floats:
    """The codes (R, D) of the regions that `caption` gives."""
    look = dataset_model.look(record)
    runtime = dataset_model.model.runtime
    return with_codes(runtime, look, caption(runtime, look)).codes
