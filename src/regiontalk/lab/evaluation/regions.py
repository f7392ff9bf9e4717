"""Captions of the true boxes against what people wrote for them (K&FF table 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from regiontalk.errors import DataError
from regiontalk.lab.data.merged_truth import truth_of
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.captions import evaluate_captions
from regiontalk.lab.evaluation.files import Problems
from regiontalk.lab.evaluation.language import CorpusScorer, Pair
from regiontalk.lab.evaluation.matching import captions_at
from regiontalk.results import ImageRegions


def evaluate_regions(
    truth: Iterable[Record],
    predictions: Iterable[ImageRegions],
    meteor: CorpusScorer | None = None,
    problems: Problems | None = None,
) -> dict[str, Any]:
    """BLEU, METEOR, CIDEr and ROUGE-L of each true region's caption, with 95 % intervals over
    photos; a region without a caption counts as wrong."""
    problems = problems or Problems()
    predicted = {image.path: image.regions for image in predictions}
    pairs: list[Pair] = []
    photos: list[str] = []
    missing = 0
    for record in truth:
        merged = truth_of(record)
        captions = captions_at(merged.boxes_xyxy, predicted.get(record.image, ()))
        for box, references, caption in zip(
            merged.boxes_xyxy, merged.references, captions, strict=True
        ):
            if not references:
                continue
            if caption is None:
                missing += 1
                problems.add(record.image, f"no prediction at {box.tolist()}; it counts as wrong")
            pairs.append((caption or "", references))
            photos.append(record.image)
    if missing == len(pairs):
        raise DataError(
            "no predicted box lies on a true one",
            hint="predict on the truth's own boxes; evaluate dense is for boxes that a model chose",
        )
    return evaluate_captions(pairs, meteor, photos) | {"missing": missing}
