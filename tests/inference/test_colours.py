"""Colours are read from pixels, and captions leave out those that a region hardly has."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regiontalk.errors import ModelError
from regiontalk.inference.colours import (
    BINS,
    colour_histograms,
    say_likely_colours,
    with_colours,
)
from regiontalk.inference.decoding import Caption
from regiontalk.inference.regions import Frame, RegionTable
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.name_table import NameTable

WORDS = Vocabulary(("a", "an", "dog", "red", "blue", "orange", "and", "umbrella"), "karpathy")
FRAME = Frame((200, 100), (100, 50), (0.5, 0.5))
BOXES = np.array([[10, 10, 30, 30], [60, 10, 80, 30]], dtype=np.float32)


def red_then_blue() -> Any:
    """A photo whose left half is red and whose right half is blue, padded with green below."""
    image = np.zeros((1, 3, 64, 112), dtype=np.float32)
    image[0, 1] = 200
    image[0, :, :50, :100] = 0
    image[0, 0, :50, :50] = 200
    image[0, 2, :50, 50:100] = 200
    return image


def table() -> NameTable:
    """Red and blue by what is in the box, as the photo has them."""
    boxes = colour_histograms(red_then_blue(), FRAME, BOXES)
    weights = np.zeros((2, 3 * BINS), dtype=np.float32)
    weights[:, : 2 * BINS] = 4 * boxes[:, : 2 * BINS]
    return NameTable("d", ("red", "blue"), ("red", "blue"), weights, np.zeros(2, np.float32))


def runtime(colours: NameTable | None) -> Any:
    return SimpleNamespace(colours=colours, words=WORDS, info=SimpleNamespace(name="model"))


def regions_of(colours: NameTable | None) -> RegionTable:
    look: Any = SimpleNamespace(image=red_then_blue(), frame=FRAME)
    regions = RegionTable(FRAME, np.zeros((2, 4)), np.zeros(2), input_xyxy=BOXES)
    regions = with_colours(runtime(colours), look, regions)
    if colours is None:
        return regions
    unsure = [[0.1, 0.3]]
    twice = regions.take(np.array([0, 1, 1]))
    return replace(twice, colours=np.concatenate([regions.colours, unsure]))


def said(text: str, regions: RegionTable, colours: NameTable | None, row: int = 0) -> Caption:
    tokens = tuple(WORDS.encode(text.split()))
    logprobs = tuple(-float(place) for place in range(len(tokens) + 1))
    captions = [Caption(tokens, logprobs)]
    (caption,) = say_likely_colours(captions, np.array([row]), regions, runtime(colours))
    return caption


def test_histograms_tell_the_box_from_what_is_around_it_and_leave_out_the_padding() -> None:
    boxes = np.array([[45, 0, 50, 50], [70, 40, 90, 50]], dtype=np.float32)
    inside, centre, around = np.split(colour_histograms(red_then_blue(), FRAME, boxes), 3, axis=1)
    red, blue = inside.argmax(axis=1)
    assert red != blue
    assert inside[0, red] == centre[0, red] == pytest.approx(1)
    assert around[0, red] > 0
    assert around[0, blue] > 0
    assert around[1].argmax() == blue
    assert around[1, blue] == pytest.approx(1), "the green padding is no part of the photo"
    assert np.square(around).sum(axis=1) == pytest.approx([1, 1])


def test_a_box_without_area_has_a_histogram() -> None:
    boxes = np.array([[20, 20, 20, 20]], dtype=np.float32)
    assert np.isfinite(colour_histograms(red_then_blue(), FRAME, boxes)).all()


@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("a red dog", 0, "a red dog"),
        ("a blue dog", 0, "a red dog"),
        ("a blue umbrella", 0, "a red umbrella"),
        ("a blue and red dog", 0, "a red dog"),
        ("a red dog", 1, "a blue dog"),
        ("a red dog", 2, "a dog"),  # unsure
        ("a red umbrella", 2, "an umbrella"),
        ("an orange dog", 1, "an orange dog"),  # the table does not know it
        ("a dog", 0, "a dog"),
        ("a blue and blue dog", 1, "a blue dog"),
    ],
)
def test_captions_say_likely_colours(text: str, row: int, expected: str) -> None:
    colours = table()
    caption = said(text, regions_of(colours), colours, row)
    assert WORDS.decode(caption.tokens) == expected
    assert len(caption.logprobs) == len(caption.tokens) + 1
    assert caption.logprobs[-1] == -len(text.split()), "that of END"


def test_without_a_table_captions_stay_as_they_are() -> None:
    regions = regions_of(None)
    assert len(regions.colours) == 0
    for text in ("a blue dog", "a blue and blue dog"):
        assert WORDS.decode(said(text, regions, None).tokens) == text


def test_colours_follow_their_regions() -> None:
    regions = regions_of(table())
    assert regions.take(np.array([1])).colours.tolist() == regions.colours[1:2].tolist()


def test_a_table_for_other_histograms_is_refused() -> None:
    other = replace(table(), weights=np.zeros((2, 7), dtype=np.float32))
    with pytest.raises(ModelError, match="other inputs"):
        regions_of(other)
