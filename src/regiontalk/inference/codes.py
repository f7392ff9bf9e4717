"""What the heads read: codes of the whole photo and of its regions (K&FF 3.1.1).

Shapes: R regions, D the size of a code of the recognition network, A of an appearance, h of a
vector of the alignment head.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from regiontalk import boxes as geometry
from regiontalk.inference.alignment import ALIGNMENT_HEAD, region_vectors
from regiontalk.inference.calibration import sigmoid
from regiontalk.inference.regions import Look, RegionTable
from regiontalk.models.runtime import Runtime

BEST_REGIONS = 19  # K&FF 3.1.1: "the top 19 detected locations in addition to the whole image"
SURROUNDINGS_SCALE = 2.0  # times as wide and high as a region: enough to show its context


def whole_and_best(runtime: Runtime, look: Look, count: int) -> RegionTable:
    """The whole photo (row 0) and its `count` best regions, or the first given boxes."""
    frame = look.frame
    best = look.regions.first(count)
    whole = runtime.recognize(look.proposed.features, frame.size, frame.whole_xyxy)
    whole_xyxy = np.array([[0.0, 0.0, *frame.photo_size]])
    states = zip(whole.state, best.state, strict=True)
    return RegionTable(
        frame,
        boxes_xyxy=np.concatenate([whole_xyxy, best.boxes_xyxy]),
        scores=np.concatenate([sigmoid(whole.logits), best.scores]),
        input_xyxy=np.concatenate([frame.whole_xyxy, best.input_xyxy]),
        logits=np.concatenate([whole.logits, best.logits]),
        recognition_codes=np.concatenate([whole.codes, best.recognition_codes]),
        state=tuple(np.concatenate(parts) for parts in states),
    )


def with_codes(runtime: Runtime, look: Look, regions: RegionTable) -> RegionTable:
    """Some regions of a photo with `codes`, which the heads and the names read: the code of the
    recognition network, then the appearance."""
    appearance = runtime.pooled_features(look.proposed.deep, regions.input_xyxy)
    codes = np.concatenate([regions.recognition_codes, appearance], axis=1)
    return replace(regions, codes=codes)


def with_surroundings(runtime: Runtime, look: Look, regions: RegionTable) -> RegionTable:
    """The regions with the codes of their boxes, enlarged by `SURROUNDINGS_SCALE`."""
    enlarged = geometry.enlarge(regions.input_xyxy, SURROUNDINGS_SCALE)
    input_xyxy = geometry.clip(enlarged, *look.frame.size).astype(np.float32)
    recognized = runtime.recognize(look.proposed.features, look.frame.size, input_xyxy)
    around = replace(regions, input_xyxy=input_xyxy, recognition_codes=recognized.codes)
    return replace(regions, surroundings=with_codes(runtime, look, around).codes)


def with_vectors(runtime: Runtime, look: Look, regions: RegionTable) -> RegionTable:
    """The regions with codes for the names, and with the alignment head's vectors, as far as the
    model has them."""
    is_aligning = ALIGNMENT_HEAD in runtime.heads
    if not is_aligning and runtime.names is None:
        return regions
    regions = with_codes(runtime, look, regions)
    if not is_aligning:
        return regions
    return replace(regions, vectors=region_vectors(runtime, regions.codes))
