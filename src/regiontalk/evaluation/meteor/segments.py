"""METEOR's inner loops: the score of each segment, that is of a hypothesis and its references.

All matches between a hypothesis and a reference are listed, a beam search takes some of them, and these give the score.
It is all in one file because of what numba does not notice (see `compiled`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk.evaluation.meteor.arrays import Integers, Paraphrases, Phrases, Questions, Sentences, Words
from regiontalk.evaluation.meteor.compiled import compiled, compiled_once

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)  # the matchers

# The columns of a table of matches: start and length in the reference, start and length in the hypothesis, matcher.
_START, _LENGTH, _PLACE, _EXTENT, _MATCHER = range(5)

# What a score is computed from is a row of numbers, its statistics: of the hypothesis the length, the function words,
# the matched content words by matcher, and the matched function words by matcher; the same of the reference; chunks.
# Those of a corpus are the sum.
_HYPOTHESIS, _REFERENCE, _CHUNKS, _COLUMNS = 0, 10, 20, 21
_WORDS, _FUNCTION_WORDS, _MATCHED = 0, 1, 2  # of a side, the ten columns of hypothesis or reference

# Denkowski & Lavie 2014, "Meteor Universal", section 2, with the parameters tuned for English ranking.
ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
WEIGHTS = (1.0, 0.6, 0.8, 0.6)  # exact, stem, synonym, paraphrase

_NONE = -1


@compiled_once
def best_references(
    questions: Questions, sentences: Sentences, words: Words, phrases: Phrases, paraphrases: Paraphrases
) -> tuple[NDArray[np.float64], Integers]:
    """Score and statistics of each hypothesis with the first of its best-scoring references."""
    first_reference = questions.first_reference
    scores = np.full(len(questions.hypotheses), -1.0)
    statistics = np.empty((len(questions.hypotheses), _COLUMNS), np.int64)
    for question in range(len(questions.hypotheses)):
        hypothesis = questions.hypotheses[question]
        own = _part(sentences.words, sentences.first_word, hypothesis)
        for reference in questions.references[first_reference[question] : first_reference[question + 1]]:
            others = _part(sentences.words, sentences.first_word, reference)
            matches = find_matches(hypothesis, reference, sentences, words, phrases, paraphrases)
            row = statistics_of(align(matches, len(own), len(others)), own, others, words)
            score = _score(row)
            if score > scores[question]:
                scores[question], statistics[question] = score, row
    return scores, statistics


@compiled_once
def corpus_score(statistics: Integers) -> float:
    """From the sum of all rows; a perfect segment adds no chunk."""
    total = np.zeros(_COLUMNS, np.int64)
    for row in statistics:
        total += row
        if _is_perfect(row):
            total[_CHUNKS] -= row[_CHUNKS]
    return _score(total)


@compiled
def _part(values: Integers, first: Integers, owner: int) -> Integers:
    return values[first[owner] : first[owner + 1]]


# -- all matches ---------------------------------------------------------------------------------------------

# Words are compared by Java's 32-bit string hash, as the jar does, so that its rare collisions ("an" and "c0") match
# here too.

_BUCKETS = 256
_MASK = _BUCKETS - 1


@compiled_once
def find_matches(
    hypothesis: int, reference: int, sentences: Sentences, words: Words, phrases: Phrases, paraphrases: Paraphrases
) -> Integers:
    """A table of matches, listed as METEOR's matchers do: by matcher, then by the source's words.

    Equal sentences match exactly only.
    """
    own = _part(sentences.words, sentences.first_word, hypothesis)
    others = _part(sentences.words, sentences.first_word, reference)
    table, count = _match_words(np.empty((64, 5), np.int64), 0, EXACT, own, others, words)
    if not np.array_equal(words.key[own], words.key[others]):
        table, count = _match_words(table, count, STEM, own, others, words)
        table, count = _match_words(table, count, SYNONYM, own, others, words)
        # A pair that the paraphrase table holds in both directions is listed twice, as in the jar, and so counts as
        # ambiguous.
        table, count = _match_rewrites(table, count, reference, hypothesis, phrases, paraphrases, False)
        table, count = _match_rewrites(table, count, hypothesis, reference, phrases, paraphrases, True)
    return table[:count]


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
    phrases: Phrases,
    paraphrases: Paraphrases,
    source_is_hypothesis: bool,
) -> tuple[Integers, int]:
    """By start and length of the source's phrase, then in the order of its paraphrases, then by start."""
    node, start, length = phrases.node, phrases.start, phrases.length
    first_rewrite, rewrites = paraphrases.first_rewrite, paraphrases.rewrites
    first = phrases.first_phrase[target]
    target_index = _index(_part(node, phrases.first_phrase, target))
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


# -- those that are taken ------------------------------------------------------------------------------------

# Of two alignments the better one has more matched words (words of other than exact matches count half, rounded down
# per match), then fewer chunks, then less distance. The jar's search has two traits that decide ties and are kept here:
# a match's distance is charged to the paths made after it from the same path, not to its own; and equal paths stay in
# the order in which they were made (stable sorting).

