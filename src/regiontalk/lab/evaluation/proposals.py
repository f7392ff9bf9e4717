"""How many true boxes a set of proposals covers, whatever the captions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from regiontalk import boxes
from regiontalk.errors import DataError


def proposal_recall(
    truths_xyxy: Iterable[ArrayLike],
    proposals_xyxy: Iterable[ArrayLike],
    thresholds: Sequence[float] = (0.5, 0.7),
    counts: Sequence[int] = (100, 300),
) -> dict[str, dict[str, float]]:
    """Share of the true boxes with a proposal at IoU >= threshold, for the first `counts`
    proposals.

    Both are one (N, 4) array per image, proposals best first. The keys are texts, as in
    {"300": {"0.5": 0.95}}.
    """
    hits = np.zeros((len(counts), len(thresholds)))
    truths = 0
    for true_xyxy, proposed_xyxy in zip(truths_xyxy, proposals_xyxy, strict=True):
        overlap = boxes.iou(true_xyxy, proposed_xyxy)
        truths += len(overlap)
        for row, count in enumerate(counts):
            best = overlap[:, :count].max(axis=1, initial=0)
            hits[row] += [(best >= threshold).sum() for threshold in thresholds]
    if not truths:
        raise DataError("no true box to recall")
    names = [f"{threshold:g}" for threshold in thresholds]
    recalls = (hits / truths).tolist()
    return {
        str(count): dict(zip(names, row, strict=True))
        for count, row in zip(counts, recalls, strict=True)
    }
