"""All matches between two sentences, listed as METEOR's matchers do: by matcher, then by the
source's words.

Words are compared by Java's 32-bit string hash, as the jar does, so that its rare collisions ("an"
and "c0") match here too.
"""

from __future__ import annotations

import numpy as np

from regiontalk.lab.evaluation.meteor.arrays import (
    EXACT,
    PARAPHRASE,
    STEM,
    SYNONYM,
    Integers,
    Matches,
    Paraphrases,
    Phrases,
    Questions,
    Sentences,
    Words,
)
from regiontalk.lab.evaluation.meteor.compiled import compiled, compiled_once

_BUCKETS = 1024
_MASK = _BUCKETS - 1
_NONE = -1


@compiled_once
def find_matches(
    questions: Questions,
    sentences: Sentences,
    words: Words,
    phrases: Phrases,
    paraphrases: Paraphrases,
) -> Matches:
    """All matches of every hypothesis with each of its references. Equal sentences match exactly
    only."""
    first_reference = questions.first_reference
    references = questions.references
    first_word = sentences.first_word
    all_keys = words.key[sentences.words]
    all_stem_keys = words.stem_key[sentences.words]
    table = np.empty((1024, 5), np.int64)
    count = 0
    first_match = np.zeros(len(references) + 1, np.int64)
    for question in range(len(questions.hypotheses)):
        hypothesis = questions.hypotheses[question]
        keys = _part(all_keys, first_word, hypothesis)
        stem_keys = _part(all_stem_keys, first_word, hypothesis)
        every = np.arange(len(keys))
        synsets, owners = _synsets_of(_part(sentences.words, first_word, hypothesis), words)
        key_index = _index(keys)
        stem_index = _index(stem_keys)
        synset_index = _index(synsets)
        phrase_index = _index(_part(phrases.node, phrases.first_phrase, hypothesis))
        for number in range(first_reference[question], first_reference[question + 1]):
            reference = references[number]
            others = _part(all_keys, first_word, reference)
            starts = np.arange(len(others))
            table, count = _match_words(
                table, count, EXACT, keys, every, key_index, others, starts, keys, others
            )
            if not np.array_equal(keys, others):
                stems = _part(all_stem_keys, first_word, reference)
                table, count = _match_words(
                    table, count, STEM, stem_keys, every, stem_index, stems, starts, keys, others
                )
                sets, holders = _synsets_of(_part(sentences.words, first_word, reference), words)
                table, count = _match_words(
                    table,
                    count,
                    SYNONYM,
                    synsets,
                    owners,
                    synset_index,
                    sets,
                    holders,
                    keys,
                    others,
                )
                # A pair that the paraphrase table holds in both directions is listed twice, as in
                # the jar, and so counts as ambiguous.
                table, count = _match_rewrites(
                    table, count, reference, hypothesis, phrase_index, phrases, paraphrases, False
                )
                other_index = _index(_part(phrases.node, phrases.first_phrase, reference))
                table, count = _match_rewrites(
                    table, count, hypothesis, reference, other_index, phrases, paraphrases, True
                )
            first_match[number + 1] = count
    return Matches(table[:count].copy(), first_match)


@compiled
def _part(values: Integers, first: Integers, owner: int) -> Integers:
    return values[first[owner] : first[owner + 1]]


@compiled
def _synsets_of(sentence: Integers, words: Words) -> tuple[Integers, Integers]:
    """The synonym sets of all words of a sentence, and the places of those words."""
    first_synset = words.first_synset
    all_synsets = words.synsets
    total = 0
    for word in sentence:
        total += first_synset[word + 1] - first_synset[word]
    synsets = np.empty(total, np.int64)
    places = np.empty(total, np.int64)
    entry = 0
    for place in range(len(sentence)):
        for number in range(first_synset[sentence[place]], first_synset[sentence[place] + 1]):
            synsets[entry] = all_synsets[number]
            places[entry] = place
            entry += 1
    return synsets, places


@compiled
def _index(values: Integers) -> Integers:
    """A hash table of a few values: each bucket leads to the slot of its first value, each slot to
    the next.

    The slot of the n-th value is _BUCKETS + n. Slots of a bucket are in the order of the values.
    """
    slots = np.full(_BUCKETS + len(values), _NONE, np.int64)
    for number in range(len(values) - 1, -1, -1):
        bucket = values[number] & _MASK
        slots[_BUCKETS + number] = slots[bucket]
        slots[bucket] = _BUCKETS + number
    return slots


@compiled
def _append(
    table: Integers, count: int, start: int, length: int, place: int, extent: int, matcher: int
) -> tuple[Integers, int]:
    if count == len(table):
        table = np.concatenate((table, np.empty_like(table)))
    table[count, 0] = start
    table[count, 1] = length
    table[count, 2] = place
    table[count, 3] = extent
    table[count, 4] = matcher
    return table, count + 1


@compiled
def _match_words(
    table: Integers,
    count: int,
    matcher: int,
    values: Integers,
    places: Integers,
    index: Integers,
    other_values: Integers,
    starts: Integers,
    keys: Integers,
    other_keys: Integers,
) -> tuple[Integers, int]:
    """Words that share a value: `values` of the hypothesis's words at `places`, `other_values` of
    the reference's at `starts`. Only the exact matcher takes words that are the same."""
    shares = np.zeros((len(other_keys), len(keys)), np.bool_)
    for number in range(len(other_values)):
        slot = index[other_values[number] & _MASK]
        while slot != _NONE:
            if values[slot - _BUCKETS] == other_values[number]:
                shares[starts[number], places[slot - _BUCKETS]] = True
            slot = index[slot]
    for start in range(len(other_keys)):
        for place in range(len(keys)):
            if shares[start, place] and (matcher == EXACT or keys[place] != other_keys[start]):
                table, count = _append(table, count, start, 1, place, 1, matcher)
    return table, count


@compiled
def _match_rewrites(
    table: Integers,
    count: int,
    source: int,
    target: int,
    target_index: Integers,
    phrases: Phrases,
    paraphrases: Paraphrases,
    source_is_hypothesis: bool,
) -> tuple[Integers, int]:
    """Matches of paraphrases, by start and length of the source's phrase, then in the order of its
    paraphrases, then by start."""
    node = phrases.node
    start = phrases.start
    length = phrases.length
    first_rewrite = paraphrases.first_rewrite
    rewrites = paraphrases.rewrites
    first = phrases.first_phrase[target]
    for phrase in range(phrases.first_phrase[source], phrases.first_phrase[source + 1]):
        for number in range(first_rewrite[node[phrase]], first_rewrite[node[phrase] + 1]):
            rewrite = rewrites[number]
            slot = target_index[rewrite & _MASK]
            while slot != _NONE:
                other = first + slot - _BUCKETS
                if node[other] == rewrite:
                    hyp, ref = (other, phrase) if source_is_hypothesis else (phrase, other)
                    table, count = _append(
                        table, count, start[hyp], length[hyp], start[ref], length[ref], PARAPHRASE
                    )
                slot = target_index[slot]
    return table, count
