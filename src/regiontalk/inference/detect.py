"""The detection steps of `inference.look`: NMS of proposals, recognition, NMS of regions (DenseCap
3.1, at test time).

Shapes: K proposals, B boxes that are recognised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.inference.calibration import Scores, sigmoid
from regiontalk.inference.regions import ROWS_AT_ONCE, Frame, RegionTable, Rows
from regiontalk.models.runtime import Floats, Proposed, Recognized, Runtime
from regiontalk.models.settings import PredictionConfig


def best_proposals(
    runtime: Runtime, proposed: Proposed, settings: PredictionConfig, count: int
) -> Rows:
    """The `count` best proposals that survive NMS, best first."""
    ranked = np.argsort(-proposed.logits, kind="stable")[: settings.candidates]
    return ranked[runtime.nms(proposed.boxes_xyxy[ranked], settings.proposal_nms, count)]


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
        boxes_xyxy = boxes_xyxy[order]
        scores = np.full(len(scores), 0.5)
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    logits = np.log(clipped / (1 - clipped)).astype(np.float32)
    return proposed._replace(boxes_xyxy=frame.to_input(boxes_xyxy), logits=logits)


def recognize_proposals(
    runtime: Runtime, proposed: Proposed, frame: Frame, rows: Rows, settings: PredictionConfig
) -> RegionTable:
    """These rows of the proposals, refined and scored by the recognition network, in their
    order."""
    if not len(rows):
        return recognize_given(runtime, proposed, frame, np.zeros((0, 4)), settings)
    proposals_xyxy = proposed.boxes_xyxy[rows]
    proposal_logits = proposed.logits[rows]
    recognized = runtime.recognize(proposed.features, frame.size, proposals_xyxy)
    is_refined = settings.score != "proposal"
    input_xyxy = recognized.boxes_xyxy if is_refined else proposals_xyxy
    return RegionTable(
        frame,
        boxes_xyxy=frame.to_photo(input_xyxy),
        scores=raw_scores(recognized.logits, proposal_logits, settings),
        input_xyxy=input_xyxy,
        logits=recognized.logits,
        proposals_xyxy=proposals_xyxy,
        proposal_logits=proposal_logits,
        recognition_codes=recognized.codes,
        state=recognized.state,
    )


def recognize_given(
    runtime: Runtime,
    proposed: Proposed,
    frame: Frame,
    boxes_xyxy: NDArray[np.float64],
    settings: PredictionConfig,
) -> RegionTable:
    """Given boxes (B, 4) in the photo's pixels, recognised as they are, in their order."""
    if not len(boxes_xyxy):  # no graph takes an empty array
        whole = np.array([[0.0, 0.0, *frame.photo_size]])
        return recognize_given(runtime, proposed, frame, whole, settings).first(0)
    input_xyxy = frame.to_input(boxes_xyxy)
    recognized = _recognize_in_parts(runtime, proposed, frame, input_xyxy)
    return RegionTable(
        frame,
        boxes_xyxy=boxes_xyxy,
        scores=_given_scores(recognized.logits, settings),
        input_xyxy=input_xyxy,
        logits=recognized.logits,
        proposals_xyxy=input_xyxy,
        proposal_logits=np.zeros_like(recognized.logits),
        recognition_codes=recognized.codes,
        state=recognized.state,
    )


def _recognize_in_parts(
    runtime: Runtime, proposed: Proposed, frame: Frame, input_xyxy: Floats
) -> Recognized:
    parts = [
        runtime.recognize(proposed.features, frame.size, input_xyxy[start : start + ROWS_AT_ONCE])
        for start in range(0, len(input_xyxy), ROWS_AT_ONCE)
    ]
    states = zip(*(part.state for part in parts), strict=True)
    return Recognized(
        np.concatenate([part.boxes_xyxy for part in parts]),
        np.concatenate([part.logits for part in parts]),
        np.concatenate([part.codes for part in parts]),
        tuple(np.concatenate(column) for column in states),
    )


def raw_scores(logits: Floats, proposal_logits: Floats, settings: PredictionConfig) -> Scores:
    """(B,) the scores that the second NMS sorts by."""
    if settings.score == "proposal":
        return sigmoid(proposal_logits)
    scores = sigmoid(logits)
    return scores * sigmoid(proposal_logits) if settings.score == "product" else scores


def _given_scores(logits: Floats, settings: PredictionConfig) -> Scores:
    """(B,) the scores of given boxes, which have no proposal score: 1 if the network has no
    recognition score either."""
    return np.ones(len(logits)) if settings.score == "proposal" else sigmoid(logits)


def survivors(recognized: RegionTable, settings: PredictionConfig) -> Rows:
    """The rows that survive the second NMS, highest score first."""
    return geometry.nms(recognized.input_xyxy, recognized.scores, settings.final_nms)
