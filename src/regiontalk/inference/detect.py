"""From a network's outputs to the regions of a photo: propose, NMS, recognise, NMS (DenseCap 3.1,
test time).

Shapes: K proposals, B boxes that are recognised, R regions that survive NMS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores, sigmoid
from regiontalk.inference.regions import ROWS_AT_ONCE, Detections, Frame, Rows
from regiontalk.models.runtime import Proposed, Runtime
from regiontalk.models.settings import PredictionConfig


def detect(
    runtime: Runtime, proposed: Proposed, frame: Frame, settings: PredictionConfig, limit: int
) -> Detections:
    """The `limit` best proposals that survive NMS, recognised."""
    boxes, logits = proposed.boxes_xyxy, proposed.logits
    ranked = np.argsort(-logits, kind="stable")[: settings.candidates]
    chosen = ranked[runtime.nms(boxes[ranked], settings.proposal_nms, limit)]
    if not len(chosen):
        return detect_given(runtime, proposed, frame, np.zeros((0, 4)))
    recognized = runtime.recognize(proposed.features, frame.size, boxes[chosen])
    found = Detections(boxes[chosen], logits[chosen], *recognized)
    return (
        found._replace(boxes_xyxy=found.proposals_xyxy) if settings.score == "proposal" else found
    )


def replace_proposals(
    proposed: Proposed,
    frame: Frame,
    boxes_xyxy: NDArray[np.float64],
    scores: Scores,
    settings: PredictionConfig,
) -> Proposed:
    """Uses other proposals than the network's: boxes (B, 4) in the photo's pixels with scores (B,).

    A network with a recognition score ranks them by that score only, because theirs may have
    another scale.
    """
    if settings.score != "proposal":
        order = np.argsort(-scores, kind="stable")
        boxes_xyxy, scores = boxes_xyxy[order], np.full(len(scores), 0.5)
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    logits = np.log(clipped / (1 - clipped)).astype(np.float32)
    return proposed._replace(boxes_xyxy=frame.to_input(boxes_xyxy), logits=logits)


def detect_given(
    runtime: Runtime, proposed: Proposed, frame: Frame, boxes_xyxy: NDArray[np.float64]
) -> Detections:
    """Given boxes (B, 4) in the photo's pixels, recognised as they are."""
    if not len(boxes_xyxy):  # no graph takes an empty array
        return detect_given(
            runtime, proposed, frame, np.array([[0.0, 0.0, *frame.photo_size]])
        ).first(0)
    boxes = frame.to_input(boxes_xyxy)
    parts = [
        runtime.recognize(proposed.features, frame.size, boxes[start : start + ROWS_AT_ONCE])
        for start in range(0, len(boxes), ROWS_AT_ONCE)
    ]
    logits = np.concatenate([part.logits for part in parts])
    codes = np.concatenate([part.codes for part in parts])
    state = tuple(
        np.concatenate(columns) for columns in zip(*(part.state for part in parts), strict=True)
    )
    return Detections(boxes, np.zeros_like(logits), boxes, logits, codes, state)


def given_scores(detections: Detections, settings: PredictionConfig) -> Scores:
    """(B,) of given boxes, which have no proposal score: 1 if the network has no recognition score
    either."""
    return (
        np.ones(len(detections.logits))
        if settings.score == "proposal"
        else sigmoid(detections.logits)
    )


def raw_scores(detections: Detections, settings: PredictionConfig) -> Scores:
    """(B,) the scores that the second NMS sorts by."""
    if settings.score == "proposal":
        return sigmoid(detections.proposal_logits)
    scores = sigmoid(detections.logits)
    return scores * sigmoid(detections.proposal_logits) if settings.score == "product" else scores


def survivors(detections: Detections, settings: PredictionConfig) -> Rows:
    """The rows that survive the second NMS, highest score first."""
    return geometry.nms(detections.boxes_xyxy, raw_scores(detections, settings), settings.final_nms)
