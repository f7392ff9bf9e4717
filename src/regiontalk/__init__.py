"""RegionTalk: finds and captions the regions of photos, aligns sentences with them, and searches
photos."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from regiontalk.errors import RegionTalkError
from regiontalk.io.renamed_imports import keep_old_imports
from regiontalk.models.loading import load
from regiontalk.models.packaged import EMBEDDED
from regiontalk.results import (
    Alignment,
    AltText,
    Confusion,
    Description,
    Finding,
    Hit,
    Hits,
    ImageRegions,
    IndexedPhoto,
    Lesson,
    Region,
    Segment,
    Sentence,
    Shown,
    Tag,
    Tags,
    UnsureRegion,
    WordMatch,
    WordReport,
)

if TYPE_CHECKING:
    from regiontalk.model import Model
    from regiontalk.search.index import Index

__version__ = "0.9.0"
__all__ = [
    "EMBEDDED",
    "Alignment",
    "AltText",
    "Confusion",
    "Description",
    "Finding",
    "Hit",
    "Hits",
    "ImageRegions",
    "Index",
    "IndexedPhoto",
    "Lesson",
    "Model",
    "Region",
    "RegionTalkError",
    "Segment",
    "Sentence",
    "Shown",
    "Tag",
    "Tags",
    "UnsureRegion",
    "WordMatch",
    "WordReport",
    "__version__",
    "load",
]

keep_old_imports()


def __getattr__(name: str) -> Any:
    """`Model` and `Index` are imported when they are first used: numpy and Pillow would slow
    `--help` down."""
    modules = {"Model": "regiontalk.model", "Index": "regiontalk.search.index"}
    if name in modules:
        return getattr(importlib.import_module(modules[name]), name)
    raise AttributeError(f"module 'regiontalk' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, those that are imported later included; not the modules."""
    return __all__
