"""RegionTalk: the parts of a photo worth talking about, and what to say of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regiontalk.errors import ModelError, RegionTalkError
from regiontalk.types import Alignment, AltText, Description, Hit, ImageRegions, Region, Segment, Sentence, WordMatch

if TYPE_CHECKING:
    from regiontalk.model import Model

__version__ = "0.2.0"
__all__ = [
    "Alignment",
    "AltText",
    "Description",
    "Hit",
    "ImageRegions",
    "Model",
    "Region",
    "RegionTalkError",
    "Segment",
    "Sentence",
    "WordMatch",
    "__version__",
    "load",
]

EMBEDDED = Path(__file__).parent / "weights"


def load(folder: str | Path | None = None, *, threads: int | None = None) -> Model:
    """A model that captions photos: that of a model folder, or the one inside the package.

    `threads`: how many cores it may use (default: the environment's REGIONTALK_THREADS, else all).
    """
    from regiontalk.model import Model
    from regiontalk.runtime.onnx import OnnxRuntime

    if folder is None and not EMBEDDED.is_dir():
        raise ModelError(
            "this regiontalk carries no model of its own",
            hint="regiontalk export CHECKPOINT FOLDER makes one; caption --model FOLDER and load(FOLDER) take it",
        )
    return Model(OnnxRuntime(EMBEDDED if folder is None else Path(folder), threads))


def __getattr__(name: str) -> Any:
    """`Model` is imported when it is asked for: numpy and Pillow would slow `--help` down."""
    if name == "Model":
        from regiontalk.model import Model

        return Model
    raise AttributeError(f"module 'regiontalk' has no attribute {name!r}")
