"""Checks the answers of captioners: what is no caption, no score or no box is told in one line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from regiontalk.errors import ModelError, RegionTalkError, one_line
from regiontalk.results import BoxXYXY, Region

Answered = TypeVar("Answered")

MOST_REGIONS = 10_000  # of one photo
LONGEST_CAPTION = 1000  # characters
ROUNDING = 1.0  # pixel that a box may reach beyond the photo; it is clipped


class Nonsense(ValueError):
    """An answer that cannot be used, and why."""


def asked(name: str, photo: str, ask: Callable[[], Answered]) -> Answered:
    """What a captioner answers. Whatever it raises, and nonsense, becomes one `ModelError` that
    names it and the photo."""
    try:
        return ask()
    except (RegionTalkError, MemoryError):
        raise
    except Nonsense as error:
        raise ModelError(f"the model {name!r} on {photo or 'a photo'}: {error}") from error
    except (Exception, SystemExit) as error:  # some models end the program
        reason = one_line(f"{type(error).__name__}: {error}")
        raise ModelError(f"the model {name!r} failed on {photo or 'a photo'}: {reason}") from error


def to_regions(answer: Iterable[Any], photo_size: tuple[int, int]) -> tuple[Region, ...]:
    """The regions that a captioner found, highest score first."""
    regions = []
    for number, region in enumerate(_rows(answer)):
        box, caption, score = _parts(number, region, ("box", "caption", "score"))
        box_xyxy = _box(number, box, photo_size)
        regions.append(Region(box_xyxy, _score(number, score), _caption(number, caption)))
    return tuple(sorted(regions, key=lambda region: -region.score))


def to_given_regions(answer: Iterable[Any], boxes_xyxy: list[BoxXYXY]) -> tuple[Region, ...]:
    """The captions of given boxes, in their order."""
    captions = _rows(answer)
    if len(captions) != len(boxes_xyxy):
        raise Nonsense(f"{len(captions)} captions for {len(boxes_xyxy)} boxes")
    regions = []
    for number, (box, captioned) in enumerate(zip(boxes_xyxy, captions, strict=True)):
        caption, score = _parts(number, captioned, ("caption", "score"))
        regions.append(Region(box, _score(number, score), _caption(number, caption)))
    return tuple(regions)


def _rows(answer: object) -> list[Any]:
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise Nonsense(f"it gave {type(answer).__name__}, not a list of regions")
    rows = list(itertools.islice(answer, MOST_REGIONS + 1))
    if len(rows) > MOST_REGIONS:
        raise Nonsense(f"more than {MOST_REGIONS} regions")
    return rows


def _parts(number: int, region: object, names: tuple[str, ...]) -> tuple[Any, ...]:
    if not isinstance(region, tuple | list) or len(region) != len(names):
        wanted = ", ".join(names)
        raise Nonsense(f"region {number} is {_short(region)}; it must be a tuple of {wanted}")
    return tuple(region)


def _box(number: int, box: Any, photo_size: tuple[int, int]) -> BoxXYXY:
    try:
        x0, y0, x1, y1 = (float(side) for side in box)
    except (TypeError, ValueError):
        raise Nonsense(f"region {number}: the box is {_short(box)}, not four numbers") from None
    width, height = photo_size
    sides = f"region {number}: the box {_short((x0, y0, x1, y1))}"
    if not all(map(math.isfinite, (x0, y0, x1, y1))):
        raise Nonsense(f"{sides} has a side that is not a number")
    least, right, lowest = -ROUNDING, width + ROUNDING, height + ROUNDING
    if min(x0, y0) < least or x1 > right or y1 > lowest:
        raise Nonsense(f"{sides} is outside of the photo of {width}×{height} pixels")
    x0, y0, x1, y1 = max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height))
    if x1 <= x0 or y1 <= y0:
        raise Nonsense(f"{sides} is empty; its sides are left, top, right, bottom")
    if max(x1, y1) <= 1 < max(photo_size):
        raise Nonsense(f"{sides} is less than a pixel; boxes are in pixels, not fractions")
    return x0, y0, x1, y1


def _caption(number: int, caption: object) -> str:
    text = one_line(" ".join(caption.split())) if isinstance(caption, str) else ""
    if not text:
        raise Nonsense(f"region {number}: the caption is {_short(caption)}, not words")
    if len(text) > LONGEST_CAPTION:
        raise Nonsense(f"region {number}: a caption of {len(text)} characters; {_short(text)}")
    return text


def _score(number: int, score: Any) -> float:
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value <= 1:  # written so that NaN fails too
        raise Nonsense(f"region {number}: the score is {_short(score)}, not a number from 0 to 1")
    return value


def _short(value: object) -> str:
    text = one_line(repr(value))
    return text if len(text) <= 80 else f"{text[:77]}..."
