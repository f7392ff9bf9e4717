"""Imports that version 0.9 documented and that have another name now: they work until 1.0, with a
warning."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType

NEW_NAMES = {
    "regiontalk.data": "regiontalk.lab.data",
    "regiontalk.drawing": "regiontalk.show.drawing",
    "regiontalk.evaluation": "regiontalk.lab.evaluation",
    "regiontalk.export": "regiontalk.lab.export",
    "regiontalk.export.torch_runtime": "regiontalk.models.torch_loading",
    "regiontalk.runs": "regiontalk.lab.runs",
    "regiontalk.runtime": "regiontalk.models",
    "regiontalk.runtime.onnx": "regiontalk.models.onnx_runtime",
}
"""Module or package -> its new name. What is in a package keeps its name there."""


def keep_old_imports() -> None:
    # Before the finder for files, which would load such a module a second time.
    sys.meta_path.insert(0, _RenamedModules())


class _RenamedModules:
    """A finder and loader, without the base classes of `importlib.abc`: its import would take 6 ms
    at every start."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if _new_name(fullname) is None:
            return None
        return ModuleSpec(fullname, self)  # type: ignore[arg-type]

    def create_module(self, _: ModuleSpec) -> None:
        """The usual kind of module."""

    def exec_module(self, module: ModuleType) -> None:
        """Replaces the module by the one with the new name, so that there is only one of it."""
        new_name = _new_name(module.__name__)
        assert new_name is not None
        warnings.warn(f"{module.__name__} is now {new_name}", DeprecationWarning, stacklevel=2)
        sys.modules[module.__name__] = importlib.import_module(new_name)


def _new_name(name: str) -> str | None:
    package, _, module = name.rpartition(".")
    if name in NEW_NAMES or not package:
        return NEW_NAMES.get(name)
    new_package = _new_name(package)
    return None if new_package is None else f"{new_package}.{module}"
