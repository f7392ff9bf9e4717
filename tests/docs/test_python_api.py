"""docs/python-api.md has every public name of the package, with the signatures and defaults that
the code has."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import regiontalk
from regiontalk import errors
from regiontalk.errors import RegionTalkError
from regiontalk.inference.regions import Look, RegionTable
from regiontalk.model import Model
from regiontalk.search.index import Index

PAGE = (Path(__file__).parents[2] / "docs" / "python-api.md").read_text(encoding="utf-8")
RESULTS = [
    kind for kind in map(vars(regiontalk).get, regiontalk.__all__) if dataclasses.is_dataclass(kind)
]


class SomeFunction:
    """Stands for a default that is a function."""

    def __repr__(self) -> str:
        return "…"


def public_names(kind: type) -> list[str]:
    of_a_sequence = {"count", "index"} if issubclass(kind, Sequence) else set()
    return [name for name in dir(kind) if not name.startswith("_") and name not in of_a_sequence]


def signature(function: Callable[..., Any]) -> str:
    """Without types, and with double quotes."""
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        default = SomeFunction() if inspect.isfunction(parameter.default) else parameter.default
        shown.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
    kept = [parameter for parameter in shown if parameter.name not in ("self", "cls")]
    return str(inspect.Signature(kept)).replace("''", '""')


def members(kind: type, value: str) -> list[str]:
    """Public methods with signatures, and properties; `value` is what the page calls an object of
    the class."""
    out = []
    for name in public_names(kind):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, classmethod):
            out.append(f"{kind.__name__}.{name}{signature(member.__func__)}")
        elif inspect.isfunction(member):
            out.append(f"{value}.{name}{signature(member)}")
        elif isinstance(member, property):
            out.append(f"{value}.{name}")
    return out


def cells(row: str) -> list[str]:
    """Of the row of a table that begins with `row`."""
    (line,) = re.findall(rf"^\| `{row}` \| (.*) \|$", PAGE, re.MULTILINE)
    return [cell.strip() for cell in line.split(" | ")]


def options(heading: str) -> list[str]:
    """The names in the first column of the tables under a heading."""
    text = re.split(r"^#+ ", PAGE.split(f"# `{heading}", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    firsts = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
    return [name for first in firsts for name in re.findall(r"\w+", first)]


def test_every_public_name_is_there() -> None:
    assert [
        name for name in regiontalk.__all__ if not name.startswith("_") and name not in PAGE
    ] == []


def test_a_call_of_load_and_of_a_model_has_its_signature() -> None:
    assert f"## `regiontalk.load{signature(regiontalk.load)}`" in PAGE
    assert f"## `model{signature(Model.__call__)}`" in PAGE


@pytest.mark.parametrize(("kind", "value"), [(Model, "model"), (Index, "index")])
def test_every_method_has_its_signature(kind: type, value: str) -> None:
    assert [member for member in members(kind, value) if f"`{member}`" not in PAGE] == []


@pytest.mark.parametrize(
    ("heading", "function", "told_in_the_text"),
    [
        ("regiontalk.load(", regiontalk.load, set()),
        ("model(", Model.__call__, {"photo"}),
        ("model.describe(", Model.describe, {"photo"}),
        ("Index.open(", Index.open, {"folder"}),
        ("index.update(", Index.update, set()),
        ("index.search(", Index.search, {"query"}),
    ],
)
def test_every_option_has_a_row(
    heading: str, function: Callable[..., Any], told_in_the_text: set[str]
) -> None:
    taken = set(inspect.signature(function).parameters) - {"self"} - told_in_the_text
    assert sorted(options(heading)) == sorted(taken)


def test_every_field_of_a_look_has_a_row() -> None:
    properties = [name for name in vars(Look) if isinstance(vars(Look)[name], property)]
    assert options("model.look(") == [*Look._fields, *properties]


def test_every_column_of_a_table_of_regions_has_a_row() -> None:
    columns = [column.name for column in dataclasses.fields(RegionTable)]
    assert options("RegionTable") == columns


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_field_and_method_of_a_result_is_listed(kind: type) -> None:
    fields, methods = cells(kind.__name__)
    own = kind.__base__ if "those of" in fields else None
    inherited = {field.name for field in dataclasses.fields(own)} if own else set()  # type: ignore[arg-type]
    listed = re.findall(r"`([a-z]\w*)`", re.sub(r"\([^)]*\)", "", fields))
    assert sorted(listed) == sorted({field.name for field in dataclasses.fields(kind)} - inherited)
    if own is None:
        functions = [name for name in public_names(kind) if inspect.isfunction(getattr(kind, name))]
        assert sorted(re.findall(r"`(\w+\([^`]*\))`", methods)) == sorted(
            f"{name}{signature(getattr(kind, name))}" for name in functions
        )


def test_every_error_has_its_exit_code() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| (\d) \|", PAGE, re.MULTILINE))
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, RegionTalkError)
    ]
    assert listed == {
        kind.__name__: str(kind.exit_code) for kind in kinds if kind is not RegionTalkError
    }
    for kind in kinds:
        (parent,) = kind.__bases__
        if parent not in (Exception, RegionTalkError):
            assert re.search(
                rf"^\| `{kind.__name__}` .*; an? `{parent.__name__}` \|$", PAGE, re.MULTILINE
            ), kind
