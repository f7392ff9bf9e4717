"""Pictures for people: regions drawn on a photo, and sheets of such pictures."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw, ImageFont

from regiontalk import boxes

Colour = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Light colours: black text is readable on each of them, and each is visible on a dark background.
PALETTE: list[Colour] = [
    (255, 107, 107),
    (88, 214, 110),
    (255, 217, 61),
    (96, 168, 255),
    (255, 159, 67),
    (196, 140, 255),
    (64, 224, 232),
    (255, 128, 220),
    (200, 240, 80),
    (255, 200, 205),
    (58, 184, 160),
    (214, 168, 116),
]
BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)
MOST_LINES = 3
MOST_LINES_BELOW = 12  # of a sentence below its photo
BACKDROP: Colour = (32, 32, 32)
GREY: Colour = (178, 178, 178)  # what the model is not sure of
CELL = (480, 360)  # pixels of one picture on a sheet
MARGIN = 12


@dataclass(frozen=True)
class Rectangle:
    """Whole pixels: left, top, width, height."""

    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def bottom(self) -> int:
        return self.top + self.height

    def overlaps(self, other: Rectangle) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def draw_regions(
    photo: Image.Image,
    boxes_xyxy: ArrayLike,
    captions: Sequence[str],
    sure: Sequence[bool] | None = None,
) -> Image.Image:
    """A copy of the photo with boxes and labelled captions; boxes in pixels of `photo`. Regions
    that are not `sure` are grey."""
    picture = photo.convert("RGB")
    outlines = _outlines(boxes_xyxy, picture.size)
    colours = [
        GREY if sure is not None and not sure[number] else _colour(number)
        for number in range(len(outlines))
    ]
    _draw_boxes(picture, outlines, colours)
    _draw_labels(picture, outlines, captions, colours)
    return picture


def draw_sentence(photo: Image.Image, sentence: str, sure: bool = True) -> Image.Image:
    """The photo with the sentence below it, in grey if it is not `sure`."""
    text = None if sure else GREY
    words = [(word, BACKDROP) for word in sentence.split()]
    return _with_text_below(photo.convert("RGB"), words, text)


def draw_alignment(
    photo: Image.Image, boxes_xyxy: ArrayLike, segments: Sequence[Sequence[tuple[str, float]]]
) -> Image.Image:
    """A copy of the photo with a coloured box for each segment of a sentence, and the sentence
    below it on plates of the same colours. A segment is its words with how well each fits its box:
    the less, the darker the plate.
    """
    picture = photo.convert("RGB")
    outlines = _outlines(boxes_xyxy, picture.size)
    regions = list(dict.fromkeys(outlines))  # two segments may share a region, and so a colour
    _draw_boxes(picture, regions, [_colour(number) for number in range(len(regions))])
    every_score = [score for _, score in chain.from_iterable(segments)]
    strongest = max(0.0, *every_score) or 1.0
    words = []
    for box, scored_words in zip(outlines, segments, strict=True):
        colour = _colour(regions.index(box))
        words += [(word, faded(colour, score / strongest)) for word, score in scored_words]
    return _with_text_below(picture, words)


def contact_sheet(
    pictures: Sequence[Image.Image], titles: Sequence[str], columns: int = 3
) -> Image.Image:
    """Pictures in rows of `columns`, each shrunk to fit its cell, with its title below."""
    font = ImageFont.load_default(size=16)
    columns = max(1, min(columns, len(pictures)))
    rows = -(-len(pictures) // columns)
    step_x = CELL[0] + MARGIN
    step_y = CELL[1] + 2 * _line_height(font) + MARGIN
    sheet = Image.new("RGB", (columns * step_x + MARGIN, rows * step_y + MARGIN), "white")
    pencil = ImageDraw.Draw(sheet)
    for number, (picture, title) in enumerate(zip(pictures, titles, strict=True)):
        left = MARGIN + number % columns * step_x
        top = MARGIN + number // columns * step_y
        small = picture.convert("RGB")
        small.thumbnail(CELL)
        sheet.paste(small, (left, top))
        lines = wrap(title, font, CELL[0], 2)
        pencil.multiline_text(
            (left, top + small.height + 2), "\n".join(lines), fill="black", font=font
        )
    return sheet


def place_labels(
    wishes: Sequence[Rectangle], labels: Sequence[tuple[int, int]], size: tuple[int, int]
) -> list[Rectangle]:
    """The places of labels of the given (width, height), one for each box, on an image of `size`.

    Each label takes the first free place at a corner of its box, else the nearest free place on the
    image; it covers another label only if no place is free. No label may be larger than the image.
    """
    placed: list[Rectangle] = []
    for box, (width, height) in zip(wishes, labels, strict=True):
        corners = _places_at_corners(box, width, height, size)
        free = next((place for place in corners if not any(map(place.overlaps, placed))), None)
        placed.append(free or _nearest_free_place(corners[0], placed, size) or corners[0])
    return placed


def wrap(text: str, font: Font, width: int, most_lines: int) -> list[str]:
    """Text in lines of at most `width` pixels; text that does not fit ends in an ellipsis."""
    lines: list[str] = []
    words = text.split()
    while words:
        line = words.pop(0)
        while words and font.getlength(f"{line} {words[0]}") <= width:
            line = f"{line} {words.pop(0)}"
        if words and len(lines) == most_lines - 1:
            line = line + "..."
            words = []
        lines.append(_shorten(line, font, width))
    return lines


def _shorten(line: str, font: Font, width: int) -> str:
    if font.getlength(line) <= width:
        return line
    stem = line.removesuffix("...")
    # the first length that is too long, by halving
    lengths = range(len(stem))
    too_long = bisect_right(
        lengths, float(width), key=lambda end: font.getlength(stem[:end] + "...")
    )
    return stem[: too_long - 1] + "..." if too_long > 1 else ""


def _with_text_below(
    picture: Image.Image, words: Sequence[tuple[str, Colour]], text: Colour | None = None
) -> Image.Image:
    """The picture with lines of words below it, each word on a plate of its colour. `text`: the
    colour of the words; default: black or white."""
    font = ImageFont.load_default(size=1.2 * _font_size(picture.size))
    height = _line_height(font)
    margin = height // 2
    gap = max(1, height // 7)
    row = height + height // 2
    places: list[tuple[float, int]] = []
    left = float(margin)
    line = 0
    for word, _ in words:
        if left > margin and left + font.getlength(word) + 2 * gap > picture.width - margin:
            left = float(margin)
            line = line + 1
        places.append((left, line))
        left += font.getlength(word) + 3 * gap
    lines = min(line + 1, MOST_LINES_BELOW)
    sheet = Image.new("RGB", (picture.width, picture.height + lines * row + 2 * margin), BACKDROP)
    sheet.paste(picture)
    pencil = ImageDraw.Draw(sheet)
    for (word, plate), (left, line) in zip(words, places, strict=True):
        if line < lines:
            top = picture.height + margin + line * row
            corners = (left, top, left + font.getlength(word) + 2 * gap, top + height + gap)
            pencil.rounded_rectangle(corners, radius=gap, fill=plate)
            pencil.text((left + gap, top + gap // 2), word, fill=text or ink(plate), font=font)
    return sheet


def faded(colour: Colour, strength: float) -> Colour:
    """The colour at strength 1, almost that of the background at 0."""
    share = 0.15 + 0.85 * min(max(strength, 0.0), 1.0)
    red, green, blue = (
        round(share * c + (1 - share) * p) for c, p in zip(colour, BACKDROP, strict=True)
    )
    return red, green, blue


def _outlines(boxes_xyxy: ArrayLike, size: tuple[int, int]) -> list[Rectangle]:
    """Boxes in whole pixels inside the image, each at least one pixel large."""
    width, height = size
    clipped = np.rint(boxes.clip(boxes_xyxy, width, height)).astype(int)
    outlines = []
    for x0, y0, x1, y1 in clipped.tolist():
        left = min(x0, width - 1)
        top = min(y0, height - 1)
        outlines.append(Rectangle(left, top, max(x1 - left, 1), max(y1 - top, 1)))
    return outlines


def _draw_boxes(
    picture: Image.Image, outlines: Sequence[Rectangle], colours: Sequence[Colour]
) -> None:
    """The largest first, so that no outline hides a smaller one; each with a dark edge, to be
    visible on any photo."""
    pencil = ImageDraw.Draw(picture)
    thickness = max(2, round(max(picture.size) / 350))
    edge = max(1, thickness // 3)
    for number in sorted(
        range(len(outlines)), key=lambda n: -outlines[n].width * outlines[n].height
    ):
        box = outlines[number]
        corners = (box.left, box.top, box.right - 1, box.bottom - 1)
        pencil.rectangle(corners, outline=BACKDROP, width=thickness + edge)
        pencil.rectangle(corners, outline=colours[number], width=thickness)


def _draw_labels(
    picture: Image.Image,
    outlines: Sequence[Rectangle],
    texts: Sequence[str],
    colours: Sequence[Colour],
) -> None:
    font = ImageFont.load_default(size=_font_size(picture.size, len(texts)))
    padding = max(1, _line_height(font) // 6)
    widest = max(picture.width // 3, min(picture.width, 12 * _line_height(font))) - 2 * padding
    wrapped = [
        wrap(text, font, max(widest, min(box.width, picture.width) - 2 * padding), MOST_LINES)
        for box, text in zip(outlines, texts, strict=True)
    ]
    sizes = [_label_size(lines, font, padding) for lines in wrapped]
    shown = [number for number, size in enumerate(sizes) if _fits(size, picture.size)]
    places = place_labels([outlines[n] for n in shown], [sizes[n] for n in shown], picture.size)
    pencil = ImageDraw.Draw(picture)
    for number, place in zip(shown, places, strict=True):
        plate = (place.left, place.top, place.right - 1, place.bottom - 1)
        pencil.rectangle(plate, fill=colours[number])
        for row, line in enumerate(wrapped[number]):
            corner = (place.left + padding, place.top + padding + row * _line_height(font))
            pencil.text(corner, line, fill=ink(colours[number]), font=font)


def _font_size(picture: tuple[int, int], labels: int = 1) -> float:
    """1/56 of the photo's long side, because large photos are viewed at a reduced size; smaller for
    many regions."""
    crowding = min(1.0, sqrt(12 / max(labels, 1)))
    return max(12.0, max(picture) / 56 * crowding)


def _label_size(lines: Sequence[str], font: Font, padding: int) -> tuple[int, int]:
    width = max((int(np.ceil(font.getlength(line))) for line in lines), default=0)
    return width + 2 * padding, len(lines) * _line_height(font) + 2 * padding


def _fits(size: tuple[int, int], picture: tuple[int, int]) -> bool:
    """No label if the picture is too small for it, or if it has no text."""
    return 2 < size[0] <= picture[0] and 2 < size[1] <= picture[1]


def _line_height(font: Font) -> int:
    return int(np.ceil(font.getbbox("Ag")[3] * 1.15))


def _places_at_corners(
    box: Rectangle, width: int, height: int, size: tuple[int, int]
) -> list[Rectangle]:
    """Above, inside at the top, below, inside at the bottom; to the left, then to the right."""
    tops = (box.top - height, box.top, box.bottom, box.bottom - height)
    places = []
    for left in (box.left, box.right - width):
        for top in tops:
            inside_x = min(max(left, 0), size[0] - width)
            inside_y = min(max(top, 0), size[1] - height)
            places.append(Rectangle(inside_x, inside_y, width, height))
    return places


def _nearest_free_place(
    wish: Rectangle, placed: Sequence[Rectangle], size: tuple[int, int]
) -> Rectangle | None:
    """The free place next to `wish`, if there is one.

    Any free label can be pushed left and up until it touches an edge or another label, so it is
    enough to try the places that touch.
    """
    lefts = {wish.left, 0, size[0] - wish.width}
    tops = {wish.top, 0, size[1] - wish.height}
    for other in placed:
        lefts |= {other.right, other.left - wish.width}
        tops |= {other.bottom, other.top - wish.height}
    x = np.array(sorted(left for left in lefts if 0 <= left <= size[0] - wish.width))
    y = np.array(sorted(top for top in tops if 0 <= top <= size[1] - wish.height))
    edges = np.array([(o.left, o.top, o.right, o.bottom) for o in placed]).reshape(-1, 4)
    across = (x[:, None] < edges[:, 2]) & (x[:, None] + wish.width > edges[:, 0])  # (X, placed)
    upright = (y[:, None] < edges[:, 3]) & (y[:, None] + wish.height > edges[:, 1])  # (Y, placed)
    taken = across.astype(np.float32) @ upright.astype(np.float32).T > 0  # (X, Y)
    if taken.all():
        return None
    distance = np.abs(x - wish.left)[:, None] + np.abs(y - wish.top)[None, :]
    column, row = np.unravel_index(np.argmin(np.where(taken, np.inf, distance)), taken.shape)
    return Rectangle(int(x[column]), int(y[row]), wish.width, wish.height)


def _colour(number: int) -> Colour:
    return PALETTE[number % len(PALETTE)]


def ink(plate: Colour) -> Colour:
    """Black or white, whichever has the higher contrast with the plate: at least 4.5:1."""
    return max(BLACK, WHITE, key=lambda colour: contrast(colour, plate))


def contrast(first: Colour, second: Colour) -> float:
    """The contrast ratio of two colours, from 1 to 21 (WCAG 2)."""
    darker, lighter = sorted(map(_luminance, (first, second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Colour) -> float:
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.divide(colour, 255)
    )
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
