"""Examples of colours are what people's phrases say of boxes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from regiontalk.inference.colours import BINS
from regiontalk.inference.regions import Frame
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.fitting.colours import fit, look_at_colours

FRAME = Frame((100, 100), (100, 100), (1.0, 1.0))
LEFT = (0.0, 0.0, 40.0, 100.0)
RIGHT = (60.0, 0.0, 100.0, 100.0)


def asked() -> Any:
    """A data set whose photos are red on the left and blue on the right."""
    image = np.zeros((1, 3, 100, 100), dtype=np.float32)
    image[0, 0, :, :50] = 200
    image[0, 2, :, 50:] = 200

    def network_input(_: Record, boxes_xyxy: Any) -> Any:
        return image, FRAME, np.asarray(boxes_xyxy, dtype=np.float32)

    return SimpleNamespace(network_input=network_input)


def record(name: str, *regions: TrueRegion) -> Record:
    return Record(image=name, width=100, height=100, split="train", regions=regions)


def test_every_colour_of_a_phrase_is_an_example() -> None:
    photo = record(
        "a.jpg",
        TrueRegion(LEFT, "a red and white flag", "other"),
        TrueRegion(RIGHT, "A blue shirt .", "clothing"),
        TrueRegion(RIGHT, "a man", "people"),
        TrueRegion(LEFT, "orange", "object"),
    )
    (examples,) = look_at_colours(asked(), photo)
    assert examples.names == ("red", "white", "blue")
    assert examples.codes.shape == (3, 3 * BINS)
    assert (examples.codes[0] == examples.codes[1]).all()
    assert (examples.codes[0] != examples.codes[2]).any()
    assert look_at_colours(asked(), record("b.jpg", TrueRegion(LEFT, "a man", "people"))) == []


def test_the_table_tells_colours_apart() -> None:
    photos = []
    for number in range(40):
        regions = (TrueRegion(LEFT, "a red flag"), TrueRegion(RIGHT, "a blue flag"))
        photos += look_at_colours(asked(), record(f"{number}.jpg", *regions))
    table, report = fit(photos, "detector")
    assert table.names == ("blue", "red")
    assert report["right"] == 100
