"""Which colours the thing in a region has; and captions that say these.

    p(colour | region) = softmax(W · histograms of the region's pixels + b)

Of the colours in captions about half are right; the pixels know better. Captions say a colour
where the language model wants one, and the one that the pixels have. `lab.fitting.colours` fits W
and b.

Shapes: R regions, C colours, B bins of a histogram, G samples on each side of a region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from regiontalk import boxes as geometry
from regiontalk.errors import ModelError
from regiontalk.inference.decoding import Caption
from regiontalk.inference.naming import name_probabilities
from regiontalk.inference.regions import Frame, Look, RegionTable, Rows
from regiontalk.language.colours import COLOUR_OF, with_likely_colours
from regiontalk.language.vocabulary import UNKNOWN, Vocabulary
from regiontalk.models.runtime import Floats, Runtime

MIN_COLOUR_PROB = 0.2
"""A caption says a colour that is at least this likely. Chosen on dev photos of Flickr8k
(docs/model-log.md)."""
MIN_OTHER_PROB = 0.4
"""A colour that is at least this likely is said instead of an unlikely one. Chosen in the same
way."""
ENLARGED = 1.5  # the box, to compare it with what is around it
SAMPLES = 24  # G
INSIDE = slice(4, 20)  # samples in the box …
CENTRE = slice(8, 16)  # … and in its centre
GREYS = 5  # bins of pixels with hardly any colour, by brightness
HUES = 12  # bins of the others by hue, each …
DEPTHS = 3  # … dark, pale or full
MIN_SATURATION = 0.15  # of a pixel with a colour
MIN_VALUE = 40  # of a pixel with a colour, of 255
DARK_VALUE = 128
PALE_SATURATION = 0.45
BINS = GREYS + HUES * DEPTHS  # B
NO_BIN = BINS
LEVELS = 32  # of red, green and blue, of which bins are computed once
STEP = 256 // LEVELS


def with_colours(runtime: Runtime, look: Look, regions: RegionTable) -> RegionTable:
    """The regions with the probabilities of their colours, if the model has a table of them."""
    if runtime.colours is None or not len(regions):
        return regions
    inputs = colour_histograms(look.image, look.frame, regions.input_xyxy)
    if inputs.shape[1] != runtime.colours.weights.shape[1]:
        raise ModelError(
            f"the model {runtime.info.name!r} reads colours from other inputs than this program's",
            hint="regiontalk fit MODEL DATA --only colours --split train",
        )
    return replace(regions, colours=name_probabilities(inputs, runtime.colours))


def colour_histograms(image: Floats, frame: Frame, boxes_xyxy: Floats) -> Floats:
    """(R, 3 B) histograms of the pixels in each box (R, 4) of the network's input `image`
    (1, 3, H, W), in its centre and around it."""
    bins = _sampled_bins(image, frame, boxes_xyxy)  # (R, G, G)
    inside = bins[:, INSIDE, INSIDE]
    centre = bins[:, CENTRE, CENTRE]
    around = bins.copy()
    around[:, INSIDE, INSIDE] = NO_BIN
    return np.concatenate([_histogram(part) for part in (inside, centre, around)], axis=1)


def say_likely_colours(
    captions: Sequence[Caption], rows: Rows, regions: RegionTable, runtime: Runtime
) -> tuple[Caption, ...]:
    """The captions of the regions `rows` without colours that are unlikely there, or with a likely
    one instead; and without a colour that is said twice. As they are, if the model has no table of
    colours."""
    if runtime.colours is None or not len(regions.colours):
        return tuple(captions)
    colours = frozenset(runtime.words.encode(COLOUR_OF)) - {UNKNOWN}
    said = []
    for row, caption in zip(rows.tolist(), captions, strict=True):
        if colours.isdisjoint(caption.tokens):
            said.append(caption)
        else:
            of_region = dict(zip(runtime.colours.names, regions.colours[row].tolist(), strict=True))
            unlikely = [name for name in of_region if of_region[name] < MIN_COLOUR_PROB]
            best = max(of_region, key=of_region.__getitem__)
            is_sure = of_region[best] >= MIN_OTHER_PROB and best != "blond"
            instead = best if is_sure else None
            said.append(_recoloured(caption, unlikely, instead, runtime.words))
    return tuple(said)


def _recoloured(
    caption: Caption, unlikely: Sequence[str], instead: str | None, words: Vocabulary
) -> Caption:
    """The caption without unlikely colours; words keep the log-probabilities of their places."""
    if instead is not None and words.encode([instead]) == [UNKNOWN]:
        instead = None
    said = with_likely_colours(words.decode(caption.tokens).split(), unlikely, instead)
    ends = caption.logprobs[len(caption.tokens) :]
    return Caption(
        tuple(words.encode(said.values())),
        (*(caption.logprobs[place] for place in said), *ends),
    )


def _sampled_bins(image: Floats, frame: Frame, boxes_xyxy: Floats) -> NDArray[np.intp]:
    """(R, G, G) the bins of pixels on a grid over each box, enlarged; `NO_BIN` beside the photo."""
    width, height = frame.size
    enlarged = geometry.enlarge(boxes_xyxy, ENLARGED)
    shares = (np.arange(SAMPLES) + 0.5) / SAMPLES
    corners, sizes = enlarged[:, None, :2], enlarged[:, None, 2:] - enlarged[:, None, :2]
    places = np.floor(corners + shares[:, None] * sizes).astype(np.intp)  # (R, G, 2)
    columns, rows = places[:, None, :, 0], places[:, :, None, 1]
    is_beside = (columns < 0) | (columns >= width) | (rows < 0) | (rows >= height)
    pixels = rows.clip(0, height - 1) * image.shape[3] + columns.clip(0, width - 1)  # (R, G, G)
    red, green, blue = (
        channel.take(pixels).astype(np.intp) // STEP for channel in image[0].reshape(3, -1)
    )
    levels = (red * LEVELS + green) * LEVELS + blue
    bins: NDArray[np.intp] = np.where(is_beside, NO_BIN, _table_of_bins()[levels])
    return bins


@cache
def _table_of_bins() -> NDArray[np.intp]:
    """(LEVELS³,) the bin of each colour; red varies slowest."""
    levels = np.arange(LEVELS) * STEP + (STEP - 1) / 2
    pixels = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1)
    return _bins(pixels.reshape(-1, 3))


def _bins(pixels: NDArray[np.float64]) -> NDArray[np.intp]:
    """The bin of each pixel (…, 3), RGB from 0 to 255."""
    red, green, blue = np.moveaxis(pixels, -1, 0)
    value = pixels.max(axis=-1)
    spread = np.maximum(value - pixels.min(axis=-1), 1e-3)
    saturation = spread / np.maximum(value, 1)
    sectors = np.where(
        value == red,
        (green - blue) / spread % 6,
        np.where(value == green, (blue - red) / spread + 2, (red - green) / spread + 4),
    )  # from 0 to 6: red, yellow, green, cyan, blue, magenta
    hues = np.rint(sectors * HUES / 6).astype(np.intp) % HUES
    depths = np.where(value < DARK_VALUE, 0, np.where(saturation < PALE_SATURATION, 1, 2))
    is_grey = (saturation < MIN_SATURATION) | (value < MIN_VALUE)
    greys = np.minimum(value * GREYS / 256, GREYS - 1).astype(np.intp)
    bins: NDArray[np.intp] = np.where(is_grey, greys, GREYS + hues * DEPTHS + depths)
    return bins


def _histogram(bins: NDArray[np.intp]) -> Floats:
    """(R, …) -> (R, B) the square roots of the shares of the bins in each region."""
    flat = bins.reshape(len(bins), -1) + (BINS + 1) * np.arange(len(bins))[:, None]
    counts = np.bincount(flat.ravel(), minlength=(BINS + 1) * len(bins))
    counts = counts.reshape(len(bins), BINS + 1)[:, :NO_BIN]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    roots: Floats = np.sqrt(shares).astype(np.float32)
    return roots
