"""The captions of regions: decoded by the language model, then chosen among captions of several
lengths.

Shapes: R regions, C captions of them, F features of a caption.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.inference import confidence, decoding
from regiontalk.inference.calibration import Scores
from regiontalk.inference.colours import say_likely_colours
from regiontalk.inference.decoding import Caption
from regiontalk.inference.rank import texts
from regiontalk.inference.regions import ROWS_AT_ONCE, RegionTable, Rows
from regiontalk.language.head_nouns import head_place
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.runtime import Runtime, State
from regiontalk.models.settings import MIN_LONGER_PROB, Confidence
from regiontalk.results import Region

MIN_SHORTER_WORDS = 2  # of a caption that replaces an unsure one: "a dog", not "dog"
MAX_EXTRA_WORDS = 2  # beyond the model's own caption: "a field of grass", not "a field"
# The geometric mean of a longer caption's word probabilities must be this high; most less likely
# ones were judged not quite right.
MIN_EXTRA_WORD_PROB = 0.65
MIN_END_PROB = 0.2  # of END after a caption that is complete


ARTICLES = (["a"], ["an"], ["the"])


class TriedCaptions(NamedTuple):
    """Captions of regions, several of each."""

    rows: Rows
    """(C,) the region of each; the first R are the model's own captions, one for each region."""
    captions: list[Caption]
    features: Scores
    """(C, F) the features that their confidence is computed from."""


def with_captions(runtime: Runtime, regions: RegionTable, beam: int = 1) -> RegionTable:
    """The regions with the model's own captions, which are as long as the model chooses."""
    return replace(regions, captions=tuple(decode_captions(runtime, regions.state, beam)))


def decode_captions(
    runtime: Runtime, state: State, beam: int = 1, lengths: NDArray[np.intp] | None = None
) -> list[Caption]:
    """A caption for every row of the language model's state: as long as the model chooses, or of at
    most `lengths` (R,) words."""
    words = runtime.words
    captions: list[Caption] = []
    for first in range(0, len(state[0]), ROWS_AT_ONCE):
        chunk = slice(first, first + ROWS_AT_ONCE)
        chunk_state = tuple(part[chunk] for part in state)
        if lengths is None:
            start: decoding.Start = words.start()
            rules = decoding.Rules(runtime.info.prediction.longest)
        else:
            start = np.array([words.start_of_length(length) for length in lengths[chunk].tolist()])
            rules = _length_rules(words, lengths[chunk])
        beams = decoding.beam_search(runtime.step, chunk_state, start, rules, beam)
        captions += [best for best, *_ in beams]
    return captions


def _length_rules(words: Vocabulary, lengths: NDArray[np.intp]) -> decoding.Rules:
    """The rules for captions of at most `lengths` (R,) words and END: long captions, like
    sentences, would repeat or break off."""
    return decoding.Rules(
        longest=int(lengths.max(initial=0)) + 1,
        once=words.content_tokens,
        never_last=words.leading_tokens,
        limits=lengths,
    )


def choose_captions(
    runtime: Runtime, regions: RegionTable, max_words: int | None = None, beam: int = 1
) -> RegionTable:
    """The captioned regions with captions of the best length, and their confidences.

    With `max_words`: captions of at most that many words, which say no less than those without it
    if these are short enough. Without: a caption of up to `MAX_EXTRA_WORDS` words more than the
    model's own if it is likely, or a shorter one of at least `MIN_SHORTER_WORDS` words if the
    model's own is unsure.
    """
    fitted = runtime.info.prediction.confidence
    own = own_captions(regions)
    lengths = _lengths_to_try(runtime, own)
    tried = join_tried(own, captions_of_lengths(runtime, regions, lengths, beam))
    confidences = confidence.probabilities(tried.features, fitted)
    chosen = choose(tried.rows, tried.features, confidences, fitted, None)
    if max_words is not None:
        usual = [tried.captions[place] for place in chosen.tolist()]
        usual_confidences = None if fitted is None else confidences[chosen]
        regions = replace(regions, usual_captions=tuple(usual), usual_confidences=usual_confidences)
        limited = [(*range(1, min(max_words, runtime.words.lengths)), max_words)] * len(lengths)
        more = [sorted({*some} - {*known}) for some, known in zip(limited, lengths, strict=True)]
        tried = join_tried(tried, captions_of_lengths(runtime, regions, more, beam))
        confidences = confidence.probabilities(tried.features, fitted)
        said = say_likely_colours(tried.captions, tried.rows, regions, runtime)
        says_enough = _says_no_less(said, tried.rows, chosen, max_words, runtime.words)
        within = choose(tried.rows, tried.features, confidences, fitted, max_words, says_enough)
        chosen[tried.rows[within]] = within
    chosen_captions = [tried.captions[place] for place in chosen.tolist()]
    return replace(
        regions,
        captions=say_likely_colours(chosen_captions, tried.rows[chosen], regions, runtime),
        confidences=None if fitted is None else confidences[chosen],
    )


