"""Naming regions among a list of names: whether the nearest name is the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from regiontalk.boxes import Floats
from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.names import objects_of

WHOLE = "whole"
"""The type of a region that names the whole photo."""
BEST_NAMES = 5


class Named(NamedTuple):
    """A region with a name, and how well each name of a list fits it."""

    name: str
    scores: Floats
    """(names,)"""


def named_regions(record: Record, smallest: float = 0.0) -> tuple[TrueRegion, ...]:
    """The regions of a record that have a name: objects of at least `smallest` × `smallest` pixels,
    and whole photos."""
    whole = (region for region in record.regions if region.type == WHOLE)
    return (*objects_of(record, smallest), *whole)


def names_in(records: Iterable[Record]) -> list[str]:
    """The names of the regions of these photos, by name."""
    names = sorted({region.phrase for record in records for region in named_regions(record)})
    if not names:
        raise DataError(
            "no region with a name", hint=f"regions of type 'object' or {WHOLE!r} have one"
        )
    return names


def evaluate_naming(regions: Iterable[Named], names: list[str]) -> dict[str, Any]:
    """Shares in percent: of regions whose best name is right, whose right name is among the best
    five, and the mean over the names of the first. A name that is not in the list is never
    right."""
    places = {name: index for index, name in enumerate(names)}
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    among_best = 0
    for region in regions:
        total[region.name] += 1
        if region.name not in places:
            continue
        better = int((region.scores >= region.scores[places[region.name]]).sum()) - 1
        right[region.name] += better == 0
        among_best += better < BEST_NAMES
    if not total:
        raise DataError("no region with a name")
    shares = [100 * right[name] / count for name, count in total.items()]
    return {
        "right": 100 * right.total() / total.total(),
        "among_best_five": 100 * among_best / total.total(),
        "name_mean": float(np.mean(shares)),
        "regions": total.total(),
        "names": len(names),
    }
