from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regiontalk
from regiontalk.errors import DataError
from regiontalk.images.photo import Photo
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Dataset, Record, TrueRegion
from regiontalk.lab.evaluation.context import Captioned, caption_each_way, evaluate_context


def test_by_hand() -> None:
    rows = [
        Captioned(("a dog", "a dog", "a cat"), (True, True, False)),
        Captioned(("a cat", "a red cat", "a cat"), (True, True, True)),
    ]
    figures = evaluate_context(rows)
    assert figures["regions"] == 2
    assert figures["together"] == {"right": 100, "same_as_together": 100, "different_captions": 2}
    assert figures["alone"] == {"right": 100, "same_as_together": 50, "different_captions": 2}
    assert figures["cut_out"] == {"right": 50, "same_as_together": 50, "different_captions": 1}
    with pytest.raises(DataError, match="no region"):
        evaluate_context([])


def test_ways_differ_in_what_the_model_sees(examples: Path) -> None:
    """A region as large as the photo is captioned alike in every way; half of it, cut out, is a
    photo of its own; tiny ones are left out."""
    dataset = Dataset(examples)
    photo = dataset[0]
    width, height = float(photo.width), float(photo.height)
    boxes = [(0.0, 0.0, width, height), (0.0, 0.0, width // 2, height), (0.0, 0.0, 9.0, 30.0)]
    regions = tuple(TrueRegion(box, "a cat") for box in boxes)
    record = Record(photo.image, photo.width, photo.height, regions=regions)
    asked = DatasetModel(regiontalk.load("fast"), dataset)
    whole, half = caption_each_way(asked, record)
    assert len(set(whole.captions)) == 1
    with asked.open(photo) as source:
        cut = (
            Photo.of(source, asked.model.limits).open().crop((0, 0, photo.width // 2, photo.height))
        )
    assert half.captions[2] == asked.model(cut, boxes=[[0, 0, 1, 1]]).regions[0].caption
    alone = asked.captions(photo, np.array(boxes[1:2])).regions[0]
    assert half.captions[1] == alone.caption
