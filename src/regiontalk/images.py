"""From a photo's bytes to the network's input: the only pre-processing, for training and inference alike.

source -> limits -> decoder -> upright RGB (`open_photo`) -> long side (`resize`) -> CHW floats (`to_input`)
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import stat
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageCms, UnidentifiedImageError

from regiontalk.errors import ImageError, ImageTooLarge, UnsupportedImage, UsageError, one_line

PhotoSource = str | Path | bytes | IO[bytes] | Image.Image | NDArray[Any]

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
SHORTEST_SIDE = 16  # pixels: one cell of a stride-16 feature map
MOST_FRAMES = 10_000  # only the first is used, but a file with more is an attack or a mistake
GREY = 127  # the padding: near the mean of photos, so that it excites little

_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_FILE_BYTES_PER_PIXEL = 16  # twice the largest uncompressed pixel (16-bit RGBA)
_FULL_SCALES = (1.0, 255.0, 65535.0, 4294967295.0)
_PROFILE_SPACES = {"RGB": "RGB ", "L": "GRAY", "CMYK": "CMYK"}
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class Limits:
    """What is refused before a pixel is allocated. `megabytes` holds for uploads (bytes);
    a local file may have 16 bytes for each allowed pixel.
    """

    megapixels: float = 50.0
    megabytes: float = 25.0


@dataclass(frozen=True)
class Resized:
    """A resized photo, pixels (H, W, 3); resized coordinate = original coordinate * scale."""

    pixels: NDArray[np.uint8]
    scale_x: float
    scale_y: float


def open_photo(source: PhotoSource, limits: Limits = Limits()) -> Image.Image:  # noqa: B008  (frozen)
    """The first frame as an upright (EXIF-oriented) sRGB image, loaded, transparency laid over white.

    Arrays are (H, W), (H, W, 3) or (H, W, 4): 8-bit, 16-bit, or floats from 0 to 1.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source, limits)
    if isinstance(source, Image.Image):
        return _decode(source, "this image", limits)
    if hasattr(source, "read"):
        source = _read(source, limits)
    if isinstance(source, bytes):
        return _from_bytes(source, limits)
    if isinstance(source, (str, Path)):
        return _from_path(source, limits)
    raise UsageError(f"a photo is a path, bytes, an open file, a PIL image or an array, not {type(source).__name__}")


def resize(photo: Image.Image, long_side: int) -> Resized:
    """The photo enlarged or reduced to a long side of `long_side` pixels, by an antialiased triangle filter.

    No side gets shorter than 16 pixels, so the two scales of a very long photo differ.
    """
    width, height = resized_size(photo.width, photo.height, long_side)
    resized = photo.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return Resized(np.array(resized), width / photo.width, height / photo.height)


def resized_size(width: int, height: int, long_side: int) -> tuple[int, int]:
    """Width and height that `resize` gives a photo."""
    if long_side < SHORTEST_SIDE:
        raise UsageError(f"a photo's long side must be at least {SHORTEST_SIDE} pixels, not {long_side}")
    factor = long_side / max(width, height)
    return max(SHORTEST_SIDE, round(width * factor)), max(SHORTEST_SIDE, round(height * factor))


def pad_together(photos: Sequence[NDArray[np.uint8]], multiple: int) -> NDArray[np.uint8]:
    """Photos (H, W, 3) of different sizes as one array (N, H', W', 3), grey at right and bottom."""
    height = _round_up(max(photo.shape[0] for photo in photos), multiple)
    width = _round_up(max(photo.shape[1] for photo in photos), multiple)
    together = np.full((len(photos), height, width, 3), GREY, dtype=np.uint8)
    for row, photo in zip(together, photos, strict=True):
        row[: photo.shape[0], : photo.shape[1]] = photo
    return together


