"""The pages for users name every option of the verbs that they explain, and every call of the HTTP
API."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest

from regiontalk.serve.calls import CALLS, Call

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "your-photos.md": ("caption", "describe", "align", "find", "index", "search"),
    "serve.md": ("serve",),
}


@pytest.mark.parametrize(
    ("page", "verb"), [(page, verb) for page, verbs in PAGES.items() for verb in verbs]
)
def test_every_option_is_named(page: str, verb: str) -> None:
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", (DOCS / page).read_text(encoding="utf-8")))
    command: click.Command = importlib.import_module(f"regiontalk.cli.{verb}").command
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.opts for one in options if named.isdisjoint([*one.opts, *one.secondary_opts])] == []


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_every_call_is_listed_with_its_values(call: Call) -> None:
    row = f"| `{call.method} {call.path.replace('{id}', 'ID')}` |"
    (line,) = [
        line
        for line in (DOCS / "serve.md").read_text(encoding="utf-8").split("\n")
        if line.startswith(row)
    ]
    values = re.findall(r"`([a-z_]+)`", line.split(" | ")[-1])
    assert sorted(values) == sorted({**call.query, **(call.form or {})})
