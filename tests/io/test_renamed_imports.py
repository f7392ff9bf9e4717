"""Imports of version 0.9 give the modules of today."""

from __future__ import annotations

import importlib
import sys

import pytest

from regiontalk.io.renamed_imports import NEW_NAMES


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.startswith(tuple(NEW_NAMES))]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["data.records", "evaluation.dense_ap", "evaluation.meteor.score"])
def test_a_module_is_there_only_once(name: str) -> None:
    with pytest.deprecated_call():
        old = importlib.import_module(f"regiontalk.{name}")
    assert old is importlib.import_module(f"regiontalk.lab.{name}")


@pytest.mark.parametrize("name", NEW_NAMES)
def test_every_old_name_leads_somewhere(name: str) -> None:
    if name == "regiontalk.export.torch_runtime":
        pytest.importorskip("torch")
    with pytest.deprecated_call():
        assert importlib.import_module(name).__name__ == NEW_NAMES[name]


def test_names_that_never_were_are_still_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"regiontalk\.nothing"):
        importlib.import_module("regiontalk.nothing")
    with (
        pytest.deprecated_call(),
        pytest.raises(ModuleNotFoundError, match=r"regiontalk\.lab\.data\.nothing"),
    ):
        importlib.import_module("regiontalk.data.nothing")
