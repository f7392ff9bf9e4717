"""The pages for users name every option of the verbs that they explain, and every call of the HTTP
API."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import http_api
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


def test_the_page_of_calls_is_what_the_code_says() -> None:
    assert http_api.PAGE.read_text(encoding="utf-8") == http_api.render(), "python docs/http_api.py"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_every_call_is_listed_with_its_values(call: Call) -> None:
    path, does, values, answer = http_api.row(call)
    assert path
    assert does
    assert answer
    for name in {**call.query, **(call.form or {})}:
        assert f"`{name}`" in values
