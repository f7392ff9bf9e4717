"""RegionTalk: the parts of a photo worth talking about, and what to say of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regiontalk.errors import ModelError, RegionTalkError
from regiontalk.types import Alignment, Hit, ImageRegions, Region, Segment, WordMatch

if TYPE_CHECKING:
    from regiontalk.captioner import Captioner

__version__ = "0.1.0"
__all__ = [
    "Alignment",
    "Hit",
    "ImageRegions",
    "Region",
    "RegionTalkError",
    "Segment",
    "WordMatch",
    "__version__",
    "load",
]

EMBEDDED = Path(__file__).parent / "weights"


def load(folder: str | Path | None = None, *, threads: int | None = None) -> Captioner:
    """A model that captions photos: that of a model folder, or the one inside the package.

    `threads`: how many cores it may use (default: the environment's REGIONTALK_THREADS, else all).
    """
    from regiontalk.captioner import Captioner
    from regiontalk.runtime import OnnxRuntime

    if folder is None and not EMBEDDED.is_dir():
        raise ModelError(
            "this regiontalk carries no model of its own",
            hint="regiontalk export CHECKPOINT FOLDER makes one, load(FOLDER) takes it",
        )
    return Captioner(OnnxRuntime(EMBEDDED if folder is None else Path(folder), threads))