def _says_no_less(
    said: Sequence[Caption], rows: Rows, default: Rows, max_words: int, words: Vocabulary
) -> NDArray[np.bool_]:
    """(C,) Which captions, of the regions `rows`, have as many words as the region's `default` one,
    and an article if that has one; all of a region whose default caption is longer than
    `max_words`."""
    lengths = np.array([len(caption.tokens) for caption in said])
    has_article = np.array(
        [words.decode(caption.tokens).split()[:1] in ARTICLES for caption in said], dtype=bool
    )
    default_lengths = lengths[default][rows]
    keeps_article = has_article | ~has_article[default][rows]
    says_enough = (lengths >= default_lengths) & keeps_article
    return np.asarray(says_enough | (default_lengths > max_words), dtype=bool)


def own_captions(regions: RegionTable) -> TriedCaptions:
    """The model's own caption of each region."""
    captions = list(regions.captions)
    features = confidence.features(
        captions, [True] * len(captions), regions.logits, regions.size_features(), captions
    )
    return TriedCaptions(np.arange(len(captions)), captions, features)


def join_tried(first: TriedCaptions, others: TriedCaptions) -> TriedCaptions:
    """The model's own captions, then others."""
    return TriedCaptions(
        np.concatenate([first.rows, others.rows]),
        first.captions + others.captions,
        np.concatenate([first.features, others.features]),
    )


def _lengths_to_try(runtime: Runtime, own: TriedCaptions) -> list[Sequence[int]]:
    """The numbers of words for which captions of each region are decoded by default."""
    fitted = runtime.info.prediction.confidence
    if fitted is None or not runtime.words.lengths:
        return [()] * len(own.captions)
    confidences = confidence.probabilities(own.features, fitted)
    lengths: list[Sequence[int]] = []
    for caption, own_confidence in zip(own.captions, confidences.tolist(), strict=True):
        words = len(caption.tokens)
        is_unsure = own_confidence < fitted.likely
        shorter = range(MIN_SHORTER_WORDS, words if is_unsure else 0)
        longer = range(words + 1, words + MAX_EXTRA_WORDS + 1)
        lengths.append((*shorter, *longer))
    return lengths


def captions_of_lengths(
    runtime: Runtime, regions: RegionTable, lengths: Sequence[Iterable[int]], beam: int = 1
) -> TriedCaptions:
    """Captions of each region of at most `lengths` words, without those that were cut off. A
    caption of one word is the head word of the model's own: decoded without an article, it would
    often name another object."""
    own = regions.captions
    heads = [head_place(runtime.words.decode(caption.tokens).split()) for caption in own]
    single_rows = [row for row, tried in enumerate(lengths) if 1 in tried and heads[row] >= 0]
    singles = [_word_of(own[row], heads[row]) for row in single_rows]
    decoded_rows, decoded = _decode_lengths(runtime, regions.state, lengths, beam)
    rows = np.array([*single_rows, *decoded_rows], dtype=np.intp)
    captions = [*singles, *decoded]
    agrees = []
    for row, caption in zip(rows.tolist(), captions, strict=True):
        head_tokens = own[row].tokens[heads[row] : heads[row] + 1]
        agrees.append(set(head_tokens) <= set(caption.tokens))
    features = confidence.features(
        captions,
        agrees,
        regions.logits[rows],
        regions.size_features()[rows],
        [own[row] for row in rows.tolist()],
    )
    return TriedCaptions(rows, captions, features)


