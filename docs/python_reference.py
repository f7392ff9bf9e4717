"""Writes docs/python-reference.md: the public functions, classes, results and errors of the package,
with the signatures and docstrings that they have in the code.

python docs/python_reference.py             write the page
python docs/python_reference.py --check     write nothing; fail if the page is out of date
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from docstrings import field_docstrings, one_line
from markdown_page import markdown_table, page, write_or_check

import regiontalk
from regiontalk import errors, results
from regiontalk.errors import RegionTalkError
from regiontalk.inference.regions import Look, RegionTable
from regiontalk.model import Model
from regiontalk.search.build import Update
from regiontalk.search.index import Index

PAGE = Path(__file__).with_name("python-reference.md")
INTRO = """\
# Python reference

Written by `python docs/python_reference.py` from the docstrings in the code; do not edit.
[python-api.md](python-api.md) shows how to use it."""
CLASSES: tuple[tuple[type, str], ...] = ((Model, "model"), (Index, "index"))
"""Classes with methods to call, and what the page calls an object of each."""
RESULTS = [
    kind
    for kind in vars(results).values()
    if dataclasses.is_dataclass(kind)
    and isinstance(kind, type)
    and not inspect.isabstract(kind)
    and kind.__module__ == results.__name__
] + [Update]
TABLES = (Look, RegionTable)
ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RegionTalkError) and kind is not RegionTalkError
]
OF_SEQUENCES = ("count", "index")
TO_DICT = "to_dict"
"""A method that every result has; the page explains it once."""


class SomeFunction:
    """Stands for a default that is a function."""

    def __repr__(self) -> str:
        return "…"


def main() -> None:
    write_or_check("docs/python_reference.py", __doc__, lambda: {PAGE: render()})


def render() -> str:
    parts = [INTRO, *entry(f"regiontalk.load{signature(regiontalk.load)}", regiontalk.load, "##")]
    for kind, value in CLASSES:
        parts += [f"## `{kind.__name__}`\n\n{text_of(kind)}", fields_table(kind)]
        if "__call__" in vars(kind):
            call: Callable[..., Any] = vars(kind)["__call__"]
            parts += entry(f"{value}{signature(call)}", call)
        for name in public_names(kind):
            if name not in fields_of(kind):
                parts += entry(heading(kind, value, name), getattr(kind, name))
    parts.append(
        "## Results\n\nAll are frozen dataclasses. `to_dict()` gives what `--json` prints; it is not "
        "listed again below."
    )
    parts += [section(kind) for kind in sorted(RESULTS, key=lambda kind: kind.__name__)]
    parts.append("## What a model computes")
    parts += [section(kind) for kind in TABLES]
    parts.append(
        "## Errors\n\nAll are in `regiontalk.errors` and derive from `regiontalk.RegionTalkError`, "
        "which has `message`, `hint` (what to do, or None) and `exit_code`.\n\n"
        + markdown_table(["error", "exit code", "when", "is a"], error_rows(), (0, 2, 3))
    )
    return page(parts)


def entry(title: str, member: Any, level: str = "###") -> Iterator[str]:
    yield f"{level} `{title}`"
    yield text_of(member)


def text_of(member: Any) -> str:
    """The docstring, with its paragraphs as lines."""
    paragraphs = (inspect.getdoc(member) or "").split("\n\n")
    return "\n\n".join(one_line(paragraph) for paragraph in paragraphs)


def heading(kind: type, value: str, name: str) -> str:
    member = inspect.getattr_static(kind, name)
    if isinstance(member, classmethod):
        return f"{kind.__name__}.{name}{signature(member.__func__)}"
    if inspect.isfunction(member):
        return f"{value}.{name}{signature(member)}"
    return f"{value}.{name}"


def section(kind: type) -> str:
    """A result: its fields and properties, then its methods."""
    methods = []
    for name in public_names(kind):
        member = inspect.getattr_static(kind, name)
        if inspect.isfunction(member) and name != TO_DICT:
            methods.append(f"- `{name}{signature(member)}`: {one_line(text_of(member))}")
    parts = [f"### `{kind.__name__}`", text_of(kind), fields_table(kind), "\n".join(methods)]
    return page(parts).rstrip()


def fields_table(kind: type) -> str:
    """The public fields, and the properties of a result."""
    texts = field_docstrings(kind)
    rows = [[f"`{name}`", type_of(kind, name), texts.get(name, "")] for name in fields_of(kind)]
    for name in public_names(kind):
        member = inspect.getattr_static(kind, name)
        if isinstance(member, property) and kind not in dict(CLASSES):
            rows.append([f"`{name}`", returned(member.fget), text_of(member)])
    return markdown_table(["field", "type", "meaning"], rows, (0, 1, 2))


def fields_of(kind: type) -> Sequence[str]:
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return [name for name in names if not name.startswith("_")]
    fields: Sequence[str] = kind._fields  # type: ignore[attr-defined]  # a NamedTuple
    return fields


def type_of(kind: type, name: str) -> str:
    for base in kind.__mro__:
        if name in vars(base).get("__annotations__", {}):
            kind_of_field = base.__annotations__[name]
            return f"`{getattr(kind_of_field, '__forward_arg__', kind_of_field)}`"
    raise AssertionError(name)


def returned(function: Callable[..., Any] | None) -> str:
    assert function is not None
    return f"`{function.__annotations__['return']}`"


def public_names(kind: type) -> list[str]:
    left_out = OF_SEQUENCES if issubclass(kind, Sequence) else ()
    return [name for name in dir(kind) if not name.startswith("_") and name not in left_out]


def signature(function: Callable[..., Any]) -> str:
    """Without types, and with double quotes."""
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        default = SomeFunction() if inspect.isfunction(parameter.default) else parameter.default
        shown.append(parameter.replace(annotation=inspect.Parameter.empty, default=default))
    kept = [parameter for parameter in shown if parameter.name not in ("self", "cls")]
    return str(inspect.Signature(kept)).replace("''", '""')


def error_rows() -> Iterator[list[str]]:
    for kind in ERRORS:
        parents = [base.__name__ for base in kind.__bases__ if base is not RegionTalkError]
        yield [
            f"`{kind.__name__}`",
            str(kind.exit_code),
            text_of(kind),
            ", ".join(f"`{parent}`" for parent in parents),
        ]


if __name__ == "__main__":
    main()
