"""How a model and its heads are used: what `model.json` says beside what they are. `regiontalk fit` fits most of it."""

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
    """How likely a region shows a phrase (see `finder`). `regiontalk fit` fits it. Without a fit, regions come in a
    good order and scores mean little."""

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
    """Below this probability a phrase is not there."""

    def __post_init__(self) -> None:
        check_range(0, fit=self.fit, likelihood=self.likelihood, place=self.place, photo=self.photo, choice=self.choice)
        check_range(0, 1, likely=self.likely)


@dataclass(frozen=True)
class PredictionConfig:
    """How regions are chosen at inference; `regiontalk fit` fits it on dev photos. The defaults are the paper's and
    the release's."""

    proposals: int = 300
    """So many proposals survive the first NMS and are recognised."""
    candidates: int = 6000
    """So many of the best proposals go into the first NMS."""
    proposal_nms: float = 0.7
    """IoU above which the first NMS drops the worse proposal."""
    final_nms: float = 0.3
    """The same of the second NMS, over recognised regions."""
    longest: int = 15
    """Words in a caption, at most."""
    score: str = "final"
    """`final`: the recognition network's score. `product`: times the proposal's. `proposal`: the proposal's alone, of a
    network that has learned no score."""
    caption_weight: float = 0.0
    """The score of a region that survives NMS is multiplied with exp(this · mean log-probability of its caption's
    words). Where there is a ranking, it matters for given boxes alone."""
    calibration: Calibration = UNCHANGED
    """a, b and c that turn the score into a probability (see `calibration`)."""
    ranking: Ranking | None = None
    """What scores the regions that survive NMS, in place of `score` and `caption_weight`. Given boxes are scored
    without it."""
    confidence: Confidence | None = None
    """How likely captions are right (see `confidence`)."""
    find: FindConfig | None = None
    """How likely regions show a given phrase."""
    find_indexed: FindConfig | None = None
    """The same for the regions that an index keeps, by alignment alone."""

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
    """How the head `sentence` is used; to be chosen on dev photos."""

    longest: int = 20
    """Words in a sentence, at most."""
    beam: int = 7
    """Sentences searched at a time."""
    length_penalty: float = 1.0
    """α of `decoding.Rules`: more of it gives longer sentences."""
    alignment_weight: float = 0.0
    """Not 0: of the sentences that the search finds, the one is said whose score and this times how well the head
    `words` finds it in the photo are the most together."""

    def __post_init__(self) -> None:
        check_range(1, MOST_WORDS, longest=self.longest)
        check_range(1, WIDEST_BEAM, beam=self.beam)
        check_range(0, length_penalty=self.length_penalty, alignment_weight=self.alignment_weight)


@dataclass(frozen=True)
class SearchConfig:
    """How likely a photo shows a phrase: σ(fit · f + captions · c + likelihood · l + bias). f: how well the phrase's
    words fit the photo's regions on average; c: the share of its words in the photo's captions; l: how much likelier
    the head `sentence` finds it than for a photo that shows nothing. None of them depends on what other photos there
    are, so that scores compare. `regiontalk fit` fits it. Without a fit, photos come in the right order and scores mean
    nothing."""

    fit: float = 1.0
    captions: float = 0.0
    likelihood: float = 0.0
    bias: float = 0.0
    likely: float = 0.0
    """Photos that are less likely are not shown unless they are asked for."""

    def __post_init__(self) -> None:
        check_range(0, fit=self.fit, captions=self.captions, likelihood=self.likelihood)
        check_range(0, 1, likely=self.likely)


@dataclass(frozen=True)
class AlignmentPredictionConfig:
    """How the head `words` is used."""

    beta: float
    """Eq. 12's β."""
    longest: int
    """Words that its graph reads together."""
    score: str
    """How words and regions are compared: `product` or `cosine`."""
    search: SearchConfig | None = None
    place_weight: float = 0.0
    """Not 0: a word belongs to the region where its fit and this times the log of the region's score are the most
    together. Where every region's code knows its surroundings, fits alone often choose a part or a neighbour."""
    likelihood_weight: float = 0.0
    """Not 0: `align` adds this times log [score · p(word)], p being the language model's on the region."""
    phrase_beta: float = 0.0
    """Then the β between words of a phrase. A phrase goes from function words to the next ones; between phrases it
    is 0."""

    def __post_init__(self) -> None:
        check_range(0, beta=self.beta, phrase_beta=self.phrase_beta)
        check_range(0, place_weight=self.place_weight, likelihood_weight=self.likelihood_weight)
        check_range(2, MOST_WORDS, longest=self.longest)


SETTINGS = {"words": AlignmentPredictionConfig, "sentence": SentencePredictionConfig}
"""Of each head."""
