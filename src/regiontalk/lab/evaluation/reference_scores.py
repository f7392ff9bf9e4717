"""Two scores to read an mAP against, computed from the truth alone, on its own boxes.

`constant`: the best single caption for all regions; a model must be better than this. `human`: one
person's phrases scored against the other people's; about the best that a model can reach.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from regiontalk.lab.data.merged_truth import TruthImage
from regiontalk.lab.evaluation.average_precision import Pool, Rules, curves, mean_strict
from regiontalk.lab.evaluation.language import Pair, SentenceScorer, score_once

MAX_CANDIDATES = 30  # most frequent phrases that may be the best constant caption
MAX_COMPARED_TRUTHS = 2000  # truths on which they are compared

References = Sequence[str]


def measure_references(
    truths: Iterable[TruthImage], scorer: SentenceScorer, rules: Rules
) -> dict[str, dict[str, Any]]:
    """`constant` and `human`, each with `map` and `map_strict`."""
    ordered = sorted(truths, key=lambda truth: truth.path)
    references = list(chain.from_iterable(truth.references for truth in ordered))
    out: dict[str, dict[str, Any]] = {}
    constant = best_constant_caption(references, scorer, rules)
    if constant is not None:
        out["constant"] = {"caption": constant} | _on_true_boxes(
            [(constant, more) for more in references], scorer, rules
        )
    held_out = leave_one_out(references)
    if held_out:
        out["human"] = {"truths": len(held_out)} | _on_true_boxes(held_out, scorer, rules)
    return out


def label(name: str, values: Mapping[str, Any]) -> str:
    """What a reference score is called in tables."""
    return f"“{values['caption']}” everywhere" if name == "constant" else "a held-out person"


def leave_one_out(references: Sequence[References]) -> list[Pair]:
    """Compares one reference of each truth that has several with the others: the first, the second,
    … in turn."""
    several = [more for more in references if len(more) > 1]
    turns = [(more, number % len(more)) for number, more in enumerate(several)]
    return [(more[turn], [*more[:turn], *more[turn + 1 :]]) for more, turn in turns]


def best_constant_caption(
    references: Sequence[References], scorer: SentenceScorer, rules: Rules
) -> str | None:
    """The frequent phrase that does best on a sample of the truths."""
    phrases = chain.from_iterable(references)
    counts = Counter(phrase.lower() for phrase in phrases)
    sample = references[:: max(1, len(references) // MAX_COMPARED_TRUTHS)]
    candidates = sorted(counts, key=lambda phrase: (-counts[phrase], phrase))[:MAX_CANDIDATES]
    return max(
        candidates,
        key=lambda phrase: _on_true_boxes([(phrase, more) for more in sample], scorer, rules)[
            "map"
        ],
        default=None,
    )


def _on_true_boxes(pairs: Sequence[Pair], scorer: SentenceScorer, rules: Rules) -> dict[str, float]:
    """mAP of captions on the truths' own boxes, all with the same score."""
    answered = [n for n, (_, references) in enumerate(pairs) if references]
    language = np.zeros(len(pairs))
    language[answered] = score_once(scorer, [pairs[n] for n in answered])
    ap = curves(Pool(np.ones(len(pairs)), language, len(pairs)), rules)[:, 1:].mean(axis=2)
    return {"map": float(ap.mean()), "map_strict": mean_strict(ap)}
