"""Large WebP photos in little memory."""

from __future__ import annotations

import ctypes
from contextlib import suppress

from PIL import Image, _webp


def load(image: Image.Image) -> Image.Image:
    """The decoded image of a file whose header was read: `image` itself, or another one.

    Pillow decodes every WebP as an animation and holds it four times (800 MB for 50 megapixels).
    libwebp itself can decode a still image into given memory. If libwebp cannot be called or fails,
    Pillow decodes the file or raises the error.
    """
    if image.format == "WEBP":
        with suppress(AttributeError, OSError, ValueError):
            if decoded := _decode(image):
                return decoded
    image.load()
    return image


def _decode(image: Image.Image) -> Image.Image | None:
    decode = ctypes.CDLL(_webp.__file__).WebPDecodeRGBAInto
    decode.restype = ctypes.c_void_p
    file = image.fp  # type: ignore[attr-defined]
    file.seek(0)
    data = file.read()
    stride = 4 * image.width
    pixels = bytearray(stride * image.height)
    into = (ctypes.c_char * len(pixels)).from_buffer(pixels)
    size = ctypes.c_size_t
    if not decode(data, size(len(data)), into, size(len(pixels)), stride):
        return None
    mode = "RGBA" if image.mode == "RGBA" else "RGBX"
    decoded = Image.frombuffer(mode, image.size, pixels, "raw", mode, 0, 1)  # no copy
    decoded.info = image.info
    return decoded
