"""docs/python-reference.md is made from the code, and leaves no public name unexplained."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from python_reference import (
    CLASSES,
    ERRORS,
    PAGE,
    RESULTS,
    TO_DICT,
    fields_of,
    public_names,
    render,
    text_of,
)

import regiontalk
from regiontalk.model import Model

REFERENCE = PAGE.read_text(encoding="utf-8")
MANUAL = Path(PAGE).with_name("python-api.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_code_says() -> None:
    assert render() == REFERENCE, "python docs/python_reference.py"


def test_every_public_name_is_on_a_page() -> None:
    public = [name for name in regiontalk.__all__ if not name.startswith("_")]
    assert [name for name in public if name not in REFERENCE + MANUAL] == []


@pytest.mark.parametrize("kind", [kind for kind, _ in CLASSES])
def test_every_method_of_a_class_is_explained(kind: type) -> None:
    names = set(public_names(kind)) - set(fields_of(kind))
    assert [name for name in sorted(names) if not text_of(getattr(kind, name))] == []


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_every_method_of_a_result_is_explained(kind: type) -> None:
    for name in public_names(kind):
        member = inspect.getattr_static(kind, name)
        if (inspect.isfunction(member) and name != TO_DICT) or isinstance(member, property):
            assert text_of(member), name


def test_options_of_a_caption_are_explained() -> None:
    taken = set(inspect.signature(Model.__call__).parameters) - {"self", "photo"}
    explained = set(re.findall(r"`(\w+)`", text_of(Model.__call__)))
    assert taken <= explained


def test_every_result_and_error_has_its_section() -> None:
    for kind in RESULTS:
        assert f"### `{kind.__name__}`\n" in REFERENCE
    for error in ERRORS:
        assert f"| `{error.__name__}` | {error.exit_code} |" in REFERENCE


def test_every_call_in_the_manual_is_there() -> None:
    """Methods that the manual names exist."""
    calls = re.findall(r"\b(model|index)\.([a-z_]+)\(", MANUAL)
    kinds = {value: kind for kind, value in CLASSES}
    assert [(value, name) for value, name in calls if not hasattr(kinds[value], name)] == []