BEAM = 40

# The columns of a table of paths, which are ordered by rising cost. A path's cost is one number: matched words
# (negative), then chunks, then distance. Then: where in the hypothesis the last match ends, or _NONE if a word was
# left out since; the first word of the reference after the last match; the last entry of the trail of matches
# taken; which words of the hypothesis are used, as bits of so many columns as it takes.
_COST, _END, _RESUME, _TRAIL, _USED = range(5)
_BITS = 32
_CHUNK_COST = 1 << 28
_WORD_GAIN = 1 << 40

# The columns of a table of candidates, paths to be made longer, by rising cost: cost, path, match to take.
_PATH, _MATCH = 1, 2
_WAIT = -2


@compiled_once
def align(table: Integers, hypothesis_length: int, reference_length: int) -> Integers:
    """The matches that are taken, by their start in the reference: a beam search over the words of the reference."""
    order = np.argsort(table[:, _START], kind="mergesort")  # equal ones stay in their order
    taken = _without_rivals(table, hypothesis_length, reference_length)
    if not taken.all():
        taken = _search(table, order, taken, hypothesis_length, reference_length)
    return table[order[taken[order]]]


@compiled
def _without_rivals(table: Integers, hypothesis_length: int, reference_length: int) -> NDArray[np.bool_]:
    """The matches that share no word with another one."""
    uses = np.zeros((2, max(reference_length, hypothesis_length)), np.int64)
    for row in range(len(table)):
        for word in range(table[row, _START], table[row, _START] + table[row, _LENGTH]):
            uses[0, word] += 1
        for word in range(table[row, _PLACE], table[row, _PLACE] + table[row, _EXTENT]):
            uses[1, word] += 1
    alone = np.empty(len(table), np.bool_)
    for row in range(len(table)):
        alone[row] = True
        for word in range(table[row, _START], table[row, _START] + table[row, _LENGTH]):
            alone[row] &= uses[0, word] == 1
        for word in range(table[row, _PLACE], table[row, _PLACE] + table[row, _EXTENT]):
            alone[row] &= uses[1, word] == 1
    return alone


@compiled
def _search(
    table: Integers, order: Integers, fixed: NDArray[np.bool_], hypothesis_length: int, reference_length: int
) -> NDArray[np.bool_]:
    """The matches on the best path."""
    first_at = np.searchsorted(table[:, _START][order], np.arange(reference_length + 1))
    columns = _USED + (hypothesis_length + _BITS - 1) // _BITS
    paths, longer_paths = np.zeros((BEAM, columns), np.int64), np.empty((BEAM, columns), np.int64)
    paths[0, _END] = paths[0, _TRAIL] = _NONE
    candidates = np.empty((BEAM, 3), np.int64)
    trail = np.empty((BEAM * reference_length, 2), np.int64)  # the entry before, and the match
    entries, count = 0, 1
    for position in range(reference_length):
        here = order[first_at[position] : first_at[position + 1]]
        forced = len(here) == 1 and fixed[here[0]]
        count = _find_candidates(candidates, paths, count, position, table, here, forced)
        entries = _lengthen(candidates, count, paths, longer_paths, table, trail, entries)
        paths, longer_paths = longer_paths, paths
    chosen = fixed.copy()
    entry = paths[_best(paths, count), _TRAIL]
    while entry != _NONE:
        chosen[trail[entry, 1]] = True
        entry = trail[entry, 0]
    return chosen


@compiled
def _find_candidates(
    candidates: Integers,
    paths: Integers,
    count: int,
    position: int,
    table: Integers,
    here: Integers,
    forced: bool,
) -> int:
    """Every path once with each match that is still free, and once without; the match without rivals is forced.

    A path inside a longer match waits.
    """
    found = 0
    for path in range(count):
        cost, end = paths[path, _COST], paths[path, _END]
        if paths[path, _RESUME] > position:
            found = _add(candidates, found, cost, path, _WAIT)
            continue
        for match in here:
            place = table[match, _PLACE]
            if _is_free(paths, path, place, table[match, _EXTENT]):
                chunk = _CHUNK_COST if end != _NONE and end != place else 0  # noqa: PLR1714, numba has no `in`
                found = _add(candidates, found, cost + chunk - _gain(table, match), path, match)
                cost += abs(position - place)
        if not forced:
            found = _add(candidates, found, cost if end == _NONE else cost + _CHUNK_COST, path, _NONE)
    return found


@compiled
def _add(candidates: Integers, found: int, cost: int, path: int, match: int) -> int:
    """Inserted after those of the same cost; the last one goes when there are more than the beam holds."""
    if found == BEAM:
        if cost >= candidates[BEAM - 1, _COST]:
            return found
        found -= 1
    place = found
    while place > 0 and candidates[place - 1, _COST] > cost:
        for column in range(3):
            candidates[place, column] = candidates[place - 1, column]
        place -= 1
    candidates[place, _COST], candidates[place, _PATH], candidates[place, _MATCH] = cost, path, match
    return found + 1


