"""The way from a photo's bytes to the network's input: the only pre-processing, for training and
inference alike.

source -> limits (`limits`) -> decoder, at a reduced size if possible -> upright sRGB -> long side
-> CHW floats
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError, _imaging

from regiontalk.errors import ImageError, ImageTooLarge, UnsupportedImage, UsageError, one_line
from regiontalk.images import limits as image_limits
from regiontalk.images import video, webp
from regiontalk.images.colours import to_srgb
from regiontalk.images.limits import Limits
from regiontalk.images.moments import is_video, moment_of
from regiontalk.images.quiet_pillow import quiet_libtiff, quiet_pillow
from regiontalk.io.files import open_regular

Result = TypeVar("Result")
Work = Callable[[Image.Image, bool], Result]
PhotoSource = str | Path | bytes | bytearray | memoryview | IO[bytes] | Image.Image | NDArray[Any]

SHORTEST_SIDE = 16  # pixels: one cell of a stride-16 feature map
PADDING_GREY = 127  # the padding: near the mean of photos, so that activations stay small

_REDUCING_GAP = (
    2  # a reduced photo is still at least this many times larger than the size it is resized to
)
_one_animation = threading.RLock()  # libwebp holds one four times from the moment it is opened
_QUICK_PIXELS = 2_000_000  # decoded in some hundredths of a second
_PIXELS_AT_A_TIME = 50_000_000  # decoded by all threads together: 200 MB of RGB
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
SIDEWAYS_ORIENTATIONS = (5, 6, 7, 8)  # EXIF orientations that exchange width and height


# Larger than what malloc keeps for reuse (32 MB), so that the memory of a large photo goes back to
# the system at once. Otherwise every worker would keep it.
_imaging.set_block_size(1 << 26)


class Resized(NamedTuple):
    """A resized photo, pixels (H, W, 3), and the size of the upright original."""

    pixels: NDArray[np.uint8]
    photo_size: tuple[int, int]

    @property
    def scales(self) -> tuple[float, float]:
        """Resized coordinates = original coordinates * scales (x, y)."""
        height, width, _ = self.pixels.shape
        return width / self.photo_size[0], height / self.photo_size[1]


class Opened(NamedTuple):
    image: Image.Image
    """Upright sRGB, perhaps smaller than the photo."""
    photo_size: tuple[int, int]


@dataclass(frozen=True)
class Photo:
    """A photo that is opened when it is needed, and only as large as needed. It holds the source,
    no pixels.

    `source` is a path (of a photo, or of a frame of a video as in `moments`), the bytes of a file,
    a PIL image, or an array: (H, W), (H, W, 3) or (H, W, 4), 8-bit, 16-bit or floats from 0 to 1.
    Of several frames the first is used.
    """

    source: str | Path | bytes | Image.Image | NDArray[Any]
    limits: Limits = Limits()  # noqa: RUF009  (frozen)

    @classmethod
    def of(cls, source: PhotoSource, limits: Limits) -> Photo:
        """Reads an open file at once, because its position or a buffer's content may change
        later."""
        if isinstance(source, (bytearray, memoryview)):
            source = bytes(source)
        return cls(_read(source, limits) if hasattr(source, "read") else source, limits)

    def check(self) -> None:
        """Raises an error if the photo cannot be opened. If decoding would take long, only the
        header is read."""
        self._use(_decode_if_quick)

    def open(self) -> Image.Image:
        """Upright (EXIF-oriented) sRGB, transparency on white."""
        return self._use(_upright_for(None)).image

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the upright photo; it is decoded at the smallest size."""
        return self._use(_upright_for(SHORTEST_SIDE)).photo_size

    @property
    def taken(self) -> str | None:
        """When the camera took it, "2021-05-30T18:05:12" by its own clock; None if the photo does
        not have it."""
        return self._use(lambda image, _: _taken(image))

    @property
    def orientation(self) -> int:
        """The EXIF orientation, 1 (upright) to 8; all other methods have already applied it."""
        return self._use(lambda image, _: _orientation(image))

    @property
    def software(self) -> object:
        """The program that wrote the photo, from EXIF; None if it is not there."""
        return self._use(lambda image, _: _exif(image).get(ExifTags.Base.Software))

    def resized(self, long_side: int) -> Resized:
        """Enlarged or reduced to a long side of `long_side` pixels (`resize`). A large photo is
        decoded at a reduced size if its format supports it, and never held at its full size in RGB.
        """
        image, photo_size = self._use(_upright_for(long_side))
        return resize(image, long_side, photo_size)

    def preview(self, long_side: int) -> Opened:
        """The photo for people, its long side at most `long_side` pixels."""
        image, photo_size = self._use(_upright_for(long_side))
        return Opened(reduced(image, long_side, photo_size), photo_size)

    def _use(self, work: Work[Result]) -> Result:
        """Work on the image whose header was read, and whether it may be changed; any error names
        the photo."""
        source = self.source
        if isinstance(source, (str, Path)):
            name = _short_line(str(source))
            moment = moment_of(source)
            if moment is not None:
                return _work_on(video.frame_at(moment, self.limits), name, self.limits, work)
            with _open_file(source, name, self.limits) as file:
                return _work_on(file, name, self.limits, work)
        for kind, name in (
            (bytes, "these bytes"),
            (np.ndarray, "this array"),
            (Image.Image, "this image"),
        ):
            if isinstance(source, kind):
                return _work_on(source, name, self.limits, work)
        given = type(source).__name__
        raise UsageError(
            f"a photo is a path, bytes, an open file, a PIL image or an array, not {given}"
        )


