"""Writes docs/http-api.md: the calls of `regiontalk serve`, the values that they take and the fields
of their answers, from the table of calls (`serve/calls.py`) and its OpenAPI description.

python docs/http_api.py             write the page
python docs/http_api.py --check     write nothing; fail if the page is out of date
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from markdown_page import markdown_table, page, write_or_check

from regiontalk.serve.calls import CALLS, Call
from regiontalk.serve.openapi import describe

PAGE = Path(__file__).with_name("http-api.md")
INTRO = """\
# Calls of the HTTP API

Written by `python docs/http_api.py` from the code; do not edit. [serve.md](serve.md#api) shows how to use it. The server
describes the same in `/openapi.json`."""
REFERENCE = "#/components/schemas/"

Schema = Mapping[str, Any]


def main() -> None:
    write_or_check("docs/http_api.py", __doc__, lambda: {PAGE: render()})


def render() -> str:
    calls = [row(call) for call in CALLS]
    parts = [INTRO, markdown_table(["call", "does", "values", "answer"], calls, (0, 1, 2, 3))]
    parts.append("## Answers\n\nFields with a ? may be missing.")
    for name, schema in describe(CALLS)["components"]["schemas"].items():
        fields = list(field_rows(schema))
        if fields:
            table = markdown_table(["field", "type", "meaning"], fields, (0, 1, 2))
            parts.append(f"### `{name}`\n\n{table}")
    return page(parts)


def row(call: Call) -> list[str]:
    values = {**call.query, **(call.form or {})}
    names = ", ".join(f"`{name}`{remark(schema)}" for name, schema in values.items())
    path = call.path.replace("{id}", "ID")
    return [f"`{call.method} {path}`", call.does, names, f"`{call.answer}`"]


def remark(schema: Schema) -> str:
    """What a value may be, in brackets."""
    text = str(schema.get("description", "")).rstrip(".")
    if "enum" in schema:
        text = " or ".join(f'"{value}"' for value in schema["enum"])
    return f" ({text})" if text else ""


def field_rows(schema: Schema) -> Iterator[list[str]]:
    needed = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        mark = "" if name in needed else "?"
        yield [f"`{name}`{mark}", type_of(field), str(field.get("description", ""))]


def type_of(schema: Schema) -> str:
    if "$ref" in schema:
        return f"`{schema['$ref'].removeprefix(REFERENCE)}`"
    if "anyOf" in schema:
        return " or ".join(type_of(part) for part in schema["anyOf"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "enum" in schema:
        return " or ".join(f'"{value}"' for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}"
    if "properties" in schema:
        names = ", ".join(f"`{name}`" for name in schema["properties"])
        return f"object with {names}"
    return str(schema.get("type", "any"))


if __name__ == "__main__":
    main()