@compiled
def _gain(table: Integers, match: int) -> int:
    if table[match, _MATCHER] == EXACT:
        return 2 * _WORD_GAIN
    return int(table[match, _LENGTH] // 2 + table[match, _EXTENT] // 2) * _WORD_GAIN


@compiled
def _is_free(paths: Integers, path: int, place: int, extent: int) -> bool:
    used = 0
    for word in range(place, place + extent):
        used |= paths[path, _USED + word // _BITS] >> word % _BITS & 1
    return used == 0


@compiled
def _lengthen(
    candidates: Integers,
    count: int,
    paths: Integers,
    longer_paths: Integers,
    table: Integers,
    trail: Integers,
    entries: int,
) -> int:
    """Makes the candidates' paths; returns the number of entries in the trail."""
    for number in range(count):
        path, match = candidates[number, _PATH], candidates[number, _MATCH]
        for column in range(paths.shape[1]):
            longer_paths[number, column] = paths[path, column]
        longer_paths[number, _COST] = candidates[number, _COST]
        if match == _NONE:
            longer_paths[number, _END] = _NONE
        elif match != _WAIT:
            place, extent = table[match, _PLACE], table[match, _EXTENT]
            longer_paths[number, _END] = place + extent
            longer_paths[number, _RESUME] = table[match, _START] + table[match, _LENGTH]
            longer_paths[number, _TRAIL] = entries
            for word in range(place, place + extent):
                longer_paths[number, _USED + word // _BITS] |= 1 << word % _BITS
            trail[entries, 0], trail[entries, 1] = paths[path, _TRAIL], match
            entries += 1
    return entries


@compiled
def _best(paths: Integers, count: int) -> int:
    """The first of the cheapest, after a match at the end has closed its chunk."""
    best, least = 0, np.int64(0)
    for path in range(count):
        cost = paths[path, _COST] if paths[path, _END] == _NONE else paths[path, _COST] + _CHUNK_COST
        if path == 0 or cost < least:
            best, least = path, cost
    return best


# -- their score ---------------------------------------------------------------------------------------------

# The order of the floating-point operations is the jar's.


@compiled_once
def statistics_of(taken: Integers, own: Integers, others: Integers, words: Words) -> Integers:
    """The statistics of an alignment of the hypothesis's words with the reference's."""
    row = np.zeros(_COLUMNS, np.int64)
    _count_words(row[_HYPOTHESIS:_REFERENCE], own, words, taken, _PLACE, _EXTENT)
    _count_words(row[_REFERENCE:_CHUNKS], others, words, taken, _START, _LENGTH)
    next_start, next_place = -1, -1
    for match in taken:  # a chunk is a run of matches that follow each other in both sentences
        row[_CHUNKS] += match[_START] != next_start or match[_PLACE] != next_place
        next_start, next_place = match[_START] + match[_LENGTH], match[_PLACE] + match[_EXTENT]
    return row


@compiled
def _count_words(side: Integers, own: Integers, words: Words, taken: Integers, start: int, length: int) -> None:
    """`start` and `length` are the columns of the table that belong to this side."""
    is_function_word = words.is_function_word
    side[_WORDS] = len(own)
    for word in own:
        side[_FUNCTION_WORDS] += is_function_word[word]
    for match in taken:
        for place in range(match[start], match[start] + match[length]):
            side[_MATCHED + 4 * is_function_word[own[place]] + match[_MATCHER]] += 1


@compiled
def _score(row: Integers) -> float:
    """Weighted F-mean of precision and recall times one minus the fragmentation penalty."""
    hypothesis, reference = row[_HYPOTHESIS:_REFERENCE], row[_REFERENCE:_CHUNKS]
    matched, matched_reference = hypothesis[_MATCHED:].sum(), reference[_MATCHED:].sum()
    if matched == 0 or matched_reference == 0:
        return 0.0
    precision, recall = _weighted_share(hypothesis), _weighted_share(reference)
    fragmentation = 0.0 if _is_perfect(row) else row[_CHUNKS] / ((matched + matched_reference) / 2.0)
    f_mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
    return max(float(f_mean * (1.0 - GAMMA * fragmentation**BETA)), 0.0)


@compiled
def _is_perfect(row: Integers) -> bool:
    hypothesis, reference = row[_HYPOTHESIS:_REFERENCE], row[_REFERENCE:_CHUNKS]
    return bool(
        row[_CHUNKS] == 1
        and hypothesis[_MATCHED:].sum() == hypothesis[_WORDS]
        and reference[_MATCHED:].sum() == reference[_WORDS]
    )


@compiled
def _weighted_share(side: Integers) -> float:
    """Weighted matches / weighted length."""
    matches = 0.0
    for matcher in range(4):
        matches += side[_MATCHED + matcher] * WEIGHTS[matcher] * DELTA
    for matcher in range(4):
        matches += side[_MATCHED + 4 + matcher] * WEIGHTS[matcher] * (1.0 - DELTA)
    function_words = side[_FUNCTION_WORDS]
    return float(matches / (DELTA * (side[_WORDS] - function_words) + (1.0 - DELTA) * function_words))