DEFAULT_LIMITS = Limits()


def open_photo(source: PhotoSource, limits: Limits = DEFAULT_LIMITS) -> Image.Image:
    """The whole photo, upright, in sRGB (`Photo.open`)."""
    return Photo.of(source, limits).open()


def reduced(
    image: Image.Image, long_side: int, photo_size: tuple[int, int] | None = None
) -> Image.Image:
    """A photo of `photo_size` (default: the image's) for people: at most `long_side` pixels a
    side."""
    photo_size = photo_size or image.size
    factor = min(1.0, long_side / max(photo_size))
    width, height = (max(1, round(side * factor)) for side in photo_size)
    return image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)


def resize(
    image: Image.Image, long_side: int, photo_size: tuple[int, int] | None = None
) -> Resized:
    """A photo of `photo_size` (default: the image's) enlarged or reduced to a long side of
    `long_side` pixels, by an antialiased triangle filter.

    No side gets shorter than 16 pixels, so the two scales of a very long photo differ.
    """
    photo_size = photo_size or image.size
    size = resized_size(*photo_size, long_side)
    pixels = np.array(image.resize(size, Image.Resampling.BILINEAR, reducing_gap=_REDUCING_GAP))
    return Resized(pixels, photo_size)


def resized_size(width: int, height: int, long_side: int) -> tuple[int, int]:
    """Width and height that `resize` gives a photo."""
    if long_side < SHORTEST_SIDE:
        raise UsageError(
            f"a photo's long side must be at least {SHORTEST_SIDE} pixels, not {long_side}"
        )
    factor = long_side / max(width, height)
    return max(SHORTEST_SIDE, round(width * factor)), max(SHORTEST_SIDE, round(height * factor))