def to_input(pixels: NDArray[np.uint8], multiple: int = 1) -> NDArray[np.float32]:
    """Pixels (H, W, 3) as the network's input (3, H', W'): RGB from 0 to 255.

    Padded with grey at right and bottom to multiples of `multiple`. Mean and standard deviation are
    taken off inside the network, so that an exported graph carries its own.
    """
    height, width, channels = pixels.shape
    padded = np.full((channels, _round_up(height, multiple), _round_up(width, multiple)), GREY, dtype=np.float32)
    padded[:, :height, :width] = pixels.transpose(2, 0, 1)
    return padded


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _from_path(path: str | Path, limits: Limits) -> Image.Image:
    name = _short_line(str(path))
    if _URL.match(str(path)):
        raise ImageError(f"{name}: an address, not a file; nothing is ever fetched", hint="download the photo first")
    with _open_regular_file(path, name, limits) as file:
        return _decode(file, name, limits)


def _open_regular_file(path: str | Path, name: str, limits: Limits) -> IO[bytes]:
    """Never blocks: pipes and devices are refused by their kind, before they are opened."""
    try:
        status = os.stat(path)  # noqa: PTH116  (Path would drop the end of "photo.jpg/")
        if not stat.S_ISREG(status.st_mode):
            raise ImageError(f"{name}: {_kind(status.st_mode)}, not a photo")
        if status.st_size > limits.megapixels * 1e6 * _FILE_BYTES_PER_PIXEL:
            raise ImageTooLarge(f"{name}: a file of {status.st_size / 1e6:.0f} MB is too large")
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        return os.fdopen(os.open(path, flags), "rb")
    except OSError as error:
        raise ImageError(f"{name}: {error.strerror or error}") from error
    except ValueError as error:  # a NUL or a lone surrogate in the name
        raise ImageError(f"{name}: not a file name: {error}") from error


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _read(file: Any, limits: Limits) -> bytes:
    """An open file's bytes from where it stands; no more of them than show that it is too large."""
    try:
        data = b"" if isinstance(file, io.TextIOBase) else file.read(int(limits.megabytes * 1e6) + 1)
    except (OSError, ValueError) as error:  # ValueError: it was closed, or is open for writing
        raise ImageError(f"this file cannot be read: {error}") from error
    if isinstance(file, io.TextIOBase) or not isinstance(data, bytes):
        raise UsageError("this file was opened as text", hint='open(path, "rb")')
    return data


def _from_bytes(data: bytes, limits: Limits) -> Image.Image:
    name = "these bytes"
    if len(data) > limits.megabytes * 1e6:
        raise ImageTooLarge(f"{name}: {len(data) / 1e6:.1f} MB, more than {limits.megabytes:g} MB")
    return _decode(io.BytesIO(data), name, limits)


def _from_array(array: NDArray[Any], limits: Limits) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise UsageError(f"an array must be (H, W), (H, W, 3) or (H, W, 4), not {array.shape}")
    _check_pixels((array.shape[1], array.shape[0]), "this array", limits)
    return _decode(Image.fromarray(_array_to_bytes(array)), "this array", limits)


def _array_to_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype == np.uint16:
        return ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if array.dtype.kind != "f":
        raise UsageError(f"an array must be uint8, uint16 or float, not {array.dtype}")
    low, high = float(array.min()), float(array.max())
    if not (low >= 0.0 and high <= 1.0):  # written so that NaN fails too
        raise UsageError(
            f"a float array must hold values from 0 to 1, not {low:g} to {high:g}",
            hint="array.astype(np.uint8) when it holds 0 to 255",
        )
    scaled: NDArray[np.uint8] = np.rint(array * 255).astype(np.uint8)
    return scaled


