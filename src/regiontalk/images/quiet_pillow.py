"""Silences the warnings and the output to stderr of Pillow and its libraries."""

from __future__ import annotations

import ctypes
import logging
import re
import threading
import warnings
from contextlib import suppress
from typing import Any, cast

from PIL import _imaging

logging.getLogger("PIL").addHandler(
    logging.NullHandler()
)  # without a handler, its log goes to stderr


def quiet_libtiff() -> None:
    """Stops libtiff from writing errors to stderr, if its handler can be set."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler(None)


class _QuietPillow:
    """Drops Pillow's warnings while any thread decodes.

    Threads are counted, because `warnings.catch_warnings` restores the whole list of filters, which
    is wrong if two threads overlap.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._rule = ("ignore", None, Warning, re.compile(r"(PIL|pillow_heif)\b"), 0)

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                _warning_rules().insert(0, self._rule)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                with suppress(ValueError):
                    _warning_rules().remove(self._rule)


def _warning_rules() -> list[Any]:
    return cast(list[Any], warnings.filters)


quiet_pillow = _QuietPillow()
