"""Which matches METEOR takes: its beam search over the words of the reference.

Of two alignments the better one has more matched words (words of other than exact matches count
half, rounded down per match), then fewer chunks, then less distance. The jar's search has two
traits that decide ties and are kept here: a match's distance is charged to the paths made after it
from the same path, not to its own; and equal paths stay in the order in which they were made
(stable sorting).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk.lab.evaluation.meteor.arrays import (
    EXACT,
    EXTENT,
    LENGTH,
    MATCHER,
    PLACE,
    START,
    Alignments,
    Integers,
    Matches,
)
from regiontalk.lab.evaluation.meteor.compiled import compiled, compiled_once

BEAM = 40

# The columns of a table of paths, which are ordered by rising cost. A path's cost is one number:
# matched words (negative), then chunks, then distance. Then: where in the hypothesis the last match
# ends, or _NONE if a word was left out since; the first word of the reference after the last match;
# the last entry of the trail of matches taken; which words of the hypothesis are used, as bits of
# so many columns as it takes.
_COST, _END, _RESUME, _TRAIL, _USED = range(5)
_BITS = 32
_CHUNK = 1 << 28
_MATCHED_WORD = 1 << 40

# The columns of a table of candidates, paths to be made longer, by rising cost: cost, path, match
# to take.
_PATH = 1
_MATCH = 2
_NONE = -1
_WAIT = -2


@compiled_once
def align(
    matches: Matches, hypothesis_lengths: Integers, reference_lengths: Integers
) -> Alignments:
    """The matches that each pair takes; its sentences are of the lengths given."""
    first_match = matches.first_match
    rows = np.empty(len(matches.table), np.int64)
    count = 0
    first_row = np.zeros(len(first_match), np.int64)
    for pair in range(len(first_match) - 1):
        table = matches.table[first_match[pair] : first_match[pair + 1]]
        order = np.argsort(table[:, START], kind="mergesort")  # equal ones stay in their order
        taken = _without_rivals(table, hypothesis_lengths[pair], reference_lengths[pair])
        if not taken.all():
            taken = _search(table, order, taken, hypothesis_lengths[pair], reference_lengths[pair])
        for row in order:
            if taken[row]:
                rows[count] = first_match[pair] + row
                count += 1
        first_row[pair + 1] = count
    return Alignments(rows[:count].copy(), first_row)


@compiled
def _without_rivals(
    table: Integers, hypothesis_length: int, reference_length: int
) -> NDArray[np.bool_]:
    """The matches that share no word with another one."""
    uses = np.zeros((2, max(reference_length, hypothesis_length)), np.int64)
    for row in range(len(table)):
        for word in range(table[row, START], table[row, START] + table[row, LENGTH]):
            uses[0, word] += 1
        for word in range(table[row, PLACE], table[row, PLACE] + table[row, EXTENT]):
            uses[1, word] += 1
    alone = np.empty(len(table), np.bool_)
    for row in range(len(table)):
        alone[row] = True
        for word in range(table[row, START], table[row, START] + table[row, LENGTH]):
            alone[row] &= uses[0, word] == 1
        for word in range(table[row, PLACE], table[row, PLACE] + table[row, EXTENT]):
            alone[row] &= uses[1, word] == 1
    return alone


@compiled
def _search(
    table: Integers,
    order: Integers,
    fixed: NDArray[np.bool_],
    hypothesis_length: int,
    reference_length: int,
) -> NDArray[np.bool_]:
    """The matches on the best path."""
    first_at = np.searchsorted(table[:, START][order], np.arange(reference_length + 1))
    columns = _USED + (hypothesis_length + _BITS - 1) // _BITS
    paths = np.zeros((BEAM, columns), np.int64)
    longer_paths = np.empty((BEAM, columns), np.int64)
    paths[0, _END] = paths[0, _TRAIL] = _NONE
    candidates = np.empty((BEAM, 3), np.int64)
    trail = np.empty((BEAM * reference_length, 2), np.int64)  # the entry before, and the match
    entries = 0
    count = 1
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
    """Every path once with each match that is still free, and once without; the match without
    rivals is forced.

    A path inside a longer match waits.
    """
    added = 0
    for path in range(count):
        cost = paths[path, _COST]
        end = paths[path, _END]
        if paths[path, _RESUME] > position:
            added = _add(candidates, added, cost, path, _WAIT)
            continue
        for match in here:
            place = table[match, PLACE]
            if _is_free(paths, path, place, table[match, EXTENT]):
                is_new = end != _NONE and end != place  # noqa: PLR1714, numba has no `in`
                chunk = _CHUNK if is_new else 0
                added = _add(candidates, added, cost + chunk - _gain(table, match), path, match)
                cost += abs(position - place)
        if not forced:
            added = _add(candidates, added, cost if end == _NONE else cost + _CHUNK, path, _NONE)
    return added


@compiled
def _add(candidates: Integers, count: int, cost: int, path: int, match: int) -> int:
    """Inserted after those of the same cost; the last one goes when there are more than the beam
    holds."""
    if count == BEAM:
        if cost >= candidates[BEAM - 1, _COST]:
            return count
        count -= 1
    place = count
    while place > 0 and candidates[place - 1, _COST] > cost:
        for column in range(3):
            candidates[place, column] = candidates[place - 1, column]
        place -= 1
    candidates[place, _COST] = cost
    candidates[place, _PATH] = path
    candidates[place, _MATCH] = match
    return count + 1


@compiled
def _gain(table: Integers, match: int) -> int:
    if table[match, MATCHER] == EXACT:
        return 2 * _MATCHED_WORD
    return int(table[match, LENGTH] // 2 + table[match, EXTENT] // 2) * _MATCHED_WORD


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
        path = candidates[number, _PATH]
        match = candidates[number, _MATCH]
        for column in range(paths.shape[1]):
            longer_paths[number, column] = paths[path, column]
        longer_paths[number, _COST] = candidates[number, _COST]
        if match == _NONE:
            longer_paths[number, _END] = _NONE
        elif match != _WAIT:
            place = table[match, PLACE]
            extent = table[match, EXTENT]
            longer_paths[number, _END] = place + extent
            longer_paths[number, _RESUME] = table[match, START] + table[match, LENGTH]
            longer_paths[number, _TRAIL] = entries
            for word in range(place, place + extent):
                longer_paths[number, _USED + word // _BITS] |= 1 << word % _BITS
            trail[entries, 0] = paths[path, _TRAIL]
            trail[entries, 1] = match
            entries += 1
    return entries


@compiled
def _best(paths: Integers, count: int) -> int:
    """The first of the cheapest, after a match at the end has closed its chunk."""
    best = 0
    least = np.int64(0)
    for path in range(count):
        cost = paths[path, _COST] if paths[path, _END] == _NONE else paths[path, _COST] + _CHUNK
        if path == 0 or cost < least:
            best = path
            least = cost
    return best
