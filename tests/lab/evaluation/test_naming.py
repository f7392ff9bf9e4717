"""Naming regions among a list of names."""

from __future__ import annotations

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.evaluation.naming import Named, evaluate_naming, named_regions, names_in

NAMES = [f"name {number}" for number in range(8)]


def ranked(name: str, rank: int) -> Named:
    """A region whose right name comes at this rank."""
    right = NAMES.index(name)
    others = iter([number for number in range(len(NAMES)) if number != right])
    order = [right if place == rank - 1 else next(others) for place in range(len(NAMES))]
    scores = np.zeros(len(NAMES))
    scores[order] = np.arange(len(NAMES), 0, -1)
    return Named(name, scores)


def test_shares_of_right_names() -> None:
    regions = [
        *(ranked("name 1", rank) for rank in (1, 1, 5, 6)),
        ranked("name 2", 2),
        Named("not in the list", np.ones(len(NAMES))),
    ]
    figures = evaluate_naming(regions, NAMES)
    assert figures["right"] == pytest.approx(100 * 2 / 6)
    assert figures["among_best_five"] == pytest.approx(100 * 4 / 6)
    assert figures["name_mean"] == pytest.approx((50 + 0 + 0) / 3)
    assert figures["regions"] == 6
    assert figures["names"] == 8


def test_a_tie_counts_against_the_right_name() -> None:
    figures = evaluate_naming([Named("name 1", np.zeros(len(NAMES)))], NAMES)
    assert figures["right"] == figures["among_best_five"] == 0


def test_regions_with_names() -> None:
    record = Record(
        "a.jpg",
        100,
        100,
        regions=(
            TrueRegion((0, 0, 10, 10), "cup", "object"),
            TrueRegion((0, 0, 50, 50), "dog", "object"),
            TrueRegion((0, 0, 100, 100), "park", "whole"),
            TrueRegion((0, 0, 50, 50), "a dog", "phrase"),
        ),
    )
    assert [region.phrase for region in named_regions(record, smallest=32)] == ["dog", "park"]
    assert names_in([record]) == ["cup", "dog", "park"]
    with pytest.raises(DataError, match="no region with a name"):
        names_in([])
    with pytest.raises(DataError, match="no region with a name"):
        evaluate_naming([], NAMES)