def _decode(source: IO[bytes] | Image.Image, name: str, limits: Limits) -> Image.Image:
    with _quiet_pillow:
        try:
            image = source if isinstance(source, Image.Image) else _identify(source, name, limits)
            _check_pixels(image.size, name, limits)
            return _upright_srgb(image)
        except ImageError:
            raise
        except Image.DecompressionBombError as error:
            raise ImageTooLarge(f"{name}: {_short_line(str(error))}") from error
        except Exception as error:  # given hostile bytes, decoders raise nearly anything
            reason = _short_line(str(error)) or type(error).__name__
            raise ImageError(f"{name}: a broken photo: {reason}") from error


def _identify(file: IO[bytes], name: str, limits: Limits) -> Image.Image:
    """Reads the header by one of the allowed decoders."""
    header = file.read(32)
    if not header:
        raise ImageError(f"{name}: empty")
    if size := _webp_size(header):  # libwebp allocates the canvas as it opens the file
        _check_pixels(size, name, limits)
    _check_frames(file, header, name)
    perhaps_heif = header[4:8] == b"ftyp" and header[8:12] in _HEIF_BRANDS
    formats = [*FORMATS, "HEIF"] if perhaps_heif and _switch_heif_on() else list(FORMATS)
    try:
        return Image.open(file, formats=formats)
    except UnidentifiedImageError as error:
        if perhaps_heif and "HEIF" not in formats:
            raise UnsupportedImage(f"{name}: a HEIF photo", hint="pip install 'regiontalk[heif]'") from error
        if _has_known_signature(header, formats):
            raise ImageError(f"{name}: a broken photo: its header cannot be read") from error
        raise UnsupportedImage(f"{name}: not a photo of a known kind", hint="known: " + ", ".join(formats)) from error


def _has_known_signature(header: bytes, formats: list[str]) -> bool:
    accepts = [Image.OPEN[name][1] for name in formats if name in Image.OPEN]
    return any(accept is not None and accept(header[:16]) is True for accept in accepts)


def _switch_heif_on() -> bool:
    """Registers the HEIF decoder with Pillow; False when it is not installed."""
    if importlib.util.find_spec("pillow_heif") is None:
        return False
    import pillow_heif

    pillow_heif.register_heif_opener()
    return True


