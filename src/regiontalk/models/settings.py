"""Inference settings of a model and its heads, stored in `model.json`. `regiontalk fit` fits most
of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import UsageError, check_range

Floats = NDArray[np.float64]

SCORES = ("final", "product", "proposal")
WIDEST_BEAM = 100
MOST_WORDS = 1_000  # of a caption or sentence

Calibration = tuple[float, float, float]
"""a, b and c of `inference.calibration`."""
UNCHANGED: Calibration = (1.0, 1.0, 0.0)

RANKING_FEATURES = (
    "final_logit",  # the recognition network's
    "mean_logprob",  # of the caption's words
    "words",  # in the caption
    "left",  # this and the next four as shares of the photo
    "top",
    "right",
    "bottom",
    "area",
    "votes",  # logarithm of how many refined proposals agree with it
    "inside_better",  # the largest share of it that lies in one better region
    "around_better",  # the largest share of one better region that lies in it
    "said_before",  # the larger of the two shares, among better regions with the same words
)


@dataclass(frozen=True)
class Ranking:
    """The net's weights, with the features' means and standard deviations already in them."""

    features: tuple[str, ...]
    """`RANKING_FEATURES` of the program that fitted it; the weights are valid for these only."""
    weights: tuple[tuple[float, ...], ...]
    """W (H, F)"""
    biases: tuple[float, ...]
    """b (H,)"""
    outputs: tuple[float, ...]
    """v (H,)"""
    output_bias: float
    """c"""

    def __post_init__(self) -> None:
        if self.features != RANKING_FEATURES:
            raise UsageError(
                "made for other features than this program's", hint="regiontalk fit fits a new one"
            )
        hidden = len(self.biases)
        width = len(RANKING_FEATURES)
        whole = all(isinstance(row, tuple) and len(row) == width for row in self.weights)
        if not whole or not hidden or {len(self.weights), len(self.outputs)} != {hidden}:
            raise UsageError(
                f"weights, biases and outputs are not of shapes (H, {width}), (H) and (H)"
            )
        numbers = [*self.biases, *self.outputs, self.output_bias, *itertools.chain(*self.weights)]
        if not all(type(number) is float and math.isfinite(number) for number in numbers):
            raise UsageError("a weight is not a finite number")


MIN_LONGER_PROB = 0.55  # `Confidence.longer` where nothing was fitted

CONFIDENCE_FEATURES = (
    "mean_logprob",  # of the words and END
    "least_logprob",  # of the least likely of them
    "least_probability",  # the same, not as a logarithm
    "first_logprob",
    "last_logprob",  # END's where it was reached
    "words",
    "agrees",  # 1 if it has the head word of the caption that the model chose, else 0
    "logit",  # the recognition network's
    "score",  # the same, as a probability
    "own_least_probability",  # of the caption that the model chose
    "own_least_squared",  # its square: the step from likely to certain counts most
    "area",  # of the region, as a share of the photo
    "enlarged",  # how much a small photo was enlarged for the network (`inference.regions.Frame`)
)


@dataclass(frozen=True)
class Confidence:
    """The fitted numbers, with the features' means and standard deviations already in them."""

    features: tuple[str, ...]
    """The names among `CONFIDENCE_FEATURES` that it was fitted to."""
    weights: tuple[float, ...]
    """w (F,)"""
    bias: float
    """b"""
    likely: float
    """Captions with a lower confidence are not shown by default."""
    longer: float = MIN_LONGER_PROB
    """A caption longer than the model's own is used only if the geometric mean of its words'
    probabilities is at least this. The added words of less likely ones are often wrong."""

    def __post_init__(self) -> None:
        if not set(self.features) <= set(CONFIDENCE_FEATURES):
            raise UsageError(
                "made for other features than this program's", hint="regiontalk fit fits a new one"
            )
        if len(self.weights) != len(self.features):
            raise UsageError(f"{len(self.weights)} weights for {len(self.features)} features")
        if not all(
            type(number) is float and math.isfinite(number) for number in (*self.weights, self.bias)
        ):
            raise UsageError("a weight is not a finite number")
        check_range(0, 1, likely=self.likely, longer=self.longer)


AGREEMENT_FEATURES = (
    "caption_logit",  # of the caption's confidence
    "name_logit",  # of the name's probability
    "noun_logit",  # of the probability of all names that mean what the caption does; 0 if unknown
    "noun_known",  # 1 if there are such names, else 0
    "agrees",  # 1 if the name is one of them, else 0
)


