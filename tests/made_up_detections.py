"""Detections of a photo, made up for the tests of what follows them."""

from __future__ import annotations

import numpy as np

from regiontalk.inference.regions import Detections, Frame
from regiontalk.models.settings import PredictionConfig

FRAME = Frame(photo_size=(200, 100), size=(100, 50), scale=(0.5, 0.5))
SETTINGS = PredictionConfig(proposals=10, final_nms=0.5)


def detections(*found: tuple[list[float], float, float]) -> Detections:
    """Boxes with the logits of recognition and of proposal."""
    boxes = np.array([box for box, _, _ in found], dtype=np.float32)
    logits, proposed = (
        np.array([row[column] for row in found], dtype=np.float32) for column in (1, 2)
    )
    return Detections(
        boxes,
        proposed,
        boxes,
        logits,
        np.zeros((len(found), 3), np.float32),
        (np.arange(len(found)),),
    )


TWO_AND_A_RIVAL = detections(
    ([0, 0, 20, 20], 1.0, 0.0), ([0, 0, 20, 18], 2.0, -3.0), ([50, 10, 90, 40], 0.0, 5.0)
)
