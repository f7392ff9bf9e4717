"""Two figures that the truth gives away about itself, to read an mAP against.

Both are on the truth's own boxes: the best caption that never changes, and what one person says judged by
the others. The first shows how much of a figure is worth nothing, the second how much can be hoped for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from regiontalk.evaluation.average_precision import Pool, Rules, curves, mean_strict
from regiontalk.evaluation.language import Pair, SentenceScorer, score_once
from regiontalk.evaluation.merged_truth import TruthImage

CANDIDATES = 30  # most frequent phrases that may be the best constant caption
SAMPLE = 2000  # truths on which they are compared

References = Sequence[str]


def measure_yardsticks(truths: Iterable[TruthImage], scorer: SentenceScorer, rules: Rules) -> dict[str, dict[str, Any]]:
    """`constant` and `human`, each with `map` and `map_strict`."""
    ordered = sorted(truths, key=lambda truth: truth.path)
    references = [more for truth in ordered for more in truth.references]
    out: dict[str, dict[str, Any]] = {}
    constant = best_constant_caption(references, scorer, rules)
    if constant is not None:
        out["constant"] = {"caption": constant} | _on_true_boxes(
            [(constant, more) for more in references], scorer, rules
        )
    left_out = leave_one_out(references)
    if left_out:
        out["human"] = {"truths": len(left_out)} | _on_true_boxes(left_out, scorer, rules)
    return out


def leave_one_out(references: Sequence[References]) -> list[Pair]:
    """One reference of each truth that has several, against the others; which one goes round by turns."""
    several = [more for more in references if len(more) > 1]
    turns = [(more, number % len(more)) for number, more in enumerate(several)]
    return [(more[turn], [*more[:turn], *more[turn + 1 :]]) for more, turn in turns]


def best_constant_caption(references: Sequence[References], scorer: SentenceScorer, rules: Rules) -> str | None:
    """The frequent phrase that does best on a sample of the truths."""
    counts = Counter(one.lower() for more in references for one in more)
    sample = references[:: max(1, len(references) // SAMPLE)]
    candidates = sorted(counts, key=lambda phrase: (-counts[phrase], phrase))[:CANDIDATES]
    return max(
        candidates,
        key=lambda phrase: _on_true_boxes([(phrase, more) for more in sample], scorer, rules)["map"],
        default=None,
    )


def _on_true_boxes(pairs: Sequence[Pair], scorer: SentenceScorer, rules: Rules) -> dict[str, float]:
    """The figures of captions given to the truths' own boxes, all equally sure."""
    answered = [n for n, (_, references) in enumerate(pairs) if references]
    language = np.zeros(len(pairs))
    language[answered] = score_once(scorer, [pairs[n] for n in answered])
    ap = curves(Pool(np.ones(len(pairs)), language, len(pairs)), rules)[:, 1:].mean(axis=2)
    return {"map": float(ap.mean()), "map_strict": mean_strict(ap)}
