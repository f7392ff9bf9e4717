"""Loads the model of a folder, or one of the package's models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regiontalk.errors import ModelError

if TYPE_CHECKING:
    from regiontalk.captioners import Captioner
    from regiontalk.model import Model

EMBEDDED = Path(__file__).parent / "weights"
FAST = Path(__file__).parent / "weights-fast"


def own_models() -> dict[str, Path]:
    """The package's own models by name: the strong one, and one that is faster and right less
    often."""
    return {"embedded": EMBEDDED, "fast": FAST}


def place_of(model: str | Path | None) -> Path:
    """A model folder by its path, or the package's by name; None: the strong one. `"./fast"` is a
    folder."""
    if model is None:
        return EMBEDDED
    return own_models().get(model, Path(model)) if isinstance(model, str) else model


def named(called: str) -> str | None:
    """The name (`fast`) of the package's model with this model name (`fast-2`)."""
    from regiontalk.io.files import read_json
    from regiontalk.models.folder import INFO

    described = ((name, folder / INFO) for name, folder in own_models().items())
    return next(
        (
            name
            for name, info in described
            if info.is_file() and read_json(info).get("name") == called
        ),
        None,
    )


def load(
    folder: str | Path | None = None,
    *,
    threads: int | None = None,
    lazily: bool = False,
    words_book: str | Path | bool = True,
    captioner: Captioner | None = None,
) -> Model:
    """Loads a model folder (default: the package's strong model; `"fast"`: its fast one).

    `threads`: how many cores a call may use (default: the environment's REGIONTALK_THREADS, else
    all). `lazily`: graphs are opened when they are first run, so that a program that only searches
    an index starts sooner. `words_book`: the file of the words that it was taught and is to be
    taught (default: the user's own for this model, if there is one); False: no taught words. `captioner`: regions and
    captions are those of this other model (docs/another-model.md); the model folder then makes the
    vectors of an index.
    """
    from regiontalk.captioners.adapted import AdaptedModel
    from regiontalk.model import Model
    from regiontalk.models.onnx_runtime import OnnxRuntime

    place = place_of(folder)
    if place in own_models().values() and not place.is_dir():
        raise ModelError(
            f"this regiontalk package has no model{'' if folder is None else f' {folder}'}",
            hint=(
                "regiontalk export CHECKPOINT FOLDER makes one; caption --model FOLDER and "
                "load(FOLDER) take it"
            ),
        )
    if captioner is None:
        return with_book(Model(OnnxRuntime(place, threads, lazily)), words_book)
    runtime = OnnxRuntime(place, threads, lazily=True)
    return with_book(AdaptedModel(runtime, captioner=captioner), words_book)


def with_book(model: Model, words_book: str | Path | bool) -> Model:
    """The model with a word book, as in `load`; a training run, which has no codes of its own to
    keep, only with a given one."""
    from regiontalk.teaching import Taught

    if words_book is False or (words_book is True and not model.runtime.detector):
        return model
    taught = Taught.of(model.runtime, None if words_book is True else Path(words_book))
    taught.file.read()  # a damaged book is told before a photo is opened
    return replace(model, taught=taught)
