"""Fits the table of colours (`inference.colours`) on people's phrases that say the colour of what
is in a box.

It is fitted like the names (`lab.fitting.names`), from histograms in place of codes. A phrase of
two colours is an example of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regiontalk.inference.colours import colour_histograms
from regiontalk.lab.data.dataset_model import DatasetModel
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.matching import boxes_of
from regiontalk.lab.fitting import names
from regiontalk.lab.fitting.names import NAMED_TYPES, NamedCodes
from regiontalk.language.colours import colours_said
from regiontalk.language.vocabulary import clean_karpathy
from regiontalk.models.name_table import NameTable


def look_at_colours(asked: DatasetModel, record: Record) -> list[NamedCodes]:
    """The regions of a photo whose phrases say colours."""
    regions = []
    colours = []
    for region in record.regions:
        said = [] if region.type in NAMED_TYPES else colours_said(clean_karpathy(region.phrase))
        regions += [region] * len(said)
        colours += said
    if not regions:
        return []
    image, frame, boxes_xyxy = asked.network_input(record, boxes_of(regions))
    inputs = colour_histograms(image, frame, boxes_xyxy)
    said_colours = tuple(colours)
    return [NamedCodes(record.image, said_colours, said_colours, (False,) * len(colours), inputs)]


def fit(photos: Sequence[NamedCodes], detector: str) -> tuple[NameTable, dict[str, Any]]:
    """The table of colours, and how well it tells those of held-out photos."""
    return names.fit(photos, detector)
