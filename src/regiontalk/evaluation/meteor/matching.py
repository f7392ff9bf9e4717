"""All matches between two sentences, listed as METEOR's matchers do: by matcher, then by the source's words.

Words are compared by Java's 32-bit string hash, as the jar does, so that its rare collisions ("an" and
"c0") match here too.
"""

from __future__ import annotations

import numpy as np

from regiontalk.evaluation.meteor.arrays import (
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
from regiontalk.evaluation.meteor.compiled import compiled, compiled_once

_BUCKETS = 1024
_MASK = _BUCKETS - 1
_NONE = -1


@compiled_once
def find_matches(
    questions: Questions, sentences: Sentences, words: Words, phrases: Phrases, paraphrases: Paraphrases
) -> Matches:
    """All matches of every hypothesis with each of its references. Equal sentences match exactly only."""
    first_reference, first_word = questions.first_reference, sentences.first_word
    table, count = np.empty((1024, 5), np.int64), 0
    first_match = np.zeros(len(questions.references) + 1, np.int64)
    for question in range(len(questions.hypotheses)):
        hypothesis = questions.hypotheses[question]
        own = _part(sentences.words, first_word, hypothesis)
        phrase_index = _index(_part(phrases.node, phrases.first_phrase, hypothesis))
        for number in range(first_reference[question], first_reference[question + 1]):
            reference = questions.references[number]
            others = _part(sentences.words, first_word, reference)
            table, count = _match_words(table, count, EXACT, own, others, words)
            if not np.array_equal(words.key[own], words.key[others]):
                table, count = _match_words(table, count, STEM, own, others, words)
                table, count = _match_words(table, count, SYNONYM, own, others, words)
                # A pair that the paraphrase table holds in both directions is listed twice, as in the jar, and so
                # counts as ambiguous.
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
def _index(values: Integers) -> Integers:
    """A hash table of a few values: each bucket leads to the slot of its first value, each slot to the next.

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
    table[count, 0], table[count, 1], table[count, 2], table[count, 3] = start, length, place, extent
    table[count, 4] = matcher
    return table, count + 1


@compiled
def _match_words(
    table: Integers, count: int, matcher: int, own: Integers, others: Integers, words: Words
) -> tuple[Integers, int]:
    """Words of the hypothesis and the reference that are equal, or have the same stem, or a synonym set in common."""
    for start in range(len(others)):
        for place in range(len(own)):
            one, other = own[place], others[start]
            if words.key[one] == words.key[other]:
                matches = matcher == EXACT
            elif matcher == STEM:
                matches = words.stem_key[one] == words.stem_key[other]
            else:
                matches = matcher == SYNONYM and _are_synonyms(one, other, words)
            if matches:
                table, count = _append(table, count, start, 1, place, 1, matcher)
    return table, count


@compiled
def _are_synonyms(one: int, other: int, words: Words) -> bool:
    """Whether two words have a synonym set in common; each word's are in rising order."""
    synsets, first_synset = words.synsets, words.first_synset
    here, there = first_synset[one], first_synset[other]
    while here < first_synset[one + 1] and there < first_synset[other + 1]:
        if synsets[here] == synsets[there]:
            return True
        if synsets[here] < synsets[there]:
            here += 1
        else:
            there += 1
    return False


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
    """By start and length of the source's phrase, then in the order of its paraphrases, then by start."""
    node, start, length = phrases.node, phrases.start, phrases.length
    first_rewrite, rewrites = paraphrases.first_rewrite, paraphrases.rewrites
    first = phrases.first_phrase[target]
    for phrase in range(phrases.first_phrase[source], phrases.first_phrase[source + 1]):
        for number in range(first_rewrite[node[phrase]], first_rewrite[node[phrase] + 1]):
            rewrite = rewrites[number]
            slot = target_index[rewrite & _MASK]
            while slot != _NONE:
                other = first + slot - _BUCKETS
                if node[other] == rewrite:
                    one, two = (other, phrase) if source_is_hypothesis else (phrase, other)
                    table, count = _append(table, count, start[one], length[one], start[two], length[two], PARAPHRASE)
                slot = target_index[slot]
    return table, count
