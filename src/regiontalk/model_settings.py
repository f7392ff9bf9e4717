"""Inference settings of a model and its heads, stored in `model.json`. `regiontalk fit` fits most of them."""

from __future__ import annotations

from dataclasses import dataclass

from regiontalk.calibration import UNCHANGED, Calibration
from regiontalk.confidence import Confidence
from regiontalk.errors import UsageError, check_range
from regiontalk.ranking import Ranking

SCORES = ("final", "product", "proposal")
WIDEST_BEAM = 100
MOST_WORDS = 1_000  # of a caption or sentence


@dataclass(frozen=True)
class FindConfig:
    """How likely a region shows a phrase (see `finder`). `regiontalk fit` fits it. Without a fit, the order of regions
    is good, but scores are not probabilities."""

    fit: float = 0.0
    """Of how well the phrase's words fit the region …"""
    likelihood: float = 3.0
    """… of the phrase's log-probability per word …"""
    place: float = 1.5
    """… and of the log of the region's score: their sum chooses the region."""
    photo: float = 0.0
    """Of how well the phrase's words fit the photo …"""
    choice: float = 0.1
    """… and of the chosen region's sum …"""
    bias: float = 0.0
    """… these make the probability that the chosen region shows the phrase."""
    likely: float = 0.0
    """Below this probability a phrase is reported as absent."""

    def __post_init__(self) -> None:
        check_range(0, fit=self.fit, likelihood=self.likelihood, place=self.place, photo=self.photo, choice=self.choice)
        check_range(0, 1, likely=self.likely)


@dataclass(frozen=True)
class PredictionConfig:
    """How regions are chosen at inference; `regiontalk fit` fits it on dev photos. The defaults are the paper's and
    the release's."""

    proposals: int = 300
    """The number of proposals that are kept after the first NMS and recognised."""
    candidates: int = 6000
    """The number of best proposals that go into the first NMS."""
    proposal_nms: float = 0.7
    """IoU above which the first NMS drops the worse proposal."""
    final_nms: float = 0.3
    """The same for the second NMS, over recognised regions."""
    longest: int = 15
    """Maximum number of words in a caption."""
    score: str = "final"
    """`final`: the recognition network's score. `product`: that times the proposal's. `proposal`: only the proposal's,
    for a network without a recognition score."""
    caption_weight: float = 0.0
    """The score of a region that survives NMS is multiplied by exp(this · mean log-probability of its caption's
    words). With a ranking, it is used for given boxes only."""
    calibration: Calibration = UNCHANGED
    """a, b and c that turn the score into a probability (see `calibration`)."""
    ranking: Ranking | None = None
    """Scores the regions that survive NMS, instead of `score` and `caption_weight`. Given boxes are scored without
    it."""
    confidence: Confidence | None = None
    """How likely captions are right (see `confidence`)."""
    find: FindConfig | None = None
    """How likely regions show a given phrase."""
    find_indexed: FindConfig | None = None
    """The same for the regions of an index, by alignment only."""

    def __post_init__(self) -> None:
        check_range(1, 10_000, proposals=self.proposals)
        check_range(1, 1_000_000, candidates=self.candidates)
        check_range(1, MOST_WORDS, longest=self.longest)
        check_range(0, 1, proposal_nms=self.proposal_nms, final_nms=self.final_nms)
        check_range(0, caption_weight=self.caption_weight)
        if self.score not in SCORES:
            raise UsageError(f"score is {self.score!r}; it must be {' or '.join(SCORES)}")
        if min(self.calibration[:2]) < 0:
            raise UsageError(f"calibration is {list(self.calibration)}: a and b must not be negative")


@dataclass(frozen=True)
class SentencePredictionConfig:
    """Settings of the head `sentence`, chosen on dev photos."""

    longest: int = 20
    """Maximum number of words in a sentence."""
    beam: int = 7
    """Beam width."""
    length_penalty: float = 1.0
    """α of `decoding.Rules`: larger values give longer sentences."""
    alignment_weight: float = 0.0
    """Not 0: the sentences of the beam search are reranked by their score plus this times how well they fit the photo
    by the head `words`."""

    def __post_init__(self) -> None:
        check_range(1, MOST_WORDS, longest=self.longest)
        check_range(1, WIDEST_BEAM, beam=self.beam)
        check_range(0, length_penalty=self.length_penalty, alignment_weight=self.alignment_weight)


@dataclass(frozen=True)
class SearchConfig:
    """How likely a photo shows a phrase: σ(fit · f + captions · c + likelihood · l + bias). f: how well the phrase's
    words fit the photo's regions on average; c: the share of its words in the photo's captions; l: the log-likelihood
    ratio of the head `sentence`, the photo against an empty one. None of them depends on the other photos, so scores
    are comparable. `regiontalk fit` fits it. Without a fit, the order of photos is right, but scores are not
    probabilities."""

    fit: float = 1.0
    captions: float = 0.0
    likelihood: float = 0.0
    bias: float = 0.0
    likely: float = 0.0
    """Photos that are less likely are not shown by default."""

    def __post_init__(self) -> None:
        check_range(0, fit=self.fit, captions=self.captions, likelihood=self.likelihood)
        check_range(0, 1, likely=self.likely)


@dataclass(frozen=True)
class AlignmentPredictionConfig:
    """Settings of the head `words`."""

    beta: float
    """Eq. 12's β."""
    longest: int
    """Number of words that its graph reads at a time."""
    score: str
    """How words and regions are compared: `product` or `cosine`."""
    search: SearchConfig | None = None
    place_weight: float = 0.0
    """Not 0: a word belongs to the region with the largest sum of its fit and this times the log of the region's score.
    If region codes also contain their surroundings, fits alone often choose a part or a neighbour."""
    likelihood_weight: float = 0.0
    """Not 0: `align` adds this times log [score · p(word)], with p(word) of the language model for the region."""
    phrase_beta: float = 0.0
    """With likelihoods, β between words of a phrase; between phrases it is 0. A phrase starts at its function words."""

    def __post_init__(self) -> None:
        check_range(0, beta=self.beta, phrase_beta=self.phrase_beta)
        check_range(0, place_weight=self.place_weight, likelihood_weight=self.likelihood_weight)
        check_range(2, MOST_WORDS, longest=self.longest)


SETTINGS = {"words": AlignmentPredictionConfig, "sentence": SentencePredictionConfig}
"""Of each head."""
