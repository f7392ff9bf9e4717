"""Drawn scenes: coloured shapes on plain ground, a phrase each and a sentence of all, to train
without any photos."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from regiontalk import boxes
from regiontalk.images.photo import encode
from regiontalk.lab.data.packing import add_member
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.lab.data.writing import write_dataset
from regiontalk.results import BoxXYXY

COLOURS = {
    "red": (214, 40, 40),
    "green": (40, 160, 60),
    "blue": (40, 80, 210),
    "yellow": (240, 200, 30),
}
SHAPES = ("circle", "square", "triangle", "ring")
GROUND = (225, 228, 232)
MOST_OVERLAP = 0.1
SHARD = "images-00.tar"


def draw_scene(
    random: np.random.Generator, width: int, height: int, shapes: int
) -> tuple[Image.Image, list[TrueRegion]]:
    """A picture of up to `shapes` shapes that hardly overlap."""
    picture = Image.new("RGB", (width, height), GROUND)
    pen = ImageDraw.Draw(picture)
    regions: list[TrueRegion] = []
    for _ in range(shapes):
        side = float(random.uniform(0.25, 0.55)) * min(width, height)
        x, y = float(random.uniform(0, width - side)), float(random.uniform(0, height - side))
        box = (round(x, 1), round(y, 1), round(x + side, 1), round(y + side, 1))
        if regions and boxes.iou([box], [region.xyxy for region in regions]).max() > MOST_OVERLAP:
            continue
        colour = str(random.choice(list(COLOURS)))
        shape = str(random.choice(SHAPES))
        _draw_shape(pen, shape, box, COLOURS[colour])
        regions.append(TrueRegion(box, f"a {colour} {shape}"))
    return picture, regions


def write_scenes(
    out: Path,
    train: int,
    dev: int,
    seed: int = 0,
    long_side: int = 128,
    shapes: int = 3,
    force: bool = False,
) -> dict[str, Any]:
    """A data set of drawn scenes in one tar shard, the same bytes for the same seed; returns its
    description."""
    random = np.random.default_rng(seed)

    def scenes(folder: Path) -> Iterator[Record]:
        with tarfile.open(folder / SHARD, "w") as tar:
            for number in range(train + dev):
                height = int(random.integers(long_side * 2 // 3, long_side + 1))
                width, height = (
                    (long_side, height) if random.random() < 0.5 else (height, long_side)
                )
                picture, regions = draw_scene(random, width, height, shapes)
                name = f"scene-{number:05d}.png"
                add_member(tar, name, encode(picture, "PNG"))
                split = "train" if number < train else "dev"
                sentence = " and ".join(region.phrase for region in regions)
                yield Record(name, width, height, split, SHARD, (sentence,), tuple(regions))

    how = {"source": "drawn", "settings": {"seed": seed, "long_side": long_side, "shapes": shapes}}
    return write_dataset(out, force, None, how, scenes)


def _draw_shape(
    pen: ImageDraw.ImageDraw, shape: str, box: BoxXYXY, colour: tuple[int, int, int]
) -> None:
    x0, y0, x1, y1 = box
    if shape == "circle":
        pen.ellipse(box, fill=colour)
    elif shape == "square":
        pen.rectangle(box, fill=colour)
    elif shape == "triangle":
        pen.polygon([(x0, y1), (x1, y1), ((x0 + x1) / 2, y0)], fill=colour)
    else:
        pen.ellipse(box, outline=colour, width=max(3, int(x1 - x0) // 6))
