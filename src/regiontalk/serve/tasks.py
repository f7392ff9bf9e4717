"""What workers do. Inputs and answers go through a pipe: plain values, bytes and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from regiontalk.images import Limits
from regiontalk.loading import load
from regiontalk.model import Model
from regiontalk.serve.settings import Settings


@dataclass
class Desk:
    """What a worker has at hand."""

    model: Model

    @classmethod
    def of(cls, settings: Settings) -> Desk:
        limits = Limits(settings.megapixels, settings.megabytes)
        return cls(replace(load(settings.model), limits=limits))


def about(desk: Desk) -> dict[str, Any]:
    return {"model": desk.model.runtime.info.name}


def caption(desk: Desk, photo: bytes, **options: Any) -> dict[str, Any]:
    return desk.model(photo, **options).to_dict()


def describe(desk: Desk, photo: bytes, **options: Any) -> dict[str, Any]:
    return desk.model.describe(photo, **options).to_dict()


def align(desk: Desk, photo: bytes, sentence: str) -> dict[str, Any]:
    return desk.model.align(photo, sentence).to_dict()


TASKS: dict[str, Callable[..., Any]] = {task.__name__: task for task in (about, caption, describe, align)}
