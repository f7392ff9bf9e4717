"""docs/recipe-keys.md is made from the code, and says something of every key."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from docstrings import field_docstrings
from recipe_keys import KINDS, PAGE, RECIPES, keys, render, table_of

TABLES = {config for _, tables in KINDS.values() for _, config in tables}


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "python docs/recipe_keys.py"


@pytest.mark.parametrize("config", sorted(TABLES, key=lambda kind: kind.__name__))
def test_every_key_is_explained(config: type) -> None:
    explained = field_docstrings(config)
    assert [item.name for item in keys(config) if not explained.get(item.name)] == []


def configurations(config: type) -> set[type]:
    """A configuration and those inside it."""
    inside = {config}
    for kind in typing.get_type_hints(config).values():
        for part in (kind, *typing.get_args(kind)):
            if dataclasses.is_dataclass(part):
                inside |= configurations(typing.cast(type, part))
    return inside


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_table_of_a_recipe_is_left_out(recipe: type) -> None:
    """Weights that `fit` sets are no keys; those of a joint recipe are all tables."""
    shown = {base for table in TABLES for base in table.__mro__}
    missing = {kind.__name__ for kind in configurations(recipe) - shown}
    assert missing <= {"Ranking", "Confidence", "Agreement", "FindConfig", "JointRecipe"}


def test_a_row_has_the_default_and_the_choices() -> None:
    @dataclass(frozen=True)
    class Config:
        count: int
        """How many there are, of
        two lines."""
        kind: Literal["a", "b"] = "a"
        """What it is."""
        values: tuple[int, ...] = (1, 2)
        """Numbers."""
        other: str | None = None
        """Some text | with a bar."""

    Config.__annotations__ = typing.get_type_hints(Config, localns={"Literal": Literal})
    rows: list[Any] = table_of(Config).splitlines()[2:]
    assert rows == [
        "| `count` | required | How many there are, of two lines. |",
        '| `kind` | `"a"` | What it is. `"a"`, `"b"`. |',
        "| `values` | `[1, 2]` | Numbers. |",
        "| `other` | none | Some text \\| with a bar. |",
    ]
