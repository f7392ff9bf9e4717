"""Values of foreign records: text, sizes, boxes and scores, or an error that names the place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict, cast

from regiontalk.errors import DataError
from regiontalk.io.typed import shorten
from regiontalk.results import BoxXYXY

SCORES = ("score", "confidence")


class Scores(TypedDict, total=False):
    """A model's scores of a region; see `TrueRegion`."""

    score: float
    confidence: float


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turns the exceptions of a missing or mistyped field into an error that names the place."""
    try:
        yield
    except KeyError as error:
        raise DataError(f"{place}: there is no {error}") from error
    except (
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise DataError(f"{place}: {error}") from error


def as_object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{shorten(value)} is not a JSON object")
    return value


def as_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is not text: {shorten(value)}")
    return value


def as_size(width: Any, height: Any) -> tuple[int, int]:
    size = int(width), int(height)
    if min(size) < 1:
        raise ValueError(f"an image of {size[0]}×{size[1]} pixels")
    return size


def scores_of(entry: Mapping[str, Any]) -> Scores:
    """The scores that a region has, of `SCORES`."""
    scores = {name: float(entry[name]) for name in SCORES if entry.get(name) not in (None, "")}
    if not all(math.isfinite(score) for score in scores.values()):
        raise ValueError("a score that is not a number")
    return cast(Scores, scores)


def box_xywh(box_xyxy: Sequence[float]) -> tuple[float, float, float, float]:
    """A box in hundredths of a pixel as corner and size; `xywh_box` is its exact inverse."""
    x0, y0, x1, y1 = box_xyxy
    return x0, y0, round(x1 - x0, 2), round(y1 - y0, 2)


def xywh_box(x: Any, y: Any, width: Any, height: Any) -> BoxXYXY:
    """A box from its corner and size; rounded, so that 255.11 + 36.72 is 291.83."""
    left, top = float(x), float(y)
    return left, top, round(left + float(width), 4), round(top + float(height), 4)
