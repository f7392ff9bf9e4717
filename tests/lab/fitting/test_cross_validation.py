"""Nothing is judged by what was fitted on it."""

from __future__ import annotations

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.fitting.cross_validation import cross_validated


@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_photo_is_judged_by_what_was_fitted_without_it(count: int) -> None:
    fitted = cross_validated(range(count), frozenset)
    assert len(fitted) == count
    for photo, others in enumerate(fitted):
        assert photo not in others
        assert len(others) >= count // 2
    assert frozenset.union(*fitted) == set(range(count))


def test_one_photo_is_too_few() -> None:
    with pytest.raises(DataError, match="1 photo: cross-validation needs at least 2"):
        cross_validated([0], len)
