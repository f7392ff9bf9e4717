"""Which regions of a photo show what a phrase says: alignment, likelihood and names together
(open-world object detection, DenseCap section 4.2).

    choice(r) = fit · f(r) + likelihood · l(r) + place · log s(r) + name · log n(r) + log q(r)
    p(best)   = q(best) · σ(photo · F + choice · choice(best) + photo_name · N + name_bias + bias)
    p(r)      = p(best) · exp(choice(r) − choice(best))
    q(r)      = (n(r) + ε) / (n(r) + o(r) + ε)

f(r): how well the phrase's words fit the region, on average; l(r): the phrase's log-probability per
word; s(r): the region's score; n(r): the probability that the region shows the thing that the
phrase is about, by what it is called; F: the words' fits with their best regions, on average; N:
the log-odds of the highest n(r). If there is no name for the thing, the terms of names are left
out. For a phrase about an animal, o(r) is the probability that the region shows another one, and
q(r) the share that is left for this one; else q is 1. The weights are those of `FindConfig`. The
first line is good at choosing the region. F and N are the better measures of whether the photo
shows the phrase at all.

Shapes: P phrases, R regions with the whole photo first, h the size of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference import likelihood
from regiontalk.inference.alignment import place_prior
from regiontalk.inference.calibration import Scores, sigmoid
from regiontalk.inference.captions import choose_captions, to_regions, with_captions
from regiontalk.inference.known_names import others_by_names, shown_by_names
from regiontalk.inference.naming import name_probabilities
from regiontalk.inference.phrases import Phrase
from regiontalk.inference.rank import MIN_REPEAT_IOU
from regiontalk.inference.regions import RegionTable, Rows
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import FindConfig
from regiontalk.results import Region

MAX_REGIONS = 100  # of a photo, the best ones; DenseCap 4.2
MIN_NAME_PROB = 0.002  # of a name: beyond it, differences say little
DOUBT = 0.2
"""ε, how little the names of animals are trusted. Of .02, .05, .1 and .2 it was the best for ten
animals in 205 dev photos of COCO, by Matthews' correlation of "is it here" with the truth."""


class PhraseEvidence(NamedTuple):
    """The terms of a phrase's score for each region."""

    photo_fit: float
    """F, how well the words fit the photo."""
    fits: Scores
    """(R,) f, how well the words fit each region."""
    likelihoods: Scores
    """(R,) l, the log-probability of the phrase per word."""
    places: Scores
    """(R,) log s, the logarithm of the region's score."""
    shown: Scores | None = None
    """(R,) n, the probability that each region shows what the phrase is about, by what it is
    called; None if there is no name for that."""
    others: Scores | None = None
    """(R,) o, the probability that each region shows another animal; None for a phrase about
    something else."""

    def shares(self) -> Scores:
        """(R,) q, what other animals leave."""
        if self.shown is None or self.others is None:
            return np.ones_like(self.fits)
        shares: Scores = (self.shown + DOUBT) / (self.shown + self.others + DOUBT)
        return shares

    def name_logprobs(self) -> Scores:
        """(R,) log n; 0 without a name."""
        if self.shown is None:
            return np.zeros_like(self.fits)
        logprobs: Scores = np.log(_within(self.shown))
        return logprobs

    def name_logit(self) -> float:
        """N, the log-odds of the highest n; 0 without a name."""
        if self.shown is None:
            return 0.0
        highest = _within(self.shown).max()
        return float(np.log(highest / (1 - highest)))

    def choices(self, config: FindConfig) -> Scores:
        """(R,) choice(r), by which the best region is chosen."""
        return (
            config.fit * self.fits
            + config.likelihood * self.likelihoods
            + config.place * self.places
            + config.name * self.name_logprobs()
            + np.log(self.shares())
        )

    def probabilities(self, config: FindConfig) -> Scores:
        """(R,) the probability that each region shows the phrase."""
        choices = self.choices(config)
        best = choices.max()
        logit = config.photo * self.photo_fit + config.choice * best + config.bias
        if self.shown is not None:
            logit += config.photo_name * self.name_logit() + config.name_bias
        best_probability = self.shares()[choices.argmax()] * sigmoid(np.array([logit]))
        probabilities: Scores = best_probability * np.exp(choices - best)
        return probabilities


