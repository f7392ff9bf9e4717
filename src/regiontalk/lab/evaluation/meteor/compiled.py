"""What METEOR's inner loops are compiled by: numba, of the `evaluate` extra.

numba keeps the machine code beside the module (or, where that cannot be written, in the user's
cache folder) until the module's own file changes. It does not notice changes in other files. So
compiled functions call none of other modules, and take nothing from them but the constants of
`arrays`: after a change there, delete the `__pycache__` folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def compiled(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorates a function that only compiled ones call: machine code, made and kept together with
    its caller's."""
    return cast(Callable[Arguments, Result], njit(function))


def compiled_once(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorates a function that Python calls: machine code, made by the first call and kept for
    later processes."""
    try:
        return cast(Callable[Arguments, Result], njit(cache=True)(function))
    except RuntimeError:  # numba found no folder that it can write
        return compiled(function)
