"""Photos that a model looked at once, so that settings can be tried on them without the model.

What is tried goes through the rules of `inference`, as at inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regiontalk.inference.captions import Said, decode_captions, to_regions
from regiontalk.inference.decoding import Caption
from regiontalk.inference.detect import survivors
from regiontalk.inference.rank import Evidence, evidence_of, rank
from regiontalk.inference.regions import Detections, Frame
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.fitting.confidence import JudgedCaptions, judge_captions
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import PredictionConfig
from regiontalk.results import ImageRegions


@dataclass(frozen=True)
class SeenPhoto:
    """What a model found in a photo, in its record's pixels."""

    record: Record
    frame: Frame
    detections: Detections
    """Without codes and states, which nothing here needs."""
    captions: Mapping[int, Caption]
    """By row of the detections: of all that survive NMS under one of the settings that are
    tried."""
    judged: JudgedCaptions | None
    """Of those of them that lie on true regions, where they were asked for."""

    def evidence(self, settings: PredictionConfig) -> Evidence:
        """What the regions that survive under `settings` are scored by."""
        detections = self.detections.first(settings.proposals)
        rows = survivors(detections, settings)
        captions = [self.captions[row] for row in rows.tolist()]
        return evidence_of(detections, rows, captions, self.frame, settings)

    def judged_captions(self, settings: PredictionConfig, words: Vocabulary) -> JudgedCaptions:
        """Of the regions that the model would tell with `settings`."""
        assert self.judged is not None
        rows = survivors(self.detections.first(settings.proposals), settings)
        kept, _ = rank(self.evidence(settings), settings, words)
        return self.judged.of(rows[kept])

    def regions(self, settings: PredictionConfig, words: Vocabulary) -> ImageRegions:
        """What the model would answer with `settings`."""
        return to_image(self.record, self.evidence(settings), settings, words)


def to_image(
    record: Record, evidence: Evidence, settings: PredictionConfig, words: Vocabulary
) -> ImageRegions:
    kept, scores = rank(evidence, settings, words)
    said = Said([evidence.captions[row] for row in kept.tolist()], None)
    regions = to_regions(evidence.boxes_xyxy[kept], scores, said, words)
    return ImageRegions(record.image, record.width, record.height, "", tuple(regions))


def look_at(
    asked: DatasetModel,
    record: Record,
    tried: Sequence[PredictionConfig],
    judge_words: bool = False,
) -> SeenPhoto:
    """One photo, with captions for whatever one of the settings `tried` keeps; `judge_words`: and
    whether right."""
    model = asked.model
    with asked.open(record) as photo:
        look = model.look(photo, proposals=max(settings.proposals for settings in tried))
    choices = {
        (settings.proposals, settings.score, settings.final_nms): settings for settings in tried
    }
    kept = [survivors(look.detections.first(one.proposals), one) for one in choices.values()]
    rows = np.unique(np.concatenate(kept))
    said = decode_captions(model.runtime, look.detections.states(rows))
    captions = dict(zip(rows.tolist(), said, strict=True))
    (width, height), (scale_x, scale_y) = look.frame.photo_size, look.frame.scale
    scale = (scale_x * (width / record.width), scale_y * (height / record.height))
    frame = look.frame._replace(photo_size=(record.width, record.height), scale=scale)
    boxes = frame.to_photo(look.detections.boxes_xyxy)
    judged = judge_captions(model, look, boxes, captions, record) if judge_words else None
    detections = look.detections._replace(codes=look.detections.codes[:, :0], state=())
    return SeenPhoto(record, frame, detections, captions, judged)
