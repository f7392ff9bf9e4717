"""The way of a photo, step by step: from the network's input to regions (`look_at`), and from
regions to captions (`caption`).

Everything that a model says of a photo is computed from a `Look`: captions here, the input of the
heads in `inference.codes`. The steps are numpy, and the same for every runtime.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import ModelError
from regiontalk.inference.agreement import agree, drop_same
from regiontalk.inference.calibration import Scores, calibrated
from regiontalk.inference.captions import choose_captions, with_captions
from regiontalk.inference.colours import with_colours
from regiontalk.inference.detect import (
    best_proposals,
    recognize_given,
    recognize_proposals,
    replace_proposals,
    survivors,
)
from regiontalk.inference.naming import with_names
from regiontalk.inference.rank import drop_repeats, rank, votes, weigh_captions
from regiontalk.inference.regions import Frame, Look, RegionTable, Rows
from regiontalk.models.runtime import Floats, Runtime
from regiontalk.results import SHOWN_DIGITS

Boxes = NDArray[np.float64]


def look_at(
    runtime: Runtime,
    photo: Any,
    image: Floats,
    frame: Frame,
    *,
    boxes_xyxy: Boxes | None = None,
    proposals: int | None = None,
    candidates: tuple[Boxes, Scores] | None = None,
) -> Look:
    """Propose, NMS, recognise, NMS; or recognise given boxes. `image` (1, 3, H, W) is the network's
    input, boxes are in the photo's pixels. See `Model.look`."""
    settings = runtime.info.prediction
    proposed = runtime.propose(image, frame.size)
    if boxes_xyxy is not None:
        regions = recognize_given(runtime, proposed, frame, boxes_xyxy, settings)
        return Look(photo, image, proposed, regions, regions, given=True)
    if candidates is not None:
        proposed = replace_proposals(proposed, frame, *candidates, settings)
    elif not len(proposed.logits):
        raise ModelError(
            f"the model {runtime.info.name!r} cannot detect regions",
            hint="give them with predict --regions",
        )
    best = best_proposals(runtime, proposed, settings, proposals or settings.proposals)
    recognized = recognize_proposals(runtime, proposed, frame, best, settings)
    regions = recognized.take(survivors(recognized, settings))
    return Look(photo, image, proposed, recognized, regions, given=False)


def caption(
    runtime: Runtime,
    look: Look,
    beam: int = 1,
    threshold: float = 0.0,
    max_words: int | None = None,
) -> RegionTable:
    """Caption, rank, calibrate, drop repeats, choose the length, name, weigh caption against name.
    See `Model.regions`."""
    settings = runtime.info.prediction
    regions = look.regions
    if look.given:  # raw scores: ranking and calibration are fitted for detected regions
        regions = with_captions(runtime, regions, beam)
        scores = weigh_captions(regions.scores, regions.captions, settings)
        regions = with_colours(runtime, look, replace(regions, scores=scores))
        regions = choose_captions(runtime, regions, max_words, beam)
        return agree(runtime, with_names(runtime, look, regions), max_words)
    if settings.ranking is None:  # then captions can only lower a score
        scores = calibrated(regions.scores, settings.calibration)
        regions = regions.take(_reaching(scores, threshold))
    regions = with_captions(runtime, regions, beam)
    regions = replace(regions, votes=votes(regions, look.recognized, settings))
    rows, scores = rank(regions, settings, runtime.words)
    regions = replace(regions.take(rows), scores=scores)
    regions = with_colours(runtime, look, regions.take(_reaching(scores, threshold)))
    regions = choose_captions(runtime, regions, max_words, beam)
    regions = agree(runtime, with_names(runtime, look, regions), max_words)
    regions = drop_repeats(regions, runtime.words)  # captions of other lengths may be equal again
    return drop_same(regions, runtime.words)


def _reaching(scores: Scores, threshold: float) -> Rows:
    """The rows with a score that reaches the threshold as people read it (`results.reaches`)."""
    return np.flatnonzero(np.maximum(scores, scores.round(SHOWN_DIGITS)) >= threshold)
