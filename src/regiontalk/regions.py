"""From a network's outputs to regions: the part of inference outside the networks (DenseCap 3.1, test time).

    propose -> NMS -> recognise -> NMS -> caption -> score -> calibrate -> no repeats -> say

Everything here is numpy and the same for every runtime, which only computes what is in `Detections`.

Shapes: K proposals, B boxes that are recognised, R regions that survive NMS.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk import confidence, decoding, ranking
from regiontalk.calibration import Scores, calibrated, sigmoid
from regiontalk.confidence import LONGER, Confidence
from regiontalk.model_settings import PredictionConfig
from regiontalk.ranking import Evidence
from regiontalk.runtime import Floats, Proposed, Runtime, State
from regiontalk.types import Region
from regiontalk.vocabulary import END, Vocabulary, head_place

SAME_PLACE = 0.3  # IoU above which two regions with the same words are the same thing
ARTICLES = ("a", "an", "the")
SHORTEST = 2  # words of a caption that takes the place of an unsure one: "a dog", not "dog"
MORE = 2  # words that a caption may have in addition to those of the model's own: "a field of grass", not "a field"
MORE_LIKELY = 0.65  # its words must be this likely on average; most less likely ones were judged not quite right
LEAST_END = 0.2  # probability of END after a caption that is complete
ROWS_AT_ONCE = 300  # to recognise or caption; limits the memory for thousands of given boxes

Rows = NDArray[np.intp]


class Frame(NamedTuple):
    """The photo's place and scale in the network's input."""

    photo_size: tuple[int, int]
    """Width and height of the upright photo."""
    size: tuple[int, int]
    """Width and height in the input, without the padding."""
    scale: tuple[float, float]
    """From the photo's pixels to the input's."""

    @property
    def whole_xyxy(self) -> Floats:
        """(1, 4) the whole photo in input pixels."""
        return np.array([[0, 0, *self.size]], dtype=np.float32)

    def to_input(self, boxes_xyxy: NDArray[np.float64]) -> Floats:
        return geometry.scale(boxes_xyxy, *self.scale).astype(np.float32)

    def to_photo(self, boxes_xyxy: Floats) -> NDArray[np.float64]:
        scale_x, scale_y = self.scale
        boxes = geometry.scale(boxes_xyxy.astype(np.float64), 1 / scale_x, 1 / scale_y)
        return geometry.clip(boxes, *self.photo_size).astype(np.float64)

    def size_features(self, boxes_xyxy: Floats) -> Scores:
        """(B, 2) of boxes (B, 4) in input pixels: their share of the photo's area, and log₂ of the factor by which the
        photo was enlarged, 0 if it was large enough."""
        shares = geometry.area(boxes_xyxy.astype(np.float64)) / math.prod(self.size)
        enlarged = max(0.0, math.log2(max(self.scale)))
        return np.stack([shares, np.full(len(shares), enlarged)], axis=1)


class Detections(NamedTuple):
    """The network's outputs for the best proposals of a photo, best first, or for given boxes; in input pixels."""

    proposals_xyxy: Floats
    """(B, 4) the boxes that were recognised."""
    proposal_logits: Floats
    """(B,)"""
    boxes_xyxy: Floats
    """(B, 4) after the recognition network's refinement; given boxes stay as they are."""
    logits: Floats
    """(B,) the recognition network's."""
    codes: Floats
    """(B, D)"""
    state: State
    """The language model's state before START, a row for every box."""

    def states(self, rows: Rows) -> State:
        return tuple(part[rows] for part in self.state)

    def to_caption(self, rows: Rows, frame: Frame) -> ToCaption:
        return ToCaption(self.states(rows), self.logits[rows], frame.size_features(self.boxes_xyxy[rows]))

    def first(self, count: int) -> Detections:
        """Those of the `count` best proposals."""
        *arrays, state = self
        return Detections._make([*(one[:count] for one in arrays), tuple(part[:count] for part in state)])


class ToCaption(NamedTuple):
    """The inputs for the captions of R regions and for their confidence."""

    state: State
    """The language model's, before START."""
    logits: Floats
    """(R,) the recognition network's."""
    size_features: Scores
    """(R, 2) as `Frame.size_features` gives them."""


class Candidates(NamedTuple):
    """The whole photo (row 0) and its best regions: the candidates for words and phrases."""

    boxes_xyxy: NDArray[np.float64]
    """(R, 4)"""
    scores: Scores
    """(R,) raw."""
    logits: Floats
    """(R,) the recognition network's."""
    state: State
    """The language model's, before START."""
    vectors: Floats | None
    """(R, h); None without an alignment head."""

    def to_caption(self, rows: Rows, frame: Frame) -> ToCaption:
        size_features = frame.size_features(frame.to_input(self.boxes_xyxy[rows]))
        return ToCaption(tuple(part[rows] for part in self.state), self.logits[rows], size_features)

    def first(self, count: int) -> Candidates:
        vectors = None if self.vectors is None else self.vectors[:count]
        parts = (self.boxes_xyxy[:count], self.scores[:count], self.logits[:count])
        return Candidates(*parts, tuple(part[:count] for part in self.state), vectors)


