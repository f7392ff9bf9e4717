"""The colours of an image, whatever its mode, as 8-bit sRGB."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

_STRIP_PIXELS = 1 << 20  # of a large image that are converted at a time
_FULL_SCALES = (1.0, 255.0, 65535.0, 4294967295.0)
_MOST_TAGS = 100  # of a profile: LittleCMS reads no more
_PROFILE_SPACES = {"RGB": "RGB ", "L": "GRAY", "CMYK": "CMYK"}


def to_srgb(image: Image.Image, reduction: tuple[int, int] = (1, 1)) -> Image.Image:
    """A loaded image of any mode as RGB: by its colour profile, transparency on white, and reduced
    by a factor."""
    full_scale = _full_scale(image)
    if reduction == (1, 1):
        photo = _eight_bit_opaque(image, full_scale)
    else:  # strip by strip: a large photo has no second copy
        strips = [
            _eight_bit_opaque(strip, full_scale).reduce(reduction)
            for strip in _strips(image, reduction[1])
        ]
        photo = Image.new(strips[0].mode, (strips[0].width, sum(strip.height for strip in strips)))
        top = 0
        for strip in strips:
            photo.paste(strip, (0, top))
            top += strip.height
    return _through_profile(photo, image.info.get("icc_profile")) or photo.convert("RGB")


def _strips(image: Image.Image, multiple: int = 1) -> Iterator[Image.Image]:
    """The image from top to bottom in strips of about `_STRIP_PIXELS`, their heights multiples of
    `multiple`."""
    rows = max(1, _STRIP_PIXELS // (image.width * multiple)) * multiple
    for top in range(0, image.height, rows):
        yield image.crop((0, top, image.width, min(top + rows, image.height)))


def _eight_bit_opaque(image: Image.Image, full_scale: float | None) -> Image.Image:
    """The image in a mode with 8 bits and no transparency, whose pixels may be averaged."""
    if full_scale is not None:
        return _eight_bits(image, full_scale)
    if image.has_transparency_data:
        return _over_white(image)
    if image.mode in ("L", "RGB", "CMYK", "LAB"):
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def _full_scale(image: Image.Image) -> float | None:
    """The value of white in greys of more than 8 bits; None for other images.

    The range of I;16 is known; for I and F it is the smallest usual range that contains the
    brightest pixel.
    """
    if image.mode.startswith("I;16"):
        return 65535.0
    if image.mode not in ("I", "F"):
        return None
    brightest = max(float(_values(strip).max()) for strip in _strips(image))
    scales = _FULL_SCALES if image.mode == "F" else _FULL_SCALES[1:]
    return next((scale for scale in scales if brightest <= scale), brightest)


def _eight_bits(image: Image.Image, full_scale: float) -> Image.Image:
    """Greys of more than 8 bits scaled to 8 (Pillow's own conversion cuts them off at 255)."""
    return Image.fromarray(
        np.rint(np.clip(_values(image) / full_scale, 0, 1) * 255).astype(np.uint8)
    )


def _values(image: Image.Image) -> NDArray[np.float32]:
    return np.nan_to_num(np.asarray(image).astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def _over_white(image: Image.Image) -> Image.Image:
    """Transparency on white: the colours stored under it are not meant to be seen."""
    grey = image.mode in ("1", "L", "LA", "La")
    layer = image.convert("LA") if grey else image.convert("RGBA")
    white = Image.new("L" if grey else "RGB", image.size, "white")
    white.paste(layer.convert(white.mode), mask=layer.getchannel("A"))
    return white


def _is_costly(profile: bytes) -> bool:
    """Whether an ICC profile has very many tags, or one of type `mpet`: any number of stages, each
    applied to each pixel.

    Photos do not need them, and 100,000 fit into half a megabyte (ICC.1:2022, sections 7.3 and
    10.16).
    """
    tags = int.from_bytes(profile[128:132], "big")
    if tags > _MOST_TAGS:
        return True
    for entry in range(132, min(132 + 12 * tags, len(profile)), 12):
        start = int.from_bytes(profile[entry + 4 : entry + 8], "big")
        if profile[start : start + 4] == b"mpet":
            return True
    return False


def _through_profile(image: Image.Image, data: bytes | None) -> Image.Image | None:
    """The image converted to sRGB by its ICC profile; None if plain conversion is as good, or the
    only way."""
    mode = image.mode
    if mode != "LAB" and (data is None or _is_costly(data)):
        return None
    try:
        if mode == "LAB":
            profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB"))
        else:
            profile = ImageCms.ImageCmsProfile(io.BytesIO(cast(bytes, data)))
            if profile.profile.xcolor_space != _PROFILE_SPACES[mode]:
                return None
            if "sRGB" in ImageCms.getProfileDescription(profile):
                return None
        srgb = ImageCms.createProfile("sRGB")
        return ImageCms.profileToProfile(image, profile, srgb, outputMode="RGB")
    except Exception:  # a broken profile is no reason to reject the photo
        return None
