"""Other people's models behind the verbs of this package: what such a model has to do.

A `Captioner` finds and captions the regions of a photo; a `BoxCaptioner` also captions given boxes.
`adapted.AdaptedModel` makes a `regiontalk.model.Model` of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regiontalk.results import BoxXYXY


class CaptionedRegion(NamedTuple):
    """A region as a captioner gives it; a plain tuple of the same values will do."""

    xyxy: BoxXYXY
    """Left, top, right, bottom in pixels of the photo that the captioner was given."""
    caption: str
    score: float
    """How much the region is worth mentioning, from 0 to 1. From 0.3, it is shown by default."""


class ScoredCaption(NamedTuple):
    """The caption of a given box; a plain tuple will do."""

    caption: str
    score: float
    """How much the region is worth mentioning, from 0 to 1."""


class Captioner(Protocol):
    """Finds and captions regions. It is never called by two threads at a time."""

    name: str
    """The name that stands in results, records and indexes; another one if it answers
        differently."""

    def regions(self, photo: Image.Image) -> Iterable[CaptionedRegion]:
        """The regions of a photo (upright, RGB, as large as the original), in any order."""


@runtime_checkable
class BoxCaptioner(Protocol):
    """Captions given boxes."""

    def captions(
        self, photo: Image.Image, boxes_xyxy: NDArray[np.float64]
    ) -> Iterable[ScoredCaption]:
        """A caption for each box (B, 4), in pixels of the photo and in their order."""
