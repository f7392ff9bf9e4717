"""The models in the package: their names and folders."""

from __future__ import annotations

from pathlib import Path

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