def detect(runtime: Runtime, proposed: Proposed, frame: Frame, settings: PredictionConfig, limit: int) -> Detections:
    """The `limit` best proposals that survive NMS, recognised."""
    boxes, logits = proposed.boxes_xyxy, proposed.logits
    ranked = np.argsort(-logits, kind="stable")[: settings.candidates]
    chosen = ranked[runtime.nms(boxes[ranked], settings.proposal_nms, limit)]
    if not len(chosen):
        return detect_given(runtime, proposed, frame, np.zeros((0, 4)))
    recognized = runtime.recognize(proposed.features, frame.size, boxes[chosen])
    found = Detections(boxes[chosen], logits[chosen], *recognized)
    return found._replace(boxes_xyxy=found.proposals_xyxy) if settings.score == "proposal" else found


def candidates(
    proposed: Proposed, frame: Frame, boxes_xyxy: NDArray[np.float64], scores: Scores, settings: PredictionConfig
) -> Proposed:
    """Uses other proposals than the network's: boxes (B, 4) in the photo's pixels with scores (B,).

    A network with a recognition score ranks them by that score only, because theirs may have another scale.
    """
    if settings.score != "proposal":
        order = np.argsort(-scores, kind="stable")
        boxes_xyxy, scores = boxes_xyxy[order], np.full(len(scores), 0.5)
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    logits = np.log(clipped / (1 - clipped)).astype(np.float32)
    return proposed._replace(boxes_xyxy=frame.to_input(boxes_xyxy), logits=logits)


def detect_given(runtime: Runtime, proposed: Proposed, frame: Frame, boxes_xyxy: NDArray[np.float64]) -> Detections:
    """Given boxes (B, 4) in the photo's pixels, recognised as they are."""
    if not len(boxes_xyxy):  # no graph takes an empty array
        return detect_given(runtime, proposed, frame, np.array([[0.0, 0.0, *frame.photo_size]])).first(0)
    boxes = frame.to_input(boxes_xyxy)
    parts = [
        runtime.recognize(proposed.features, frame.size, boxes[start : start + ROWS_AT_ONCE])
        for start in range(0, len(boxes), ROWS_AT_ONCE)
    ]
    logits = np.concatenate([part.logits for part in parts])
    codes = np.concatenate([part.codes for part in parts])
    state = tuple(np.concatenate(columns) for columns in zip(*(part.state for part in parts), strict=True))
    return Detections(boxes, np.zeros_like(logits), boxes, logits, codes, state)


def given_scores(detections: Detections, settings: PredictionConfig) -> Scores:
    """(B,) of given boxes, which have no proposal score: 1 if the network has no recognition score either."""
    return np.ones(len(detections.logits)) if settings.score == "proposal" else sigmoid(detections.logits)


def raw_scores(detections: Detections, settings: PredictionConfig) -> Scores:
    """(B,) the scores that the second NMS sorts by."""
    if settings.score == "proposal":
        return sigmoid(detections.proposal_logits)
    scores = sigmoid(detections.logits)
    return scores * sigmoid(detections.proposal_logits) if settings.score == "product" else scores


def survivors(detections: Detections, settings: PredictionConfig) -> Rows:
    """The rows that survive the second NMS, highest score first."""
    return geometry.nms(detections.boxes_xyxy, raw_scores(detections, settings), settings.final_nms)


def caption(
    runtime: Runtime, state: State, beam: int = 1, lengths: NDArray[np.intp] | None = None
) -> list[decoding.Caption]:
    """A caption for every row of the language model's state: as long as the model chooses, or of at most `lengths` (R,)
    words."""
    captions: list[decoding.Caption] = []
    step: decoding.Step = runtime.step
    words, obeyed = runtime.words, decoding.Rules(runtime.info.prediction.longest)
    starts = np.full(len(state[0]), words.start())
    if lengths is not None:  # long captions, like sentences, would repeat or break off
        step, state = _limited(step), (*state, lengths.astype(np.float32))
        obeyed = decoding.Rules(int(lengths.max(initial=0)) + 1, words.content_tokens, words.leading_tokens)
        starts = np.array([words.start_of_length(length) for length in lengths.tolist()], dtype=np.int64)
    for first in range(0, len(starts), ROWS_AT_ONCE):
        chunk = slice(first, first + ROWS_AT_ONCE)
        part = tuple(rows[chunk] for rows in state)
        found = decoding.beam_search(step, part, starts[chunk], obeyed, beam)
        captions += [best for best, *_ in found]
    return captions


