"""The way from a file to pixels: limits, decoding, upright sRGB, resizing; and which photos a path
means.

`photo` opens one photo, `limits` refuses files that would take too much memory or time, `paths`
finds photos.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from regiontalk.images.limits import Limits

if TYPE_CHECKING:
    from regiontalk.images.photo import Photo, open_photo

__all__ = ["Limits", "Photo", "open_photo"]


def __getattr__(name: str) -> Any:
    """`photo` is imported when it is first used: Pillow would slow `--help` down."""
    if name in ("Photo", "open_photo"):
        return getattr(importlib.import_module("regiontalk.images.photo"), name)
    raise AttributeError(f"module 'regiontalk.images' has no attribute {name!r}")
