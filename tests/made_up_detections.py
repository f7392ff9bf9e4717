"""Detections of a photo, made up for the tests of what follows them."""

from __future__ import annotations

import numpy as np

from regiontalk.inference.detect import raw_scores
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.models.settings import PredictionConfig

FRAME = Frame(photo_size=(200, 100), size=(100, 50), scale=(0.5, 0.5))
SETTINGS = PredictionConfig(proposals=10, final_nms=0.5)


def detections(*found: tuple[list[float], float, float]) -> RegionTable:
    """Boxes with the logits of recognition and of proposal."""
    boxes = np.array([box for box, _, _ in found], dtype=np.float32)
    logits = np.array([logit for _, logit, _ in found], dtype=np.float32)
    proposal_logits = np.array([logit for _, _, logit in found], dtype=np.float32)
    return RegionTable(
        FRAME,
        boxes_xyxy=FRAME.to_photo(boxes),
        scores=raw_scores(logits, proposal_logits, SETTINGS),
        input_xyxy=boxes,
        logits=logits,
        proposals_xyxy=boxes,
        proposal_logits=proposal_logits,
        recognition_codes=np.zeros((len(found), 3), np.float32),
        state=(np.arange(len(found), dtype=np.float32),),
    )


TWO_AND_A_RIVAL = detections(
    ([0, 0, 20, 20], 1.0, 0.0), ([0, 0, 20, 18], 2.0, -3.0), ([50, 10, 90, 40], 0.0, 5.0)
)
