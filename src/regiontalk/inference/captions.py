"""The captions of regions: decoded by the language model, then chosen among captions of several
lengths.

Shapes: R regions, C captions of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference import confidence, decoding
from regiontalk.inference.calibration import Scores
from regiontalk.inference.regions import ROWS_AT_ONCE, Rows, ToCaption
from regiontalk.language.vocabulary import END, Vocabulary, head_place
from regiontalk.models.runtime import Runtime, State
from regiontalk.models.settings import LONGER, Confidence
from regiontalk.results import Region

SHORTEST = 2  # words of a caption that takes the place of an unsure one: "a dog", not "dog"
# words that a caption may have in addition to those of the model's own: "a field of grass", not "a
# field"
MORE = 2
# its words must be this likely on average; most less likely ones were judged not quite right
MORE_LIKELY = 0.65
LEAST_END = 0.2  # probability of END after a caption that is complete


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


def decode_captions(
    runtime: Runtime, state: State, beam: int = 1, lengths: NDArray[np.intp] | None = None
) -> list[decoding.Caption]:
    """A caption for every row of the language model's state: as long as the model chooses, or of at
    most `lengths` (R,) words."""
    captions: list[decoding.Caption] = []
    step: decoding.Step = runtime.step
    words, obeyed = runtime.words, decoding.Rules(runtime.info.prediction.longest)
    starts = np.full(len(state[0]), words.start())
    if lengths is not None:  # long captions, like sentences, would repeat or break off
        step, state = _limited(step), (*state, lengths.astype(np.float32))
        obeyed = decoding.Rules(
            int(lengths.max(initial=0)) + 1, words.content_tokens, words.leading_tokens
        )
        starts = np.array(
            [words.start_of_length(length) for length in lengths.tolist()], dtype=np.int64
        )
    for first in range(0, len(starts), ROWS_AT_ONCE):
        chunk = slice(first, first + ROWS_AT_ONCE)
        part = tuple(rows[chunk] for rows in state)
        found = decoding.beam_search(step, part, starts[chunk], obeyed, beam)
        captions += [best for best, *_ in found]
    return captions


def _limited(step: decoding.Step) -> decoding.Step:
    """A step whose state also has the number of words that are left; after the last word only END
    can follow."""

    def limited(tokens: decoding.Integers, state: State) -> tuple[decoding.Floats, State]:
        *own, left = state
        logprobs, following = step(tokens, tuple(own))
        may_follow = (left > 0)[:, None] | (np.arange(logprobs.shape[1]) == END)
        return np.where(may_follow, logprobs, -np.inf), (*following, left - 1)

    return limited


def choices(
    runtime: Runtime,
    regions: ToCaption,
    captions: Sequence[decoding.Caption],
    lengths: Sequence[Iterable[int]],
    beam: int = 1,
) -> Choices:
    """The model's own `captions` of R regions, and for each region captions of at most `lengths`
    words, without those that were cut off. A caption of one word is the head word of the model's
    own: decoded without an article, it would often name another object."""
    heads = [head_place(runtime.words.decode(own.tokens).split()) for own in captions]
    alone = [row for row, tried in enumerate(lengths) if 1 in tried and heads[row] >= 0]
    pairs = [(row, length) for row, tried in enumerate(lengths) for length in tried if length > 1]
    tried_rows, tried = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    others = (
        decode_captions(runtime, tuple(part[tried_rows] for part in regions.state), beam, tried)
        if pairs
        else []
    )
    whole = [_is_whole(one, runtime.words) for one in others]
    tried_rows, others = tried_rows[whole], list(itertools.compress(others, whole))
    every = [*captions, *(_word_of(captions[row], heads[row]) for row in alone), *others]
    rows = np.concatenate([np.arange(len(captions)), np.array(alone, dtype=np.intp), tried_rows])
    names = [own.tokens[place : place + 1] for own, place in zip(captions, heads, strict=True)]
    agrees = [
        set(names[row]) <= set(one.tokens) for row, one in zip(rows.tolist(), every, strict=True)
    ]
    own = [captions[row] for row in rows.tolist()]
    features = confidence.features(
        every, agrees, regions.logits[rows], regions.size_features[rows], own
    )
    return Choices(rows, every, features)


def _is_whole(said: decoding.Caption, words: Vocabulary) -> bool:
    """Whether a caption is complete, not cut off by its limit like "a cup of"."""
    return said.logprobs[-1] >= math.log(LEAST_END) and not words.leading_tokens.intersection(
        said.tokens[-1:]
    )


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

    With `words`: captions of at most that many words. Without: a caption of up to `MORE` words more
    than the model's own if it is likely, or a shorter one of at least `SHORTEST` words if the
    model's own is unsure.
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
    return Said(
        [found.captions[place] for place in chosen.tolist()],
        None if fitted is None else sure[chosen],
    )


def choose(
    rows: Rows, features: Scores, sure: Scores, fitted: Confidence | None, words: int | None
) -> Rows:
    """(R,) the row of the caption that is chosen for each region. Captions (C,) are given by their
    region, features (C, F) and confidence, the model's own captions of all regions first.

    With `words`: the caption with the highest confidence among those of at most that many words; of
    equal ones the longest. Without: the longest caption of up to `MORE` words more than the model's
    own, unless it is unsure and the model's own is sure; else the one with the highest confidence
    among the model's own and, if that is unsure, shorter ones. All must agree with the model's own,
    and the words of longer ones must be likely.
    """
    count = rows.max(initial=-1) + 1
    lengths, agrees = (
        confidence.column(features, "words"),
        confidence.column(features, "agrees") > 0,
    )
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
    ranked = places[
        np.lexsort((-lengths[places], -sure[places].round(9), -more[places], rows[places]))
    ]
    chosen: Rows = ranked[np.unique(rows[ranked], return_index=True)[1]]
    return chosen


def to_regions(
    boxes_xyxy: NDArray[np.floating], scores: Scores, said: Said, words: Vocabulary
) -> list[Region]:
    confidences = [None] * len(scores) if said.confidences is None else said.confidences.tolist()
    rows = zip(boxes_xyxy.tolist(), scores.tolist(), said.captions, confidences, strict=True)
    return [
        Region((x0, y0, x1, y1), score, words.decode(caption.tokens), caption.logprob, confidence)
        for (x0, y0, x1, y1), score, caption, confidence in rows
    ]
