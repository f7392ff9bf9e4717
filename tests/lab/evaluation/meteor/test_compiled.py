from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import pytest

from regiontalk.errors import MissingExtra

pytest.importorskip("numba")

from regiontalk.lab.evaluation.meteor import compiled


def twice(number: int) -> int:
    return 2 * number


def test_functions_stay_what_they_are() -> None:
    assert compiled.compiled(twice)(4) == compiled.compiled_once(twice)(4) == 8


def test_no_folder_for_the_machine_code_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: Callable[..., object] | None = None, cache: bool = False) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return function or refuse

    monkeypatch.setattr(compiled, "njit", refuse)
    assert compiled.compiled_once(twice) is twice


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    package = "regiontalk.lab.evaluation.meteor"
    for name in [name for name in sys.modules if name.startswith(package)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtra, match="numba") as raised:
        importlib.import_module(package)
    assert raised.value.extra == "evaluate"
