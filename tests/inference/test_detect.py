"""Which recognised boxes become regions, on numbers made up here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_up_detections import SETTINGS, TWO_AND_A_RIVAL
from regiontalk.inference.detect import raw_scores, survivors


@pytest.mark.parametrize(("score", "kept"), [("final", [1, 2]), ("product", [2, 0])])
def test_of_overlapping_regions_the_best_survives(score: str, kept: list[int]) -> None:
    settings = replace(SETTINGS, score=score)
    found = TWO_AND_A_RIVAL
    scores = raw_scores(found.logits, found.proposal_logits, settings)
    assert survivors(replace(found, scores=scores), settings).tolist() == kept


def test_the_first_proposals_are_as_if_no_more_had_been_asked_for() -> None:
    first = TWO_AND_A_RIVAL.first(2)
    assert survivors(first, SETTINGS).tolist() == [1]
