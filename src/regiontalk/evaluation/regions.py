"""Captions of the true boxes against what people wrote for them (K&FF table 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from regiontalk import boxes
from regiontalk.data.merged_truth import truth_of
from regiontalk.data.records import Record
from regiontalk.errors import DataError
from regiontalk.evaluation.captions import CaptionScores, evaluate_captions
from regiontalk.evaluation.files import Problems
from regiontalk.evaluation.language import CorpusScorer, Pair
from regiontalk.evaluation.matching import boxes_of
from regiontalk.types import ImageRegions

SAME_BOX = 0.9  # IoU from which a predicted box is the true one, rounded


def evaluate_regions(
    truth: Iterable[Record],
    predictions: Iterable[ImageRegions],
    meteor: CorpusScorer | None = None,
    problems: Problems | None = None,
) -> CaptionScores:
    """BLEU, METEOR, CIDEr and ROUGE-L of each true region's caption; a region without one counts as wrong."""
    problems = problems or Problems()
    predicted = {image.path: image for image in predictions}
    pairs: list[Pair] = []
    missing = 0
    for record in truth:
        merged = truth_of(record)
        for box, references in zip(merged.boxes_xyxy, merged.references, strict=True):
            if not references:
                continue
            caption = _caption_at(box, predicted.get(record.image))
            if caption is None:
                missing += 1
                problems.add(record.image, f"no prediction at {box.tolist()}; it counts as wrong")
            pairs.append((caption or "", references))
    if missing == len(pairs):
        raise DataError(
            "no predicted box lies on a true one",
            hint="predict on the truth's own boxes; evaluate dense is for boxes that a model chose",
        )
    return replace(evaluate_captions(pairs, meteor), extra={"missing": missing})


def _caption_at(box: boxes.Floats, image: ImageRegions | None) -> str | None:
    if image is None or not image.regions:
        return None
    overlaps = boxes.iou(box, boxes_of(image.regions))[0]
    nearest = int(np.argmax(overlaps))
    return image.regions[nearest].caption if overlaps[nearest] >= SAME_BOX else None
