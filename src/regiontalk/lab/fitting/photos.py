"""Photos that a model looked at once, so that settings can be tried on them without the model.

What is tried goes through the rules of `inference`, as at inference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regiontalk.inference.captions import decode_captions, to_regions
from regiontalk.inference.decoding import Caption
from regiontalk.inference.detect import raw_scores, survivors
from regiontalk.inference.rank import rank, votes
from regiontalk.inference.regions import RegionTable, Rows
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
    recognized: RegionTable
    """All regions, without codes and states, which nothing here needs."""
    captions: Mapping[int, Caption]
    """Row of the regions -> caption, for all that survive NMS under one of the settings that are
    tried."""
    judged: JudgedCaptions | None
    """The captions of those of them that lie on true regions, judged, where that was asked for."""

    def surviving(self, settings: PredictionConfig) -> RegionTable:
        """The captioned regions that survive NMS under `settings`."""
        recognized = scored(self.recognized, settings)
        rows = survivors(recognized, settings)
        regions = recognized.take(rows)
        return replace(
            regions,
            captions=tuple(self.captions[row] for row in rows.tolist()),
            votes=votes(regions, recognized, settings),
        )

    def judged_captions(self, settings: PredictionConfig, words: Vocabulary) -> JudgedCaptions:
        """The judged captions of the regions that the model would report with `settings`."""
        assert self.judged is not None
        rows = survivors(scored(self.recognized, settings), settings)
        kept, _ = rank(self.surviving(settings), settings, words)
        return self.judged.of(rows[kept])

    def regions(self, settings: PredictionConfig, words: Vocabulary) -> ImageRegions:
        """What the model would answer with `settings`."""
        return to_image(self.record, self.surviving(settings), settings, words)


def scored(recognized: RegionTable, settings: PredictionConfig) -> RegionTable:
    """The regions of the best proposals, as many and with the scores that `settings` say."""
    regions = recognized.first(settings.proposals)
    scores = raw_scores(regions.logits, regions.proposal_logits, settings)
    return replace(regions, scores=scores)


def to_image(
    record: Record, regions: RegionTable, settings: PredictionConfig, words: Vocabulary
) -> ImageRegions:
    """The captioned regions, ranked, as an answer."""
    rows, scores = rank(regions, settings, words)
    ranked = replace(regions.take(rows), scores=scores)
    answers = tuple(to_regions(ranked, words))
    return ImageRegions(record.image, record.width, record.height, "", answers)


def look_at(
    dataset_model: DatasetModel,
    record: Record,
    tried: Sequence[PredictionConfig],
    judge_words: bool = False,
) -> SeenPhoto:
    """One photo, with captions for whatever one of the settings `tried` keeps; `judge_words`: and
    whether they are right."""
    model = dataset_model.model
    with dataset_model.open(record) as photo:
        look = model.look(photo, proposals=max(settings.proposals for settings in tried))
    recognized = look.recognized
    rows = _surviving_rows(recognized, tried)
    captions = decode_captions(model.runtime, recognized.take(rows).state)
    captions_by_row = dict(zip(rows.tolist(), captions, strict=True))
    in_record = _in_record(recognized, record)
    judged = None
    if judge_words:
        boxes_xyxy = in_record.boxes_xyxy
        judged = judge_captions(model, recognized, boxes_xyxy, captions_by_row, record)
    kept = replace(in_record, recognition_codes=recognized.recognition_codes[:0], state=())
    return SeenPhoto(record, kept, captions_by_row, judged)


def _surviving_rows(recognized: RegionTable, tried: Sequence[PredictionConfig]) -> Rows:
    """The rows that survive NMS under one of the settings `tried`."""
    choices = {
        (settings.proposals, settings.score, settings.final_nms): settings for settings in tried
    }
    kept = [survivors(scored(recognized, settings), settings) for settings in choices.values()]
    return np.unique(np.concatenate(kept))


def _in_record(regions: RegionTable, record: Record) -> RegionTable:
    """The regions with boxes in the pixels of a record."""
    width, height = regions.frame.photo_size
    scale_x, scale_y = regions.frame.scale
    scale = (scale_x * (width / record.width), scale_y * (height / record.height))
    frame = regions.frame._replace(photo_size=(record.width, record.height), scale=scale)
    return replace(regions, frame=frame, boxes_xyxy=frame.to_photo(regions.input_xyxy))
