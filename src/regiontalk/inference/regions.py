"""The one table of regions that goes from one step of inference to the next (`inference.look` shows
the steps).

A step takes a table and returns one with fewer rows, another order or more columns.

Shapes: R regions, C colours, D the size of a code of the recognition network, A of an appearance,
h of a vector of the alignment head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores
from regiontalk.inference.decoding import Caption
from regiontalk.models.runtime import Floats, Proposed, State
from regiontalk.results import Name, Region

ROWS_AT_ONCE = 300  # to recognise or caption; limits the memory for thousands of given boxes
Rows = NDArray[np.intp]
Column = TypeVar("Column", bound=NDArray[Any])


class Frame(NamedTuple):
    """The photo's place and scale in the network's input."""

    photo_size: tuple[int, int]
    """Width and height of the upright photo."""
    size: tuple[int, int]
    """Width and height in the input, without the padding."""
    scale: tuple[float, float]
    """Factors (x, y) from the photo's pixels to the input's."""

    @property
    def whole_xyxy(self) -> Floats:
        """(1, 4) the whole photo in input pixels."""
        return np.array([[0, 0, *self.size]], dtype=np.float32)

    def to_input(self, boxes_xyxy: NDArray[np.float64]) -> Floats:
        """Boxes (B, 4) in pixels of the photo -> of the network's input."""
        return geometry.scale(boxes_xyxy, *self.scale).astype(np.float32)

    def to_photo(self, boxes_xyxy: Floats) -> NDArray[np.float64]:
        """Boxes (B, 4) in pixels of the network's input -> of the photo, clipped to it."""
        scale_x, scale_y = self.scale
        boxes = geometry.scale(boxes_xyxy.astype(np.float64), 1 / scale_x, 1 / scale_y)
        return geometry.clip(boxes, *self.photo_size).astype(np.float64)

    def size_features(self, boxes_xyxy: Floats) -> Scores:
        """(B, 2) of boxes (B, 4) in input pixels: their share of the photo's area, and log₂ of the
        factor by which the photo was enlarged, 0 if it was large enough."""
        shares = geometry.area(boxes_xyxy.astype(np.float64)) / math.prod(self.size)
        enlarged = max(0.0, math.log2(max(self.scale)))
        return np.stack([shares, np.full(len(shares), enlarged)], axis=1)


def _not_computed() -> Floats:
    return np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class RegionTable:
    """Regions of one photo, a row for each. A column that was not computed is empty or None."""

    frame: Frame
    boxes_xyxy: NDArray[np.float64]
    """(R, 4) the boxes in pixels of the upright photo."""
    scores: Scores
    """(R,) raw scores, by which NMS sorts; after `rank` the final ones."""
    input_xyxy: Floats = field(default_factory=_not_computed)
    """(R, 4) the same boxes in pixels of the network's input."""
    logits: Floats = field(default_factory=_not_computed)
    """(R,) the recognition network's logits."""
    proposals_xyxy: Floats = field(default_factory=_not_computed)
    """(R, 4) the proposals that were refined to the boxes, in input pixels."""
    proposal_logits: Floats = field(default_factory=_not_computed)
    """(R,) the localization layer's logits; 0 for given boxes."""
    recognition_codes: Floats = field(default_factory=_not_computed)
    """(R, D) the recognition network's codes."""
    state: State = ()
    """The language model's state before START."""
    codes: Floats = field(default_factory=_not_computed)
    """(R, D + A) what the heads read: the recognition network's codes, the appearance appended."""
    surroundings: Floats | None = None
    """(R, D + A) codes of the boxes, enlarged."""
    vectors: Floats | None = None
    """(R, h) the alignment head's vectors."""
    colours: Scores = field(default_factory=lambda: np.zeros(0))
    """(R, C) how likely each region has each colour, if the model has a table of colours."""
    votes: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """(R,) how many refined proposals agree with each region (`rank.votes`)."""
    captions: tuple[Caption, ...] = ()
    confidences: Scores | None = None
    """(R,) how likely each caption is right; None if the model has no fit for it."""
    usual_captions: tuple[Caption, ...] = ()
    """Those without a limit of words, where one was asked for …"""
    usual_confidences: Scores | None = None
    """… and how likely they are right."""
    names: tuple[Name, ...] = ()
    """What the thing in each region is called; empty if the model has no names."""
    called: tuple[bool, ...] = ()
    """Whether each region is called by its name instead of its caption; empty: none is."""

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: Rows) -> RegionTable:
        """The table with these rows alone, in this order."""
        return replace(
            self,
            boxes_xyxy=self.boxes_xyxy[rows],
            scores=self.scores[rows],
            input_xyxy=_take(self.input_xyxy, rows),
            logits=_take(self.logits, rows),
            proposals_xyxy=_take(self.proposals_xyxy, rows),
            proposal_logits=_take(self.proposal_logits, rows),
            recognition_codes=_take(self.recognition_codes, rows),
            state=tuple(part[rows] for part in self.state),
            codes=_take(self.codes, rows),
            surroundings=None if self.surroundings is None else self.surroundings[rows],
            vectors=None if self.vectors is None else self.vectors[rows],
            colours=_take(self.colours, rows),
            votes=_take(self.votes, rows),
            captions=tuple(self.captions[row] for row in rows.tolist() if self.captions),
            confidences=None if self.confidences is None else self.confidences[rows],
            usual_captions=tuple(
                self.usual_captions[row] for row in rows.tolist() if self.usual_captions
            ),
            usual_confidences=(
                None if self.usual_confidences is None else self.usual_confidences[rows]
            ),
            names=tuple(self.names[row] for row in rows.tolist() if self.names),
            called=tuple(self.called[row] for row in rows.tolist() if self.called),
        )

    def first(self, count: int) -> RegionTable:
        """The first `count` rows, or all if there are fewer."""
        return self.take(np.arange(min(count, len(self))))

    def size_features(self) -> Scores:
        """(R, 2) the size features of the boxes (`Frame.size_features`)."""
        return self.frame.size_features(self.input_xyxy)


class Look(NamedTuple):
    """One pass over a photo. All answers about it are computed from this."""

    photo: Any
    """The `images.photo.Photo`, which opens the photo again; here it is only passed on."""
    image: Floats
    """(1, 3, H, W) the network's input."""
    proposed: Proposed
    """The feature maps and all proposals, in input pixels."""
    recognized: RegionTable
    """The best proposals, best first, refined and scored by the recognition network; or the given
    boxes."""
    regions: RegionTable
    """The regions that survive NMS, highest score first; or the given boxes, in their order."""
    given: bool
    """Whether the boxes were given."""
    captioned: tuple[Region, ...] | None = None
    """The regions as another program's model captioned them (`captioners`); None: none did."""

    @property
    def frame(self) -> Frame:
        """Sizes of the photo and of the network's input, and the scale between them."""
        return self.regions.frame

    @property
    def boxes_xyxy(self) -> NDArray[np.float64]:
        """(R, 4) the boxes in pixels of the upright photo."""
        return self.regions.boxes_xyxy

    @property
    def scores(self) -> Scores:
        """(R,) raw scores: neither ranked nor calibrated."""
        return self.regions.scores


def _take(column: Column, rows: Rows) -> Column:
    return column[rows] if len(column) else column  # type: ignore[return-value]
