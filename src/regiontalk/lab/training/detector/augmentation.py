"""Changes of a training photo that move its boxes along and keep its phrases true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regiontalk import boxes
from regiontalk.images.photo import PADDING_GREY, resize
from regiontalk.lab.training.recipe.detector import AugmentationConfig

LUMINANCE = np.array([0.299, 0.587, 0.114])  # of red, green and blue
MIDDLE_GREY = 127.5
SMALLEST_SHARE = 0.5  # a box that keeps less of its area than this is cropped away


@dataclass(frozen=True)
class View:
    """A photo as the net sees it: pixels (H, W, 3), boxes in them, and which of the given boxes are
    left."""

    pixels: NDArray[np.uint8]
    boxes_xyxy: NDArray[np.floating]
    kept: NDArray[np.bool_]


def plain_view(photo: Image.Image, boxes_xyxy: NDArray[np.floating], long_side: int) -> View:
    """No change but the size."""
    resized = resize(photo, long_side)
    scaled = boxes.scale(boxes_xyxy, *resized.scales)
    return View(resized.pixels, scaled, np.ones(len(scaled), dtype=bool))


def stretched_view(
    photo: Image.Image, boxes_xyxy: NDArray[np.floating], size: tuple[int, int]
) -> View:
    """The photo at a size (width, height) that need not keep its shape."""
    pixels = np.array(photo.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0))
    scaled = boxes.scale(boxes_xyxy, size[0] / photo.width, size[1] / photo.height)
    return View(pixels, scaled, np.ones(len(scaled), dtype=bool))


@dataclass(frozen=True)
class Quarter:
    """Where a photo is in a mosaic: how much it is reduced, and its left and top."""

    scales: tuple[float, float]
    left: int
    top: int

    def boxes(self, boxes_xyxy: NDArray[np.floating]) -> NDArray[np.floating]:
        """The photo's boxes (N, 4) in the mosaic."""
        scaled = boxes.scale(boxes_xyxy.reshape(-1, 4), *self.scales)
        return scaled + np.array([self.left, self.top, self.left, self.top])


def quarter(
    photos: Sequence[Image.Image], size: tuple[int, int]
) -> tuple[Image.Image, list[Quarter]]:
    """Four photos in the quarters of a grey one of such width and height, each as large as fits."""
    across, down = size[0] // 2, size[1] // 2
    mosaic = Image.new("RGB", size, (PADDING_GREY, PADDING_GREY, PADDING_GREY))
    quarters = []
    for number, photo in enumerate(photos):
        fit = min(across / photo.width, down / photo.height)
        width, height = max(1, round(photo.width * fit)), max(1, round(photo.height * fit))
        left, top = across * (number % 2), down * (number // 2)
        reduced = photo.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
        mosaic.paste(reduced, (left, top))
        quarters.append(Quarter((width / photo.width, height / photo.height), left, top))
    return mosaic, quarters


def random_zoom(config: AugmentationConfig, random: np.random.Generator) -> float:
    """A factor from 1/zoom to zoom; as often below 1 as above."""
    power = (
        random.choice(np.linspace(-1, 1, config.zooms)) if config.zooms else random.uniform(-1, 1)
    )
    return float(config.zoom**power)


def random_view(
    photo: Image.Image,
    boxes_xyxy: NDArray[np.floating],
    long_side: int,
    may_flip: bool,
    config: AugmentationConfig,
    random: np.random.Generator,
    size: tuple[int, int] | None = None,
) -> View:
    """A mirrored, scaled, cropped, blurred, differently lit view; `random` decides.

    With `size` the whole photo gets that width and height before it is cropped, instead of a zoom
    of its own.
    """
    zoom = random_zoom(config, random)
    flips = random.random() < config.flip and may_flip
    if config.resolution is not None:
        photo, boxes_xyxy = reduce_resolution(photo, boxes_xyxy, config.resolution, random)
    if config.coarse and random.random() < config.coarse:
        photo = coarsen(photo, random)
    if config.colour:
        photo = relight(photo, config.colour, random)
    if size is None:
        view = plain_view(photo, boxes_xyxy, round(long_side * zoom))
    else:
        view = stretched_view(photo, boxes_xyxy, size)
    view = crop(view, long_side, random)
    return mirror(view) if flips else view


def reduce_resolution(
    photo: Image.Image,
    boxes_xyxy: NDArray[np.floating],
    long_sides: tuple[int, int],
    random: np.random.Generator,
) -> tuple[Image.Image, NDArray[np.floating]]:
    """The photo reduced to a random long side, log-uniform, with its boxes; a photo that is smaller
    stays as it is."""
    smallest, largest = np.log(long_sides)
    long_side = round(float(np.exp(random.uniform(smallest, largest))))
    if max(photo.size) <= long_side:
        return photo, boxes_xyxy
    resized = resize(photo, long_side)
    return Image.fromarray(resized.pixels), boxes.scale(boxes_xyxy, *resized.scales)


def coarsen(photo: Image.Image, random: np.random.Generator) -> Image.Image:
    """The photo reduced and enlarged again: less sharp, and boxes stay where they are."""
    factor = random.uniform(0.5, 1)
    small = (max(1, round(photo.width * factor)), max(1, round(photo.height * factor)))
    return photo.resize(small, Image.Resampling.BILINEAR).resize(
        photo.size, Image.Resampling.BILINEAR
    )


def mirror(view: View) -> View:
    flipped = boxes.flip(view.boxes_xyxy, view.pixels.shape[1])
    return View(np.ascontiguousarray(view.pixels[:, ::-1]), flipped, view.kept)


def crop(view: View, largest: int, random: np.random.Generator) -> View:
    """A random window of at most `largest` pixels a side; boxes are cut to it, mostly lost ones
    dropped."""
    height, width = view.pixels.shape[:2]
    left = int(random.integers(0, max(width - largest, 0) + 1))
    top = int(random.integers(0, max(height - largest, 0) + 1))
    pixels = np.ascontiguousarray(view.pixels[top : top + largest, left : left + largest])
    cut = boxes.clip(
        view.boxes_xyxy - np.array([left, top, left, top]), pixels.shape[1], pixels.shape[0]
    )
    enough = boxes.area(cut) >= SMALLEST_SHARE * boxes.area(view.boxes_xyxy)
    return View(pixels, cut, view.kept & enough)


def relight(photo: Image.Image, most: float, random: np.random.Generator) -> Image.Image:
    """Brightness, contrast and saturation each changed by up to `most`; hues stay, so that red
    stays red."""
    brightness, contrast, saturation = 1 + random.uniform(-most, most, size=3)
    mixed = (
        saturation * np.eye(3) + (1 - saturation) * LUMINANCE
    )  # each channel moved to or from grey
    matrix = np.column_stack(
        [brightness * contrast * mixed, np.full(3, (1 - contrast) * MIDDLE_GREY)]
    )
    return photo.convert("RGB", tuple(matrix.flatten().tolist()))