@dataclass(frozen=True)
class Agreement:
    """The fitted numbers of `inference.agreement`."""

    caption: tuple[float, ...]
    """w (F,)"""
    caption_bias: float
    name: tuple[float, ...]
    """v (F,)"""
    name_bias: float
    likely: float
    """Captions and names with a lower confidence are not shown by default; it replaces that of
    `Confidence`."""

    def __post_init__(self) -> None:
        widths = {len(self.caption), len(self.name)}
        if widths != {len(AGREEMENT_FEATURES)}:
            raise UsageError(
                "made for other features than this program's", hint="regiontalk fit fits a new one"
            )
        numbers = (*self.caption, self.caption_bias, *self.name, self.name_bias)
        if not all(type(number) is float and math.isfinite(number) for number in numbers):
            raise UsageError("a weight is not a finite number")
        check_range(0, 1, likely=self.likely)


@dataclass(frozen=True)
class FindConfig:
    """How likely a region shows a phrase (see `inference.find`). `regiontalk fit` fits it. Without
    a fit, the order of regions is good, but scores are not probabilities."""

    fit: float = 0.0
    """Weight of how well the phrase's words fit the region, in the sum that chooses the region."""
    likelihood: float = 3.0
    """Weight of the phrase's log-probability per word in this sum."""
    place: float = 1.5
    """Weight of the log of the region's score in this sum."""
    photo: float = 0.0
    """Weight of how well the phrase's words fit the photo, in the log-odds that the chosen region
    shows the phrase."""
    choice: float = 0.1
    """Weight of the chosen region's sum in these log-odds."""
    bias: float = 0.0
    """What is added to these log-odds."""
    likely: float = 0.0
    """Below this probability a phrase is reported as absent."""
    name: float = 0.0
    """If there is a name for what the phrase is about: of the log-probability that the region shows
    it, in the sum that chooses the region …"""
    photo_name: float = 0.0
    """… of the log-odds of the region that shows it most likely, in the probability …"""
    name_bias: float = 0.0
    """… and what is added to these."""

    def __post_init__(self) -> None:
        check_range(
            0,
            fit=self.fit,
            likelihood=self.likelihood,
            place=self.place,
            photo=self.photo,
            choice=self.choice,
            name=self.name,
            photo_name=self.photo_name,
        )
        check_range(0, 1, likely=self.likely)


@dataclass(frozen=True)
class PredictionConfig:
    """How regions are chosen at inference; `regiontalk fit` fits it on dev photos. The defaults are
    the paper's and the release's."""

    proposals: int = 300
    """The number of proposals that are kept after the first NMS and recognised."""
    candidates: int = 6000
    """The number of best proposals that go into the first NMS."""
    proposal_nms: float = 0.7
    """IoU above which the first NMS drops the worse proposal."""
    final_nms: float = 0.3
    """IoU above which the second NMS drops the worse of two recognised regions."""
    longest: int = 15
    """Maximum number of words in a caption."""
    score: str = "final"
    """`final`: the recognition network's score. `product`: that times the proposal's. `proposal`:
    only the proposal's, for a network without a recognition score."""
    caption_weight: float = 0.0
    """The score of a region that survives NMS is multiplied by exp(this · mean log-probability of
    its caption's words). With a ranking, it is used for given boxes only."""
    calibration: Calibration = UNCHANGED
    """a, b and c that turn the score into a probability (see `inference.calibration`)."""
    ranking: Ranking | None = None
    """Scores the regions that survive NMS, instead of `score` and `caption_weight`. Given boxes are
    scored without it."""
    confidence: Confidence | None = None
    """How likely captions are right (see `inference.confidence`)."""
    agreement: Agreement | None = None
    """How likely captions and names are right, given each other (see `inference.agreement`)."""
    find: FindConfig | None = None
    """How likely regions show a given phrase."""
    find_indexed: FindConfig | None = None
    """How likely regions of an index show a given phrase, by alignment only."""

    def __post_init__(self) -> None:
        check_range(1, 10_000, proposals=self.proposals)
        check_range(1, 1_000_000, candidates=self.candidates)
        check_range(1, MOST_WORDS, longest=self.longest)
        check_range(0, 1, proposal_nms=self.proposal_nms, final_nms=self.final_nms)
        check_range(0, caption_weight=self.caption_weight)
        if self.score not in SCORES:
            raise UsageError(f"score is {self.score!r}; it must be {' or '.join(SCORES)}")
        if min(self.calibration[:2]) < 0:
            raise UsageError(
                f"calibration is {list(self.calibration)}: a and b must not be negative"
            )

    @property
    def likely(self) -> float:
        """The confidence from which captions are shown by default."""
        fitted = self.agreement or self.confidence
        return 0.0 if fitted is None else fitted.likely