def _limited(step: decoding.Step) -> decoding.Step:
    """A step whose state also has the number of words that are left; after the last word only END can follow."""

    def limited(tokens: decoding.Integers, state: State) -> tuple[decoding.Floats, State]:
        *own, left = state
        logprobs, following = step(tokens, tuple(own))
        may_follow = (left > 0)[:, None] | (np.arange(logprobs.shape[1]) == END)
        return np.where(may_follow, logprobs, -np.inf), (*following, left - 1)

    return limited


class Choices(NamedTuple):
    """Captions of regions, several of each."""

    rows: Rows
    """(C,) the region of each; the first R are the model's own captions, one for each region."""
    captions: list[decoding.Caption]
    features: Scores
    """(C, F) the features that their confidence is computed from."""


class Said(NamedTuple):
    """The chosen captions of R regions."""

    captions: list[decoding.Caption]
    confidences: Scores | None
    """(R,) how likely each is right; None where the model has no fit for it."""


def choices(
    runtime: Runtime,
    regions: ToCaption,
    captions: Sequence[decoding.Caption],
    lengths: Sequence[Iterable[int]],
    beam: int = 1,
) -> Choices:
    """The model's own `captions` of R regions, and for each region captions of at most `lengths` words, without those
    that were cut off. A caption of one word is the head word of the model's own: decoded without an article, it would
    often name another object."""
    heads = [head_place(runtime.words.decode(own.tokens).split()) for own in captions]
    alone = [row for row, tried in enumerate(lengths) if 1 in tried and heads[row] >= 0]
    pairs = [(row, length) for row, tried in enumerate(lengths) for length in tried if length > 1]
    tried_rows, tried = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    others = caption(runtime, tuple(part[tried_rows] for part in regions.state), beam, tried) if pairs else []
    whole = [_is_whole(one, runtime.words) for one in others]
    tried_rows, others = tried_rows[whole], list(itertools.compress(others, whole))
    every = [*captions, *(_word_of(captions[row], heads[row]) for row in alone), *others]
    rows = np.concatenate([np.arange(len(captions)), np.array(alone, dtype=np.intp), tried_rows])
    names = [own.tokens[place : place + 1] for own, place in zip(captions, heads, strict=True)]
    agrees = [set(names[row]) <= set(one.tokens) for row, one in zip(rows.tolist(), every, strict=True)]
    own = [captions[row] for row in rows.tolist()]
    features = confidence.features(every, agrees, regions.logits[rows], regions.size_features[rows], own)
    return Choices(rows, every, features)


def _is_whole(said: decoding.Caption, words: Vocabulary) -> bool:
    """Whether a caption is complete, not cut off by its limit like "a cup of"."""
    return said.logprobs[-1] >= math.log(LEAST_END) and not words.leading_tokens.intersection(said.tokens[-1:])


def _word_of(own: decoding.Caption, place: int) -> decoding.Caption:
    """One word of a caption, with the log-probability that it has there."""
    return decoding.Caption(own.tokens[place : place + 1], (own.logprobs[place], own.logprobs[-1]))


def say(
    runtime: Runtime,
    regions: ToCaption,
    captions: Sequence[decoding.Caption],
    words: int | None = None,
    beam: int = 1,
) -> Said:
    """Chooses the captions of R regions. `captions` are the model's own.

    With `words`: captions of at most that many words. Without: a caption of up to `MORE` words more than the model's
    own if it is likely, or a shorter one of at least `SHORTEST` words if the model's own is unsure.
    """
    fitted, known = runtime.info.prediction.confidence, runtime.words.lengths
    lengths: list[Iterable[int]] = [()] * len(captions)
    if words is not None:
        lengths = [(*range(1, min(words, known)), words)] * len(captions)
    elif fitted is not None and known:
        own = choices(runtime, regions, captions, lengths)
        unsure = confidence.probabilities(own.features, fitted) < fitted.likely
        own_lengths = [len(one.tokens) for one in captions]
        lengths = [
            (*range(SHORTEST, length if less else 0), *range(length + 1, length + MORE + 1))
            for length, less in zip(own_lengths, unsure.tolist(), strict=True)
        ]
    found = choices(runtime, regions, captions, lengths, beam)
    sure = confidence.probabilities(found.features, fitted)
    chosen = choose(found.rows, found.features, sure, fitted, words)
    return Said([found.captions[place] for place in chosen.tolist()], None if fitted is None else sure[chosen])


