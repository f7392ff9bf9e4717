"""The model of a folder, or the one inside the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regiontalk.errors import ModelError

if TYPE_CHECKING:
    from regiontalk.model import Model

EMBEDDED = Path(__file__).parent / "weights"


def load(folder: str | Path | None = None, *, threads: int | None = None, lazily: bool = False) -> Model:
    """A model that captions photos: that of a model folder, or the one inside the package.

    `threads`: how many cores it may use (default: the environment's REGIONTALK_THREADS, else all). `lazily`: graphs are
    opened when they are first run, so that a search, which looks at no photo, starts sooner.
    """
    from regiontalk.model import Model
    from regiontalk.runtime.onnx import OnnxRuntime

    if folder is None and not EMBEDDED.is_dir():
        raise ModelError(
            "this regiontalk carries no model of its own",
            hint="regiontalk export CHECKPOINT FOLDER makes one; caption --model FOLDER and load(FOLDER) take it",
        )
    return Model(OnnxRuntime(EMBEDDED if folder is None else Path(folder), threads, lazily))
