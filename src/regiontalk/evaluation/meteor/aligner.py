"""Which matches METEOR takes: its beam search over the words of the reference.

Of two alignments the better one has more matched words (words of other than exact matches count half,
rounded down per match), then fewer chunks, then less distance. The jar's search has two traits that decide
ties and are kept here: a match's distance is charged to the paths made after it from the same path, not to
its own; and equal paths stay in the order in which they were made (stable sorting).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

from regiontalk.evaluation.meteor.lexicon import EXACT
from regiontalk.evaluation.meteor.matching import Match

BEAM = 40

# A path's cost is one number: matched words (negative), then chunks, then distance. All are whole, and exact
# in a float, which Python adds and sorts faster than integers of this size.
_CHUNK = 2.0**28
_MATCHED_WORD = 2.0**40
_NO_MATCH = -1

_Trail = tuple["_Trail", Match] | None
_Path = tuple[float, int, int, int, _Trail]
"""Cost; where in the hypothesis the last match ends; the hypothesis's words in use, as bits; the first word of
the reference after the last match; the matches taken."""
_cost = itemgetter(0)

_Choice = tuple[Match, float, int, int, int, int, float]
"""A match that a path may take: the match, what it gains, the hypothesis's words as bits, its start and end
in the hypothesis, its end in the reference, its distance."""
_Step = tuple[int, Sequence[_Choice], int, int]
"""A place of the reference and the choices there; or, without choices, a run of places where all paths do the
same. Such a run only matters by how it begins (a match at this start in the hypothesis) and ends."""


def align(found: Sequence[Sequence[Match]], hypothesis_length: int) -> list[Match]:
    """The matches taken, by their place in the reference."""
    matches = [match for here in found for match in here]
    fixed = _without_rivals(matches, len(found), hypothesis_length)
    if len(fixed) == len(matches):
        return matches
    return sorted(fixed + _search(_steps(found, {match[0]: match for match in fixed})))


def _without_rivals(matches: Sequence[Match], reference_length: int, hypothesis_length: int) -> list[Match]:
    """The matches that share no word with another one."""
    uses_reference = [0] * reference_length
    uses_hypothesis = [0] * hypothesis_length
    for start, length, place, extent, _ in matches:
        uses_reference[start] += 1
        uses_hypothesis[place] += 1
        if length > 1 or extent > 1:
            for word in range(start + 1, start + length):
                uses_reference[word] += 1
            for word in range(place + 1, place + extent):
                uses_hypothesis[word] += 1
    return [
        match
        for match in matches
        if uses_reference[match[0]] == 1 == uses_hypothesis[match[2]]
        and (match[1] == 1 or max(uses_reference[match[0] : match[0] + match[1]]) == 1)
        and (match[3] == 1 or max(uses_hypothesis[match[2] : match[2] + match[3]]) == 1)
    ]


def _steps(found: Sequence[Sequence[Match]], fixed: Mapping[int, Match]) -> list[_Step]:
    """Runs are kept apart word by word where a path may be inside a longer match."""
    joinable = all(match[1] == 1 for position, here in enumerate(found) if position not in fixed for match in here)
    steps: list[_Step] = []
    run: _Step | None = None
    position = 0
    while position < len(found):
        here = found[position]
        if here and position not in fixed:
            steps.append((position, [_choice(match) for match in here], 0, 0))
            run = None
            position += 1
            continue
        _, length, start, extent, _ = here[0] if here else (position, 1, _NO_MATCH, 0, EXACT)
        if run and joinable:
            run = steps[-1] = (run[0], (), run[2], start + extent)
        else:
            run = (position, (), start, start + extent)
            steps.append(run)
        position += length
    if not run or not joinable:
        steps.append((position, (), _NO_MATCH, _NO_MATCH))
    return steps


@lru_cache(1 << 16)
def _choice(match: Match) -> _Choice:
    start, length, place, extent, matcher = match
    gain = 2 if matcher == EXACT else length // 2 + extent // 2
    words = ((1 << extent) - 1) << place
    distance = float(abs(start - place))
    return match, gain * _MATCHED_WORD, words, place, place + extent, start + length, distance


def _search(steps: Sequence[_Step]) -> list[Match]:
    paths: list[_Path] = [(0.0, _NO_MATCH, 0, 0, None)]
    for step in steps:
        if len(paths) > 1:
            paths.sort(key=_cost)
            del paths[BEAM:]
        paths = _branch(paths, step) if step[1] else _go_on(paths, step)
    trail = min(paths, key=_cost)[4]
    taken: list[Match] = []
    while trail is not None:
        trail, match = trail
        taken.append(match)
    return taken


def _go_on(paths: list[_Path], step: _Step) -> list[_Path]:
    """All paths through a run; a path inside a longer match waits."""
    position, _, start, last = step
    return [
        (cost, end, words, resume, trail)
        if resume > position
        else (cost if end < 0 or end == start else cost + _CHUNK, last, words, 0, trail)
        for cost, end, words, resume, trail in paths
    ]


def _branch(paths: list[_Path], step: _Step) -> list[_Path]:
    """Every path once with each match that is still free, and once without."""
    position, choices, _, _ = step
    out: list[_Path] = []
    for path in paths:
        cost, end, words, resume, trail = path
        if resume > position:
            out.append(path)
            continue
        for match, gain, used, start, match_end, then, distance in choices:
            if not words & used:
                new_cost = cost - gain if end < 0 or end == start else cost - gain + _CHUNK
                out.append((new_cost, match_end, words | used, then, (trail, match)))
                cost += distance
        out.append((cost if end < 0 else cost + _CHUNK, _NO_MATCH, words, 0, trail))
    return out