def choose(rows: Rows, features: Scores, sure: Scores, fitted: Confidence | None, words: int | None) -> Rows:
    """(R,) the row of the caption that is chosen for each region. Captions (C,) are given by their region, features
    (C, F) and confidence, the model's own captions of all regions first.

    With `words`: the caption with the highest confidence among those of at most that many words; of equal ones the
    longest. Without: the longest caption of up to `MORE` words more than the model's own, unless it is unsure and the
    model's own is sure; else the one with the highest confidence among the model's own and, if that is unsure, shorter
    ones. All must agree with the model's own, and the words of longer ones must be likely.
    """
    count = rows.max(initial=-1) + 1
    lengths, agrees = confidence.column(features, "words"), confidence.column(features, "agrees") > 0
    likely, longer = (0.0, LONGER) if fitted is None else (fitted.likely, fitted.longer)
    own_lengths, unsure = lengths[:count][rows], (sure[:count] < likely)[rows]
    probability = np.exp(confidence.column(features, "mean_logprob"))
    more = np.zeros(len(rows))
    if words is None:
        is_likely = (probability >= MORE_LIKELY) & ((sure >= likely) | unsure)
        is_more = (lengths > own_lengths) & (lengths <= own_lengths + MORE) & is_likely
        more = lengths * is_more
        allowed = is_more | ((lengths < own_lengths) & (lengths >= SHORTEST) & unsure)
        allowed[:count] = True
    else:
        allowed = (lengths <= words) & ((lengths <= own_lengths) | (probability >= longer))
    places = np.flatnonzero(allowed & agrees)
    ranked = places[np.lexsort((-lengths[places], -sure[places].round(9), -more[places], rows[places]))]
    chosen: Rows = ranked[np.unique(rows[ranked], return_index=True)[1]]
    return chosen


def evidence_of(
    detections: Detections,
    rows: Rows,
    captions: Sequence[decoding.Caption],
    frame: Frame,
    settings: PredictionConfig,
) -> Evidence:
    """The evidence that the captioned `rows` are scored by."""
    kept = detections.boxes_xyxy[rows]
    # The same number of voters as when the ranking was fitted, whatever the option `proposals`.
    votes = ranking.votes(kept, detections.boxes_xyxy[: settings.proposals])
    scores, logits = raw_scores(detections, settings)[rows], detections.logits[rows].astype(np.float64)
    return Evidence(frame.photo_size, frame.to_photo(kept), scores, logits, votes, captions)


def score(evidence: Evidence, settings: PredictionConfig) -> Scores:
    """By the fitted ranking if there is one, else by the rules of the settings; then calibrated."""
    if settings.ranking is not None:
        scores = ranking.scores(ranking.features(evidence), settings.ranking)
    else:
        scores = weigh_captions(evidence.scores, evidence.captions, settings)
    return calibrated(scores, settings.calibration)


def weigh_captions(scores: Scores, captions: Sequence[decoding.Caption], settings: PredictionConfig) -> Scores:
    """The scores, lowered where the caption is unlikely."""
    confidence = np.array([caption.mean_logprob for caption in captions])
    return scores * np.exp(settings.caption_weight * confidence)


def rank(evidence: Evidence, settings: PredictionConfig, words: Vocabulary) -> tuple[Rows, Scores]:
    """The rows of a photo's regions without repeats, highest score first, and their scores."""
    scores = score(evidence, settings)
    ranked = np.argsort(-scores, kind="stable")
    captions = [words.decode(evidence.captions[row].tokens) for row in ranked.tolist()]
    kept = ranked[without_repeats(evidence.boxes_xyxy[ranked], captions)]
    return kept, scores[kept]


def to_regions(boxes_xyxy: NDArray[np.floating], scores: Scores, said: Said, words: Vocabulary) -> list[Region]:
    confidences = [None] * len(scores) if said.confidences is None else said.confidences.tolist()
    rows = zip(boxes_xyxy.tolist(), scores.tolist(), said.captions, confidences, strict=True)
    return [
        Region((x0, y0, x1, y1), score, words.decode(caption.tokens), caption.logprob, confidence)
        for (x0, y0, x1, y1), score, caption, confidence in rows
    ]


def without_repeats(boxes_xyxy: NDArray[np.floating], captions: Sequence[str]) -> Rows:
    """Rows without repeats: of regions in about the same place with the same words (articles ignored) only the first.
    Regions without words or with an empty box are dropped."""
    close = geometry.iou(boxes_xyxy, boxes_xyxy) > SAME_PLACE
    kept: dict[tuple[str, ...], list[int]] = {}  # by their words
    for row, (caption, area) in enumerate(zip(captions, geometry.area(boxes_xyxy), strict=True)):
        rivals = kept.setdefault(tuple(word for word in caption.split() if word not in ARTICLES), [])
        if caption and area > 0 and not close[row, rivals].any():
            rivals.append(row)
    return np.array(sorted(itertools.chain(*kept.values())), dtype=np.intp)