@dataclass(frozen=True)
class SentencePredictionConfig:
    """Settings of the head `sentence`, chosen on dev photos."""

    longest: int = 20
    """Maximum number of words in a sentence."""
    beam: int = 7
    """Beam width."""
    length_penalty: float = 1.0
    """α of `inference.decoding.Rules`: larger values give longer sentences."""
    alignment_weight: float = 0.0
    """Not 0: the sentences of the beam search are reranked by their score plus this times how well
    they fit the photo by the alignment head."""

    def __post_init__(self) -> None:
        check_range(1, MOST_WORDS, longest=self.longest)
        check_range(1, WIDEST_BEAM, beam=self.beam)
        check_range(0, length_penalty=self.length_penalty, alignment_weight=self.alignment_weight)


@dataclass(frozen=True)
class SearchWeights:
    """The weights of `SearchConfig` for a query of one word."""

    fit: float
    captions: float
    likelihood: float
    bias: float

    def __post_init__(self) -> None:
        check_range(0, fit=self.fit, captions=self.captions, likelihood=self.likelihood)


MAX_RARITY = math.log(400)


@dataclass(frozen=True)
class SearchConfig:
    """How likely a photo shows a phrase: σ(fit · f + captions · c + likelihood · l − rarity · r +
    bias). f: how well the phrase's words fit the photo's regions on average; c: the highest
    confidence of a caption that has a word, on average; l: the log-likelihood ratio of the head
    `sentence`, the photo against an empty one; r: how rare the words are, at most `MAX_RARITY`. The
    weights are those of long phrases. For a phrase of n content words they are w + (w₁ − w) / n.

    None of the terms depends on the other photos, so scores are comparable. `regiontalk fit` fits
    it. Without a fit, the order of photos is right, but scores are not probabilities."""

    fit: float = 1.0
    captions: float = 0.0
    likelihood: float = 0.0
    bias: float = 0.0
    likely: float = 0.0
    """Photos that are less likely come below the line."""
    rarity: float = 0.0
    one_word: SearchWeights | None = None
    """w₁; None: the same weights for phrases of any length."""

    def __post_init__(self) -> None:
        check_range(0, fit=self.fit, captions=self.captions, likelihood=self.likelihood)
        check_range(0, 1, likely=self.likely)

    def logits(
        self, fits: Floats, captions: Floats, likelihoods: Floats, words: int, rarity: float
    ) -> Floats:
        """The terms of photos (P,) for a phrase of so many content words and of this rarity."""
        own = self.one_word or SearchWeights(self.fit, self.captions, self.likelihood, self.bias)
        share = 1 / words

        def weight(many: float, one: float) -> float:
            return many + (one - many) * share

        return (
            weight(self.fit, own.fit) * fits
            + weight(self.captions, own.captions) * captions
            + weight(self.likelihood, own.likelihood) * likelihoods
            + weight(self.bias, own.bias)
            - self.rarity * min(rarity, MAX_RARITY)
        )


@dataclass(frozen=True)
class AlignmentPredictionConfig:
    """Settings of the head `words`."""

    beta: float
    """Eq. 12's β."""
    longest: int
    """Number of words that its graph reads at a time."""
    score: str
    """How a photo and a sentence are compared: `sum` (eq. 8), `cosine` or `fragments` (eq. 7)."""
    search: SearchConfig | None = None
    place_weight: float = 0.0
    """Not 0: a word belongs to the region with the largest sum of its fit and this times the log of
    the region's score. If region codes also contain their surroundings, fits alone often choose a
    part or a neighbour."""
    likelihood_weight: float = 0.0
    """Not 0: `align` adds this times log [score · p(word)], with p(word) of the language model for
    the region."""
    phrase_beta: float = 0.0
    """With likelihoods, β between words of a phrase; between phrases it is 0. A phrase starts at
    its function words."""

    def __post_init__(self) -> None:
        check_range(0, beta=self.beta, phrase_beta=self.phrase_beta)
        check_range(0, place_weight=self.place_weight, likelihood_weight=self.likelihood_weight)
        check_range(2, MOST_WORDS, longest=self.longest)


HeadSettings = AlignmentPredictionConfig | SentencePredictionConfig
