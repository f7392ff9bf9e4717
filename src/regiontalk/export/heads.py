"""Heads for a model folder, from the checkpoints of the nets that read region codes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from regiontalk.errors import ModelError, UsageError
from regiontalk.model_folder import Head
from regiontalk.training.checkpoints import find_checkpoint, read_state

NAMES = {"alignment": "words", "sentences": "sentence"}
"""Kind of a checkpoint -> name of the head."""


def load_heads(checkpoints: Iterable[Path], precision: str, beta: float | None = None) -> dict[str, Head]:
    """Name -> head of each checkpoint (or run's folder), with weights stored in `precision`; `beta` is eq. 12's.

    Heads never multiply integers: what that costs is known of the detector alone.
    """
    precision = "int8-stored" if precision == "int8" else precision
    found: dict[str, Path] = {}
    for given in checkpoints:
        checkpoint = find_checkpoint(given)
        name = head_name(checkpoint)
        if name in found:
            raise UsageError(f"{given}: a second head {name!r}")
        found[name] = checkpoint
    return {name: load_head(checkpoint, precision, beta) for name, checkpoint in found.items()}


def head_name(checkpoint: Path) -> str:
    kind = read_state(checkpoint)["kind"]
    if kind not in NAMES:
        raise ModelError(f"{checkpoint}: a checkpoint of kind {kind!r} is no head")
    return NAMES[kind]


def load_head(checkpoint: Path, precision: str, beta: float | None) -> Head:
    if head_name(checkpoint) == "words":
        from regiontalk.export.alignment_head import words_head

        return words_head(checkpoint, precision, beta)
    from regiontalk.export.sentence_head import sentence_head

    return sentence_head(checkpoint, precision)
