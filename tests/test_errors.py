from __future__ import annotations

import pytest

from regiontalk import errors
from regiontalk.errors import UsageError, check_range


def every_error() -> list[type[errors.RegionTalkError]]:
    found = [errors.RegionTalkError]
    for kind in found:
        found.extend(kind.__subclasses__())
    return [kind for kind in found if kind.__module__ == errors.__name__]


@pytest.mark.parametrize(
    ("kind", "exit_code", "http_status"),
    [
        (errors.RegionTalkError, 1, 500),
        (errors.UsageError, 2, 422),
        (errors.OutputError, 2, 507),
        (errors.DiskFull, 5, 507),
        (errors.SkippedInputs, 3, 422),
        (errors.InputError, 4, 422),
        (errors.ImageError, 4, 422),
        (errors.UnsupportedImage, 4, 415),
        (errors.ImageTooLarge, 4, 413),
        (errors.DataError, 4, 422),
        (errors.IndexProblem, 5, 503),
        (errors.ClusterProblem, 5, 503),
        (errors.ModelError, 6, 503),
        (errors.MissingExtra, 7, 501),
    ],
)
def test_exit_codes_and_http_statuses_are_promises(
    kind: type[errors.RegionTalkError], exit_code: int, http_status: int
) -> None:
    assert (kind.exit_code, kind.http_status) == (exit_code, http_status)


def test_the_table_above_names_every_error() -> None:
    parameters = test_exit_codes_and_http_statuses_are_promises.pytestmark[0].args[1]
    assert {row[0] for row in parameters} == set(every_error())


def test_an_error_carries_its_message_and_hint() -> None:
    error = errors.DataError("a.jsonl, line 3: not a record", hint="regiontalk data check a")
    assert str(error) == error.message == "a.jsonl, line 3: not a record"
    assert error.hint == "regiontalk data check a"
    assert errors.ImageError("x").hint is None


def test_a_missing_extra_carries_the_command() -> None:
    error = errors.MissingExtra("training needs torch", extra="train")
    assert error.hint == "pip install 'regiontalk[train]'"
    assert error.extra == "train"


class TestCheckRange:
    def test_values_within_and_none_pass(self) -> None:
        check_range(1, 5, low=1, high=5, absent=None)
        check_range(0, large=1e300)

    @pytest.mark.parametrize("value", [0, 6, float("nan"), float("inf")])
    def test_a_value_outside_is_named(self, value: float) -> None:
        with pytest.raises(UsageError, match=f"words is {value}; it must be from 1 to 5"):
            check_range(1, 5, words=value)

    @pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
    def test_without_an_upper_end(self, value: float) -> None:
        with pytest.raises(UsageError, match="it must be 0 or more"):
            check_range(0, words=value)