def _decode_lengths(
    runtime: Runtime, state: State, lengths: Sequence[Iterable[int]], beam: int
) -> tuple[list[int], list[Caption]]:
    """Complete captions of two words and more, and the region of each."""
    pairs: list[tuple[int, int]] = []
    for row, tried in enumerate(lengths):
        pairs += [(row, length) for length in tried if length > 1]
    if not pairs:
        return [], []
    rows, limits = np.array(pairs, dtype=np.intp).T
    decoded = decode_captions(runtime, tuple(part[rows] for part in state), beam, limits)
    whole = [_is_whole(caption, runtime.words) for caption in decoded]
    return rows[whole].tolist(), list(itertools.compress(decoded, whole))


def _is_whole(caption: Caption, words: Vocabulary) -> bool:
    """Whether a caption is complete, not cut off by its limit like "a cup of"."""
    has_likely_end = caption.logprobs[-1] >= math.log(MIN_END_PROB)
    return has_likely_end and not words.leading_tokens.intersection(caption.tokens[-1:])


def _word_of(caption: Caption, place: int) -> Caption:
    """One word of a caption, with the log-probability that it has there."""
    logprobs = (caption.logprobs[place], caption.logprobs[-1])
    return Caption(caption.tokens[place : place + 1], logprobs)


def choose(
    rows: Rows,
    features: Scores,
    confidences: Scores,
    fitted: Confidence | None,
    max_words: int | None,
    possible: NDArray[np.bool_] | None = None,
) -> Rows:
    """(R,) which of the captions is chosen for each region. Captions (C,) are given as in
    `TriedCaptions`, by their region, features (C, F) and confidence.

    With `max_words`: the caption with the highest confidence among those of at most that many
    words; of equal ones the longest. Without: the longest caption of up to `MAX_EXTRA_WORDS` words
    more than the model's own, unless it is unsure and the model's own is sure; else the one with
    the highest confidence among the model's own and, if that is unsure, shorter ones. All must
    agree with the model's own, and the words of longer ones must be likely. `possible` (C,): only
    these captions; a region without one is left out.
    """
    count = rows.max(initial=-1) + 1
    min_confidence = 0.0 if fitted is None else fitted.likely
    min_longer_prob = MIN_LONGER_PROB if fitted is None else fitted.longer
    lengths = confidence.column(features, "words")
    agrees = confidence.column(features, "agrees") > 0
    word_probs = np.exp(confidence.column(features, "mean_logprob"))
    own_lengths = lengths[:count][rows]
    is_own_unsure = (confidences[:count] < min_confidence)[rows]
    extra_lengths = np.zeros(len(rows))
    if max_words is None:
        is_likely = (word_probs >= MIN_EXTRA_WORD_PROB) & (
            (confidences >= min_confidence) | is_own_unsure
        )
        is_longer = (lengths > own_lengths) & (lengths <= own_lengths + MAX_EXTRA_WORDS)
        is_shorter = (lengths < own_lengths) & (lengths >= MIN_SHORTER_WORDS)
        is_extra = is_longer & is_likely
        extra_lengths = lengths * is_extra
        is_allowed = is_extra | (is_shorter & is_own_unsure)
        is_allowed[:count] = True
    else:
        is_allowed = (lengths <= max_words) & (
            (lengths <= own_lengths) | (word_probs >= min_longer_prob)
        )
    if possible is not None:
        is_allowed &= possible
    places = np.flatnonzero(is_allowed & agrees)
    order = np.lexsort(
        (
            -lengths[places],
            -confidences[places].round(9),
            -extra_lengths[places],
            rows[places],
        )
    )
    ranked = places[order]
    _, firsts = np.unique(rows[ranked], return_index=True)
    chosen: Rows = ranked[firsts]
    return chosen


def to_regions(table: RegionTable, words: Vocabulary) -> list[Region]:
    """The captioned regions as results."""
    boxes = table.boxes_xyxy.tolist()
    regions = []
    spoken = texts(table, words)
    for row, caption in enumerate(table.captions):
        x0, y0, x1, y1 = boxes[row]
        name = table.names[row] if table.names else None
        region = Region(
            xyxy=(x0, y0, x1, y1),
            score=float(table.scores[row]),
            caption=spoken[row],
            logprob=None if table.called and table.called[row] else caption.logprob,
            confidence=None if table.confidences is None else float(table.confidences[row]),
            name=None if name is None else name.name,
            name_confidence=None if name is None else name.probability,
        )
        regions.append(region)
    return regions
