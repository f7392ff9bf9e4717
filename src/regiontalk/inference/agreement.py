"""Captions and names of the same regions, weighed against each other.

The language model and the table of names read the same code, and make different mistakes:

    p(caption is right) = σ(w · x + b)
    p(name is right)    = σ(v · x + c)

with x the features of a region's caption and name (`AGREEMENT_FEATURES`). Where the two disagree
and the name is clearly likelier right, the region is called by its name. `lab.fitting.agreement`
fits the numbers on regions whose names are known.

Shapes: R regions, N names of the table, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores, sigmoid
from regiontalk.inference.naming import name_probabilities
from regiontalk.inference.rank import texts
from regiontalk.inference.regions import RegionTable
from regiontalk.language.articles import as_caption
from regiontalk.language.head_nouns import named_classes
from regiontalk.language.object_names import plain_name
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.name_table import NameTable
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import AGREEMENT_FEATURES, Agreement

MIN_GAIN = 0.3
"""By how much a name must be likelier right to be said instead of a caption: captions say more ("a
brown dog"). Chosen on dev photos of Flickr8k by dense mAP (docs/model-log.md)."""
MIN_SAME_IOU = 0.5  # above it, two regions that name the same class are one thing
MIN_PROB = 0.002  # of a logit: beyond it, differences say little


def agree(runtime: Runtime, regions: RegionTable, max_words: int | None = None) -> RegionTable:
    """The regions with names and codes: each with the confidence of its caption or, if that is
    likelier right, called by its name, in at most `max_words` words. A limit of words does not
    change which regions are called by their names, but for long names."""
    fitted = runtime.info.prediction.agreement
    if fitted is None or runtime.names is None or not regions.names or regions.confidences is None:
        return regions
    values = features(regions, texts(regions, runtime.words), runtime.names)
    by_caption, by_name = probabilities(values, fitted)
    called = says_name(values, by_caption, by_name)
    if max_words is not None and regions.usual_captions:
        usual = replace(
            regions, captions=regions.usual_captions, confidences=regions.usual_confidences
        )
        called = np.array(agree(runtime, usual).called)
    if max_words is not None:
        lengths = [len(as_caption(plain_name(name.name)).split()) for name in regions.names]
        called &= np.array(lengths) <= max_words
    return replace(
        regions,
        confidences=np.where(called, by_name, by_caption),
        called=tuple(called.tolist()),
    )


def drop_same(regions: RegionTable, words: Vocabulary) -> RegionTable:
    """The regions without those that name the same class as a better region in about the same
    place, if one of the two is called by its name: "an umbrella" (a name) on "a red umbrella"."""
    if not any(regions.called):
        return regions
    classes = [frozenset(named_classes(text)) for text in texts(regions, words)]
    is_near = geometry.iou(regions.boxes_xyxy, regions.boxes_xyxy) > MIN_SAME_IOU
    called = np.array(regions.called)
    is_rival = is_near & (called[:, None] | called)
    kept: list[int] = []
    for row, named in enumerate(classes):
        if not any(is_rival[row, better] and named & classes[better] for better in kept):
            kept.append(row)
    return regions.take(np.array(kept, dtype=np.intp))


def features(regions: RegionTable, captions: Sequence[str], table: NameTable) -> Scores:
    """(R, F) in the order of `AGREEMENT_FEATURES`, of regions with names, confidences and codes."""
    assert regions.confidences is not None
    every = name_probabilities(regions.codes, table)  # (R, N)
    rows = []
    for row, (caption, name) in enumerate(zip(captions, regions.names, strict=True)):
        meant = table.meant_by(caption)
        noun = float(every[row, meant].sum())
        is_agreeing = not set(meant).isdisjoint(table.meant_by(name.name))
        rows.append(
            (
                _logit(float(regions.confidences[row])),
                _logit(name.probability),
                _logit(noun) if meant else 0.0,
                bool(meant),
                is_agreeing,
            )
        )
    return np.array(rows, dtype=np.float64).reshape(-1, len(AGREEMENT_FEATURES))


def agrees(values: Scores) -> NDArray[np.bool_]:
    """(R,) which captions and names mean the same, by their features (R, F)."""
    column: NDArray[np.bool_] = values[:, AGREEMENT_FEATURES.index("agrees")] > 0
    return column


def says_name(values: Scores, by_caption: Scores, by_name: Scores) -> NDArray[np.bool_]:
    """(R,) which regions are called by their name, by their features (R, F) and probabilities."""
    called: NDArray[np.bool_] = (by_name > by_caption + MIN_GAIN) & ~agrees(values)
    return called


def probabilities(values: Scores, fitted: Agreement) -> tuple[Scores, Scores]:
    """Features (R, F) -> how likely each caption is right, and each name."""
    by_caption = sigmoid((values * np.array(fitted.caption)).sum(axis=1) + fitted.caption_bias)
    by_name = sigmoid((values * np.array(fitted.name)).sum(axis=1) + fitted.name_bias)
    return by_caption, by_name


def _logit(probability: float) -> float:
    kept = min(max(probability, MIN_PROB), 1 - MIN_PROB)
    return float(np.log(kept / (1 - kept)))
