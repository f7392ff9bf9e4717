"""An alignment head that knows one word for each region: a word's vector is that of its region's
code, a word that is no thing's points nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regiontalk.inference.alignment import ALIGNMENT_HEAD
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.evaluation.alignment import AlignedPhotos
from regiontalk.language.vocabulary import SPECIAL, Vocabulary
from regiontalk.models.folder import AlignmentHeadInfo, Head
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import AlignmentPredictionConfig

SIZE = 3  # of a code


class ThingsRuntime(Runtime):
    """`things`: word -> the row of its region."""

    def __init__(self, things: dict[str, int], place_weight: float = 0.0) -> None:
        self.rows = list(things.values())
        settings = AlignmentPredictionConfig(0.5, 24, "cosine", place_weight=place_weight)
        info = AlignmentHeadInfo("detector", settings, {}, {})
        self.heads = {ALIGNMENT_HEAD: Head(info, Vocabulary(tuple(things), "karpathy"), {})}

    def run(self, graph: str, *inputs: Any) -> Sequence[Any]:
        if graph == "vectors":
            return inputs
        vectors = np.zeros((inputs[0].shape[1], SIZE), dtype=np.float32)
        for row, token in enumerate(inputs[0][0].tolist()):
            if token >= len(SPECIAL):
                vectors[row, self.rows[token - len(SPECIAL)]] = 1
        return (vectors,)

    def code_size(self) -> int:
        return SIZE


def things_in(
    coded: CodedPhotos, things: dict[str, int], place_weight: float = 0.0
) -> AlignedPhotos:
    return AlignedPhotos.of_codes(ThingsRuntime(things, place_weight), coded)