def _webp_size(header: bytes) -> tuple[int, int] | None:
    """Width and height from a WebP container's first 30 bytes (RFC 9649), None for anything else."""
    if header[:4] != b"RIFF" or header[8:12] != b"WEBP" or len(header) < 30:
        return None
    if header[12:16] == b"VP8X":
        return int.from_bytes(header[24:27], "little") + 1, int.from_bytes(header[27:30], "little") + 1
    if header[12:16] == b"VP8L":
        bits = int.from_bytes(header[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return (
        int.from_bytes(header[26:28], "little") & 0x3FFF,
        int.from_bytes(header[28:30], "little") & 0x3FFF,
    )


def _check_frames(file: IO[bytes], header: bytes, name: str) -> None:
    """Walks from frame to frame without decoding. Other formats give their number of frames in the header."""
    if header[:3] == b"GIF":
        frames = _gif_frames(file, header)
    elif header[:4] in (b"II*\0", b"MM\0*"):
        frames = _tiff_pages(file, header)
    else:
        return
    starts: set[int] = set()
    for start in frames:
        if start in starts:
            raise ImageError(f"{name}: a broken photo: its pages go round in a circle")
        starts.add(start)
        if len(starts) > MOST_FRAMES:
            raise ImageTooLarge(f"{name}: more than {MOST_FRAMES} frames")


def _gif_frames(file: IO[bytes], header: bytes) -> Iterator[int]:
    """Where each image of a GIF starts (GIF89a specification, sections 18 to 27)."""
    file.seek(13 + _colour_table_bytes(header[10:11]))
    while (block := file.read(1)) in (b",", b"!"):
        if block == b",":
            yield file.tell()
            file.seek(_colour_table_bytes(file.read(9)[8:]) + 1, os.SEEK_CUR)
        else:
            file.seek(1, os.SEEK_CUR)
        while length := file.read(1):
            if length == b"\0":
                break
            file.seek(length[0], os.SEEK_CUR)


def _colour_table_bytes(flags: bytes) -> int:
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _tiff_pages(file: IO[bytes], header: bytes) -> Iterator[int]:
    """The offset of each image file directory of a TIFF (TIFF 6.0, section 2)."""
    order: Literal["little", "big"] = "little" if header[:2] == b"II" else "big"
    start = int.from_bytes(header[4:8], order)
    while start:
        yield start
        file.seek(start)
        file.seek(12 * int.from_bytes(file.read(2), order), os.SEEK_CUR)
        start = int.from_bytes(file.read(4), order)


def _check_pixels(size: tuple[int, int], name: str, limits: Limits) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(f"{name}: a broken photo: {width}×{height} pixels")
    if width * height > limits.megapixels * 1e6:
        raise ImageTooLarge(
            f"{name}: {width}×{height} is {width * height / 1e6:.1f} megapixels, more than {limits.megapixels:g}"
        )


def _upright_srgb(image: Image.Image) -> Image.Image:
    image.load()
    upright = _UPRIGHT.get(_orientation(image))
    photo = _to_srgb(image)
    if upright is not None:
        photo = photo.transpose(upright)
    photo.info = {}  # a result that is opened again must not be turned or converted again
    return photo


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # broken metadata is no reason to refuse the pixels
        return 1


def _to_srgb(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    if image.mode == "F" or image.mode.startswith("I"):
        image = _eight_bits(image)
    elif image.has_transparency_data:
        image = _over_white(image)
    return _through_profile(image, profile) or image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Greys of more than 8 bits scaled to 8 (Pillow's own conversion cuts them off at 255).

    I;16 says its range itself; that of I and F is the smallest usual scale that holds the brightest pixel.
    """
    values = np.nan_to_num(np.asarray(image).astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    full_scale = 65535.0
    if not image.mode.startswith("I;16"):
        brightest = float(values.max())
        scales = _FULL_SCALES if image.mode == "F" else _FULL_SCALES[1:]
        full_scale = next((scale for scale in scales if brightest <= scale), brightest)
    return Image.fromarray(np.rint(np.clip(values / full_scale, 0, 1) * 255).astype(np.uint8))


def _over_white(image: Image.Image) -> Image.Image:
    """Transparency laid over white: the colours stored under it were never meant to be seen."""
    grey = image.mode in ("1", "L", "LA", "La")
    layer = image.convert("LA") if grey else image.convert("RGBA")
    white = Image.new("L" if grey else "RGB", image.size, "white")
    white.paste(layer.convert(white.mode), mask=layer.getchannel("A"))
    return white


def _through_profile(image: Image.Image, data: bytes | None) -> Image.Image | None:
    """The image in sRGB by way of its ICC profile; None where plain conversion is as good or all there is."""
    mode = {"1": "L", "L": "L", "CMYK": "CMYK", "LAB": "LAB"}.get(image.mode, "RGB")
    if data is None and mode != "LAB":
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
        return ImageCms.profileToProfile(image.convert(mode), profile, srgb, outputMode="RGB")
    except Exception:  # a broken profile is no reason to refuse the pixels
        return None


def _short_line(text: str) -> str:
    """Names and messages come from outside: no line breaks, no control characters, not too long."""
    printable = one_line(text)
    return printable if len(printable) <= 300 else printable[:300] + "…"


class _QuietPillow:
    """Drops Pillow's warnings while any thread decodes.

    Counted, because `warnings.catch_warnings` restores the whole list of filters and so mixes it up when
    two threads overlap.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._rule = ("ignore", None, Warning, re.compile(r"(PIL|pillow_heif)\b"), 0)

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                _warning_rules().insert(0, self._rule)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                with suppress(ValueError):
                    _warning_rules().remove(self._rule)


def _warning_rules() -> list[Any]:
    return cast(list[Any], warnings.filters)


_quiet_pillow = _QuietPillow()
