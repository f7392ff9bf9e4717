"""Captions of given regions against what people wrote for them (K&FF table 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from regiontalk import boxes
from regiontalk.data.records import Record
from regiontalk.errors import DataError
from regiontalk.evaluation.captions import CaptionScores, evaluate_captions
from regiontalk.evaluation.files import Problems
from regiontalk.evaluation.language import CorpusScorer, Pair
from regiontalk.evaluation.matching import boxes_of
from regiontalk.types import BoxXYXY, ImageRegions

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
        for box, references in references_by_box(record).items():
            caption = _caption_at(box, predicted.get(record.image))
            if caption is None:
                missing += 1
                problems.add(record.image, f"no prediction at {list(box)}; it counts as wrong")
            pairs.append((caption or "", references))
    if missing == len(pairs):
        raise DataError(
            "no predicted box lies on a true one",
            hint="predict on the truth's own boxes; evaluate dense is for boxes that a model chose",
        )
    return replace(evaluate_captions(pairs, meteor), extra={"missing": missing})


def references_by_box(record: Record) -> Mapping[BoxXYXY, list[str]]:
    """What was written for each box; phrases on the very same box are references of one region."""
    found: dict[BoxXYXY, list[str]] = {}
    for region in record.regions:
        found.setdefault(region.xyxy, []).extend(region.references)
    return {box: references for box, references in found.items() if references}


def _caption_at(box: BoxXYXY, image: ImageRegions | None) -> str | None:
    if image is None or not image.regions:
        return None
    overlaps = boxes.iou(box, boxes_of(image.regions))[0]
    nearest = int(np.argmax(overlaps))
    return image.regions[nearest].caption if overlaps[nearest] >= SAME_BOX else None