def _within(probabilities: Scores) -> Scores:
    return np.clip(probabilities, MIN_NAME_PROB, 1 - MIN_NAME_PROB)


class Match(NamedTuple):
    """The regions that show a phrase, best first, and the probability of the best region, whether
    it is among them or not."""

    regions: list[Region]
    closest: float


def find(
    runtime: Runtime,
    phrases: Sequence[Phrase],
    regions: RegionTable,
    config: FindConfig,
    threshold: float,
    top: int | None,
) -> list[Match]:
    """The captioned regions that show each phrase with a probability of at least `threshold`; none
    for a phrase that says nothing."""
    readable = [phrase for phrase in phrases if phrase.read.says_something]
    gathered = iter(gather(runtime, readable, regions))
    matches = []
    for phrase in phrases:
        if not phrase.read.says_something:
            matches.append(Match([], 0.0))
            continue
        evidence = next(gathered)
        probabilities = evidence.probabilities(config)
        matches.append(match(runtime, regions, probabilities, threshold, top))
    return matches


def match(
    runtime: Runtime,
    regions: RegionTable,
    probabilities: Scores,
    threshold: float,
    top: int | None,
) -> Match:
    """The captioned regions with a probability of at least `threshold`."""
    rows = choose(probabilities, regions.boxes_xyxy, threshold, top)
    chosen = replace(regions.take(rows), scores=probabilities[rows])
    chosen = choose_captions(runtime, with_captions(runtime, chosen))
    return Match(to_regions(chosen, runtime.words), float(probabilities.max()))


def choose(
    probabilities: Scores, boxes_xyxy: NDArray[np.floating], threshold: float, top: int | None
) -> Rows:
    """The regions that show a phrase with a probability of at least `threshold`, best first. Of
    several in about the same place only the best; none with an empty box."""
    rows = np.flatnonzero((probabilities >= threshold) & (geometry.area(boxes_xyxy) > 0))
    if not len(rows):
        return rows
    return rows[geometry.nms(boxes_xyxy[rows], probabilities[rows], MIN_REPEAT_IOU)][:top]


def gather(
    runtime: Runtime, phrases: Sequence[Phrase], regions: RegionTable, by_likelihood: bool = True
) -> list[PhraseEvidence]:
    """The evidence for each phrase. Without `by_likelihood`, likelihoods are 0, that is, equal for
    all regions. Names need regions with codes."""
    likelihoods = np.zeros((len(phrases), len(regions)))
    if by_likelihood:
        tokens = [phrase.tokens for phrase in phrases]
        logprobs = likelihood.log_probabilities(runtime, regions.state, tokens)
        likelihoods = likelihood.per_word(logprobs, tokens)
    places = place_prior(regions.scores, 1.0)
    gathered = [
        PhraseEvidence(*fits(phrase, regions), phrase_likelihoods, places)
        for phrase, phrase_likelihoods in zip(phrases, likelihoods, strict=True)
    ]
    if runtime.names is None or not len(regions.codes):
        return gathered
    table = runtime.names
    names = name_probabilities(regions.codes, table)
    return [
        evidence._replace(
            shown=shown_by_names(phrase, names, table),
            others=others_by_names(phrase, names, table),
        )
        for phrase, evidence in zip(phrases, gathered, strict=True)
    ]


def fits(phrase: Phrase, regions: RegionTable) -> tuple[float, Scores]:
    """How well the words fit the photo, and each region (R,); 0 where no word is known."""
    if regions.vectors is None or not len(phrase.vectors):
        return 0.0, np.zeros(len(regions))
    products = (regions.vectors @ phrase.vectors.T).astype(np.float64)  # (R, W)
    return float(products.max(axis=0).mean()), products.mean(axis=1)