def _next_multiple(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def pad_together(photos: Sequence[NDArray[np.uint8]], multiple: int) -> NDArray[np.uint8]:
    """Photos (H, W, 3) of different sizes as one array (N, H', W', 3), grey at right and bottom."""
    height = _next_multiple(max(photo.shape[0] for photo in photos), multiple)
    width = _next_multiple(max(photo.shape[1] for photo in photos), multiple)
    together = np.full((len(photos), height, width, 3), PADDING_GREY, dtype=np.uint8)
    for row, photo in zip(together, photos, strict=True):
        row[: photo.shape[0], : photo.shape[1]] = photo
    return together


def to_input(pixels: NDArray[np.uint8], multiple: int = 1) -> NDArray[np.float32]:
    """Pixels (H, W, 3) as the network's input (3, H', W'): RGB from 0 to 255.

    Padded with grey at right and bottom to multiples of `multiple`. The network itself normalises
    by mean and standard deviation, so that they are part of an exported graph.
    """
    return np.ascontiguousarray(
        pad_together([pixels], multiple)[0].transpose(2, 0, 1), dtype=np.float32
    )


def encode(picture: Image.Image, form: str, **options: int) -> bytes:
    """The bytes of a file of the format `form`."""
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


def _open_file(path: str | Path, name: str, limits: Limits) -> IO[bytes]:
    if _URL.match(str(path)):
        raise ImageError(
            f"{name}: an address, not a file; addresses are not fetched",
            hint="download the photo first",
        )
    if is_video(path):
        raise UnsupportedImage(
            f"{name}: a video, not a photo", hint=f"a frame of it: {name}#t=SECONDS"
        )
    file = open_regular(path, name, "photo", ImageError)
    try:
        limits.check_file(os.fstat(file.fileno()).st_size)
    except ImageTooLarge as error:
        file.close()
        raise ImageTooLarge(f"{name}: {error.message}") from None
    return file


def _read(file: Any, limits: Limits) -> bytes:
    """The bytes of an open file from its current position; reading stops once the file is known to
    be too large."""
    try:
        data = (
            b"" if isinstance(file, io.TextIOBase) else file.read(int(limits.megabytes * 1e6) + 1)
        )
    except (OSError, ValueError) as error:  # ValueError: it was closed, or is open for writing
        raise ImageError(f"this file cannot be read: {error}") from error
    if isinstance(file, io.TextIOBase) or not isinstance(data, bytes):
        raise UsageError("this file was opened as text", hint='open(path, "rb")')
    return data


def _undecoded(
    source: bytes | IO[bytes] | Image.Image | NDArray[Any], limits: Limits, held: ExitStack
) -> Image.Image:
    """`held`: what is kept while the image is worked on."""
    if isinstance(source, Image.Image):
        return source
    if isinstance(source, np.ndarray):
        return _from_array(source, limits)
    if isinstance(source, bytes):
        if len(source) > limits.megabytes * 1e6:
            size = f"{len(source) / 1e6:.1f} MB, more than {limits.megabytes:g} MB"
            raise ImageTooLarge(size, hint="a file given by its path may be larger")
        source = io.BytesIO(source)
    return _identify(source, limits, held)


def _from_array(array: NDArray[Any], limits: Limits) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise UsageError(f"an array must be (H, W), (H, W, 3) or (H, W, 4), not {array.shape}")
    image_limits.check_pixels((array.shape[1], array.shape[0]), limits)
    return Image.fromarray(_array_to_bytes(array))


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


def _work_on(
    source: bytes | IO[bytes] | Image.Image | NDArray[Any],
    name: str,
    limits: Limits,
    work: Work[Result],
) -> Result:
    with quiet_pillow, ExitStack() as held:
        try:
            image = _undecoded(source, limits, held)
            image_limits.check_pixels(image.size, limits)
            return work(image, image is not source)
        except ImageError as error:
            raise type(error)(f"{name}: {error.message}", hint=error.hint) from error
        except UsageError:
            raise
        except MemoryError as error:
            raise ImageTooLarge(f"{name}: there is not enough memory to open it") from error
        except Image.DecompressionBombError as error:
            raise ImageTooLarge(f"{name}: {_short_line(str(error))}") from error
        except Exception as error:  # given hostile bytes, decoders raise nearly anything
            reason = _short_line(str(error)) or type(error).__name__
            raise ImageError(f"{name}: a broken photo: {reason}") from error


def _identify(file: IO[bytes], limits: Limits, held: ExitStack) -> Image.Image:
    """Reads the header by one of the allowed decoders."""
    header = file.read(image_limits.HEADER_BYTES)
    if not header:
        raise ImageError("empty")
    name = image_limits.format_of(header)
    if name is None:
        raise UnsupportedImage(
            "not a photo of a supported type", hint="known: " + ", ".join(image_limits.FORMATS)
        )
    image_limits.check_structure(file, name, limits)
    formats = [name]
    if name == "HEIF":
        formats = ["AVIF", "HEIF"] if _switch_heif_on() else ["AVIF"]
    if name == "TIFF":
        quiet_libtiff()
    if image_limits.is_animated_webp(header):
        held.enter_context(_one_animation)
    try:
        return Image.open(file, formats=formats)
    except UnidentifiedImageError as error:
        if formats == ["AVIF"] and name == "HEIF":
            raise UnsupportedImage("a HEIF photo", hint="pip install 'regiontalk[heif]'") from error
        raise ImageError("a broken photo: its header cannot be read") from error


def _switch_heif_on() -> bool:
    """Registers the HEIF decoder with Pillow; False when it is not installed."""
    if importlib.util.find_spec("pillow_heif") is None:
        return False
    import pillow_heif

    pillow_heif.register_heif_opener()
    return True


def _decode_if_quick(image: Image.Image, ours: bool) -> None:
    if ours and _draft(image, (SHORTEST_SIDE, SHORTEST_SIDE)) <= _QUICK_PIXELS:
        image.load()


def _draft(image: Image.Image, size: tuple[int, int]) -> int:
    """Makes the decoder reduce a JPEG to 1/2, 1/4 or 1/8 of its size, not below `size`; other
    formats cannot do that.

    Returns how many pixels the decoder holds in memory: for a progressive JPEG always all.
    """
    whole = image.width * image.height
    image.draft(None, size)
    return whole if image.info.get("progressive") else image.width * image.height


def _upright_for(long_side: int | None) -> Work[Opened]:
    """`long_side`: the size that the photo will be resized to; None: it is decoded at full size."""
    return partial(_upright_srgb, long_side=long_side)


def _upright_srgb(image: Image.Image, ours: bool, long_side: int | None) -> Opened:
    """Upright sRGB: at full size, or if it is much larger than `long_side`, at least twice that."""
    width, height = image.size
    reduction = (1, 1)
    pixels = width * height
    if long_side is not None:
        least_width, least_height = (
            _REDUCING_GAP * side for side in resized_size(width, height, long_side)
        )
        if ours:
            pixels = _draft(image, (least_width, least_height))
        reduction = (image.width // least_width or 1, image.height // least_height or 1)
    with _decoding.take(pixels):
        loaded = webp.load(image)
        orientation = _orientation(image)
        photo = to_srgb(loaded, reduction)
        if ours:
            image.close()  # frees its pixels before the next photo is decoded
    photo.info = {}  # otherwise the result would be turned or converted again when it is reopened
    photo.getexif()[ExifTags.Base.Orientation] = orientation
    ImageOps.exif_transpose(photo, in_place=True)
    return Opened(
        photo, (height, width) if orientation in SIDEWAYS_ORIENTATIONS else (width, height)
    )


def _orientation(image: Image.Image) -> int:
    """1 (as it is) to 8."""
    try:
        orientation = int(_exif(image).get(ExifTags.Base.Orientation, 1))
        return orientation if 1 <= orientation <= 8 else 1
    except Exception:  # broken metadata is no reason to reject the photo
        return 1


def _taken(image: Image.Image) -> str | None:
    try:
        exif = _exif(image)
        text = exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.DateTimeOriginal) or exif.get(
            ExifTags.Base.DateTime
        )
        return datetime.strptime(str(text)[:19], "%Y:%m:%d %H:%M:%S").isoformat()
    except Exception:  # as above
        return None


def _exif(image: Image.Image) -> Image.Exif:
    return (
        Image.Exif()
        if len(image.info.get("exif") or b"") > image_limits.MOST_EXIF_BYTES
        else image.getexif()
    )


def _short_line(text: str) -> str:
    """The text without line breaks and control characters, and shortened, because names and
    messages come from users' files."""
    printable = one_line(text)
    return printable if len(printable) <= 300 else printable[:300] + "…"


class _Decoding:
    """Limits how many pixels all threads decode at the same time; a photo waits until there is
    room."""

    def __init__(self, pixels: int) -> None:
        self._pixels = pixels
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def take(self, pixels: int) -> Iterator[None]:
        pixels = min(pixels, self._pixels)
        with self._changed:
            self._changed.wait_for(lambda: self._taken + pixels <= self._pixels)
            self._taken += pixels
        try:
            yield
        finally:
            with self._changed:
                self._taken -= pixels
                self._changed.notify_all()


_decoding = _Decoding(_PIXELS_AT_A_TIME)
