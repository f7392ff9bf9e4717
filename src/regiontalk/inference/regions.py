"""Rows of numbers about the regions of a photo, as they are passed from one step of inference to
the next.

The steps, in their order:

    detect.py     propose -> NMS -> recognise -> NMS
    captions.py   decode a caption of each region
    rank.py       score -> calibrate -> drop repeats
    captions.py   choose among captions of other lengths, with a confidence

They are numpy, and the same for every runtime, which only computes what is in `Detections`.

Shapes: B boxes that are recognised, R regions that survive NMS.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores
from regiontalk.models.runtime import Floats, State

ROWS_AT_ONCE = 300  # to recognise or caption; limits the memory for thousands of given boxes
Rows = NDArray[np.intp]


class Frame(NamedTuple):
    """The photo's place and scale in the network's input."""

    photo_size: tuple[int, int]
    """Width and height of the upright photo."""
    size: tuple[int, int]
    """Width and height in the input, without the padding."""
    scale: tuple[float, float]
    """From the photo's pixels to the input's."""

    @property
    def whole_xyxy(self) -> Floats:
        """(1, 4) the whole photo in input pixels."""
        return np.array([[0, 0, *self.size]], dtype=np.float32)

    def to_input(self, boxes_xyxy: NDArray[np.float64]) -> Floats:
        return geometry.scale(boxes_xyxy, *self.scale).astype(np.float32)

    def to_photo(self, boxes_xyxy: Floats) -> NDArray[np.float64]:
        scale_x, scale_y = self.scale
        boxes = geometry.scale(boxes_xyxy.astype(np.float64), 1 / scale_x, 1 / scale_y)
        return geometry.clip(boxes, *self.photo_size).astype(np.float64)

    def size_features(self, boxes_xyxy: Floats) -> Scores:
        """(B, 2) of boxes (B, 4) in input pixels: their share of the photo's area, and log₂ of the
        factor by which the photo was enlarged, 0 if it was large enough."""
        shares = geometry.area(boxes_xyxy.astype(np.float64)) / math.prod(self.size)
        enlarged = max(0.0, math.log2(max(self.scale)))
        return np.stack([shares, np.full(len(shares), enlarged)], axis=1)


class Detections(NamedTuple):
    """The network's outputs for the best proposals of a photo, best first, or for given boxes; in
    input pixels."""

    proposals_xyxy: Floats
    """(B, 4) the boxes that were recognised."""
    proposal_logits: Floats
    """(B,)"""
    boxes_xyxy: Floats
    """(B, 4) after the recognition network's refinement; given boxes stay as they are."""
    logits: Floats
    """(B,) the recognition network's."""
    codes: Floats
    """(B, D)"""
    state: State
    """The language model's state before START, a row for every box."""

    def states(self, rows: Rows) -> State:
        return tuple(part[rows] for part in self.state)

    def to_caption(self, rows: Rows, frame: Frame) -> ToCaption:
        return ToCaption(
            self.states(rows), self.logits[rows], frame.size_features(self.boxes_xyxy[rows])
        )

    def first(self, count: int) -> Detections:
        """Those of the `count` best proposals."""
        *arrays, state = self
        return Detections._make(
            [*(one[:count] for one in arrays), tuple(part[:count] for part in state)]
        )


class ToCaption(NamedTuple):
    """The inputs for the captions of R regions and for their confidence."""

    state: State
    """The language model's, before START."""
    logits: Floats
    """(R,) the recognition network's."""
    size_features: Scores
    """(R, 2) as `Frame.size_features` gives them."""


class Candidates(NamedTuple):
    """The whole photo (row 0) and its best regions: the candidates for words and phrases."""

    boxes_xyxy: NDArray[np.float64]
    """(R, 4)"""
    scores: Scores
    """(R,) raw."""
    logits: Floats
    """(R,) the recognition network's."""
    state: State
    """The language model's, before START."""
    vectors: Floats | None
    """(R, h); None without an alignment head."""

    def to_caption(self, rows: Rows, frame: Frame) -> ToCaption:
        size_features = frame.size_features(frame.to_input(self.boxes_xyxy[rows]))
        return ToCaption(tuple(part[rows] for part in self.state), self.logits[rows], size_features)

    def first(self, count: int) -> Candidates:
        vectors = None if self.vectors is None else self.vectors[:count]
        parts = (self.boxes_xyxy[:count], self.scores[:count], self.logits[:count])
        return Candidates(*parts, tuple(part[:count] for part in self.state), vectors)
