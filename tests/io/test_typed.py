"""Plain values become typed ones, or what is wrong is named in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from regiontalk.errors import DataError, UsageError
from regiontalk.io.typed import WithMore, to_dataclass


@dataclass(frozen=True)
class Inner:
    size: int = 3
    rate: float | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    box: tuple[float, float] = (0.0, 0.0)
    inner: Inner = field(default_factory=Inner)
    many: tuple[Inner, ...] = ()
    table: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None
    switch: bool = False

    def __post_init__(self) -> None:
        if self.name == "nobody":
            raise UsageError("nobody has no name")


@dataclass(frozen=True)
class Open(WithMore):
    name: str


class TestDataclass:
    def test_plain_values_become_typed_ones(self) -> None:
        data = {
            "name": "x",
            "box": [1, 2.5],
            "inner": {"rate": 1},
            "many": [{}, {"size": 4}],
            "table": {"a": 1},
        }
        wanted = Outer(
            "x", (1.0, 2.5), Inner(rate=1.0), (Inner(), Inner(4)), {"a": 1}, [None], True
        )
        assert to_dataclass(Outer, data | {"anything": [None], "switch": True}, "here") == wanted

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"colour": 1}, "unknown key 'colour' (known: name,"),
            ({"inner": {"colour": 1}}, "inner: unknown key 'colour'"),
            ({"name": 3}, "name: 3 is not of type str"),
            ({"name": None}, "name: None is not of type str"),
            ({"name": "nobody"}, "nobody has no name"),
            ({"inner": []}, "inner: [] is not of type dict"),
            ({"inner": {"size": 3.0}}, "inner.size: 3.0 is not of type int"),
            ({"inner": {"size": True}}, "inner.size: True is not of type int"),
            ({"inner": {"rate": "1"}}, "inner.rate: '1' is not a finite number"),
            ({"inner": {"rate": True}}, "inner.rate: True is not a finite number"),
            ({"inner": {"rate": float("nan")}}, "inner.rate: nan is not a finite number"),
            ({"inner": {"rate": float("inf")}}, "inner.rate: inf is not a finite number"),
            ({"inner": {"rate": 10**400}}, "inner.rate: 1000"),
            ({"many": [{}, {"size": "x"}]}, "many[1].size: 'x' is not of type int"),
            ({"many": {}}, "many: {} is not a list"),
            ({"box": [1]}, "box: [1] is not a list of 2 values"),
            ({"box": "12"}, "box: '12' is not a list"),
            ({"table": {"a": "b"}}, "table.a: 'b' is not of type int"),
            ({"switch": 1}, "switch: 1 is not of type bool"),
        ],
    )
    def test_what_is_wrong_is_named_in_one_line(self, change: dict[str, Any], said: str) -> None:
        with pytest.raises(UsageError) as caught:
            to_dataclass(Outer, {"name": "x"} | change, "recipe.toml", UsageError)
        assert caught.value.message.startswith(f"recipe.toml: {said}")
        assert len(caught.value.message) < 200
        assert "\n" not in caught.value.message

    def test_a_missing_key_is_named(self) -> None:
        with pytest.raises(DataError, match=r"^here: 'name' is missing$"):
            to_dataclass(Outer, {}, "here")

    def test_unknown_keys_may_have_a_place(self) -> None:
        assert to_dataclass(Open, {"name": "x", "a": 1, "more": 2}, "") == Open(
            "x", more={"a": 1, "more": 2}
        )
