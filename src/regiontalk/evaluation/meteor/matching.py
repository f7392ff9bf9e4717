"""All matches between two sentences, in the order in which METEOR's matchers list them."""

from __future__ import annotations

from regiontalk.evaluation.meteor.lexicon import EXACT, PARAPHRASE, Sentence

Match = tuple[int, int, int, int, int]
"""Start and length in the reference, start and length in the hypothesis, matcher."""
Found = list[list[Match]]
"""For each word of the reference the matches that start there."""


def find_matches(hypothesis: Sentence, reference: Sentence) -> Found:
    """All matches. Equal sentences match exactly only."""
    found: Found = [[] for _ in reference.keys]
    if hypothesis.keys == reference.keys:
        _match_words(hypothesis, reference, found, exact_only=True)
    else:
        _match_words(hypothesis, reference, found)
        _match_phrases(hypothesis, reference, found)
    return found


def _match_words(hypothesis: Sentence, reference: Sentence, found: Found, exact_only: bool = False) -> None:
    for word, starts in reference.places.items():
        common = word.kin & hypothesis.words
        if not common:
            continue
        ranked = [
            (matcher, place)
            for other in common
            for matcher in word.matchers[other]
            for place in hypothesis.places[other]
            if matcher == EXACT or not exact_only
        ]
        if len(common) > 1:
            ranked.sort()
        for start in starts:
            found[start] = [(start, 1, place, 1, matcher) for matcher, place in ranked]


def _match_phrases(hypothesis: Sentence, reference: Sentence, found: Found) -> None:
    """First the paraphrases of the reference's phrases, then those of the hypothesis's.

    A pair that the table holds in both directions is listed twice, as in the jar, and so counts as ambiguous.
    """
    for start, length, _, place, extent in _rewritten(reference, hypothesis):
        found[start].append((start, length, place, extent, PARAPHRASE))
    for place, extent, _, start, length in _rewritten(hypothesis, reference):
        found[start].append((start, length, place, extent, PARAPHRASE))


def _rewritten(source: Sentence, target: Sentence) -> list[tuple[int, int, int, int, int]]:
    """Start and length in `source`, rank of the paraphrase, start and length in `target`; sorted."""
    out: list[tuple[int, int, int, int, int]] = []
    for phrase in source.sources:
        if phrase.rewrites.isdisjoint(target.phrases):
            continue
        for rewrite in phrase.rewrites & target.phrases:
            out += [
                (start, phrase.length, phrase.ranks[rewrite], place, rewrite.length)
                for start in source.starts[phrase]
                for place in target.starts[rewrite]
            ]
    out.sort()
    return out
