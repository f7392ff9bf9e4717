"""Figures of what is fitted are taken on other photos than it was fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from regiontalk.errors import DataError

FOLDS = 4

Photo = TypeVar("Photo")
Fitted = TypeVar("Fitted")


def cross_validated(photos: Sequence[Photo], fit: Callable[[list[Photo]], Fitted]) -> list[Fitted]:
    """What was fitted for every photo without it and others (every `FOLDS`th)."""
    folds = min(FOLDS, len(photos))
    if folds < 2:
        raise DataError(f"{len(photos)} photo: cross-validation needs at least 2")
    fitted = [
        fit([photo for number, photo in enumerate(photos) if number % folds != fold])
        for fold in range(folds)
    ]
    return [fitted[number % folds] for number in range(len(photos))]
