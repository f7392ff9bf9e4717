"""Rejects files that would need far more memory or time than a photo, before they are decoded.

Decoders trust the content of a file. Each check here parses the structure of a file as its decoder
would, reads very little of it, and counts. Real photos are far below the limits; at a limit a file
takes a few seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import IO, ClassVar, Literal

from regiontalk.errors import ImageError, ImageTooLarge
from regiontalk.images import avif_limits

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")

MOST_FRAMES = 10_000  # only the first is used, but a file with more is an attack or a mistake
MOST_SEGMENTS = 5_000  # of a JPEG, metadata included; Pillow keeps each of them
MOST_SCANS = 100  # of a progressive JPEG: each goes over the whole photo
MOST_JUNK = 100_000  # bytes between the segments of a JPEG
MOST_FILL = 1_000  # bytes in a row before a marker of a JPEG; its decoder begins each row again
MOST_CHUNKS = 100_000  # of a PNG's pixels
MOST_METADATA_CHUNKS = 1_000  # of a PNG or WebP; each may unpack to a megabyte
MOST_METADATA_BYTES = 64_000_000  # of a PNG's chunks together; Pillow keeps each of them
MOST_PACKED = 1.1  # times the bytes of its pixels, of a PNG's chunk of packed pixels
MOST_EMPTY_BYTES = 1_000_000  # more than that, for chunks that pack nothing
MOST_SUB_BLOCKS = 500_000  # of a GIF, at most 255 bytes each; blocks without any count too
MOST_TAGS = 1_000  # of a TIFF's directory
MOST_DIRECTORIES = 50  # of a TIFF's metadata: its own, EXIF, GPS and interoperability
MOST_TAG_VALUES = 300_000  # numbers of a TIFF's tags together; Pillow makes an object of each
MOST_TAG_BYTES = (
    100_000_000  # texts and blobs of a TIFF's tags together (Photoshop keeps its layers there)
)
MOST_SHARED_BYTES = 1_000_000  # of a TIFF's strips, which are unpacked one by one
MOST_TILE_PIXELS = 1 << 22  # of a TIFF's tile that is larger than the photo
MOST_RUN_LENGTH_PIXELS = 10_000_000  # of a run-length BMP, which Pillow decodes in Python
MOST_EXIF_BYTES = 1 << 20  # Pillow takes 0.1 s for 16,000 fractions in it
MOST_META_BYTES = 1 << 22  # that describe an AVIF or HEIF photo, its colour profile included
MOST_BOX_BYTES = 1 << 17  # of them without the profile; the decoder looks for each item among all

READ_WHOLE = ("WEBP", "AVIF", "HEIF")  # formats whose decoders keep the whole file in memory
ANIMATED_SHARE = 0.5  # of the allowed pixels, in an animated WebP: it is held four times

HEADER_BYTES = 32
MOST_MEGAPIXELS = 178  # Pillow itself refuses more


@dataclass(frozen=True)
class Limits:
    """What a photo may have. `megabytes` holds for uploads (bytes); a local file may have 16 bytes
    for each allowed pixel, twice the largest uncompressed one. A WebP, AVIF or HEIF may have 2:
    they are packed, and read into memory as a whole.
    """

    megapixels: float = 50.0
    megabytes: float = 25.0

    @property
    def file_bytes(self) -> float:
        return self.megapixels * 1e6 * 16

    def check_file(self, size: int, name: str = "") -> None:
        """Rejects a file of `size` bytes, of the format `name` if that is known already."""
        most = self.megapixels * 1e6 * 2 if name in READ_WHOLE else self.file_bytes
        if size > most:
            of_kind = f" of {name}" if name in READ_WHOLE else ""
            raise ImageTooLarge(
                f"a file of {size / 1e6:.0f} MB is too large; "
                f"the limit{of_kind} is {most / 1e6:.0f} MB"
            )


def format_of(header: bytes) -> str | None:
    """The format by a file's first `HEADER_BYTES`; None if it is not a supported one."""
    return next(
        (name for name, (start, _) in _KNOWN.items() if re.match(start, header, re.DOTALL)), None
    )


def check_pixels(size: tuple[int, int], limits: Limits) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(f"a broken photo: {width}×{height} pixels")
    if width * height > limits.megapixels * 1e6:
        megapixels = width * height / 1e6
        raise ImageTooLarge(
            f"{width}×{height} is {megapixels:.1f} megapixels, more than {limits.megapixels:g}"
        )


def check_structure(file: IO[bytes], name: str, limits: Limits) -> None:
    """Rejects a file of the format `name` that exceeds the limits; leaves its position at the
    start."""
    limits.check_file(file.seek(0, os.SEEK_END), name)
    file.seek(0)
    _, check = _KNOWN[name]
    check(file, limits)
    file.seek(0)


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise ImageTooLarge(f"more than {most:,} {what}")


def _check_jpeg(file: IO[bytes], _: Limits) -> None:
    """Goes from marker to marker; through the coded pixels only if several scans may follow (ITU
    T.81, annex B)."""
    file.seek(2)
    segments = scans = exif_bytes = junk = components = 0
    progressive = False
    while True:
        before = file.tell()
        marker = _next_marker(file)
        if marker is None or (scans and marker == 0xD9):  # the end of the image
            return
        segments += 1
        _at_most(segments, MOST_SEGMENTS, "segments of a JPEG")
        if not scans:
            junk += file.tell() - before - 2
            _at_most(junk, MOST_JUNK, "bytes between the segments of a JPEG")
        if (
            not (0xC0 <= marker <= 0xCF or 0xDA <= marker <= 0xEF or marker == 0xFE)
            or marker == 0xC8
        ):
            continue  # it has no content
        start = file.tell()
        length = int.from_bytes(file.read(2), "big")
        content = file.read(6)
        file.seek(start + max(2, length))
        if marker == 0xDA:
            scans += 1
            _at_most(scans, MOST_SCANS, "scans of a JPEG")
            if not progressive and content[:1] == bytes([components]):
                return  # all of the photo is in this scan
        elif marker == 0xE1 and content.startswith(b"Exif"):
            exif_bytes += length
            _at_most(exif_bytes, MOST_EXIF_BYTES, "bytes of EXIF")
        elif 0xC0 <= marker <= 0xCF and marker not in (
            0xC4,
            0xCC,
        ):  # a frame's header, not its tables
            progressive = marker in (0xC2, 0xC6, 0xCA, 0xCE)
            components = content[5] if len(content) == 6 else 0


_MARKER = re.compile(
    rb"\xff[^\x00\xff\xd0-\xd7]"
)  # neither a stuffed byte nor padding nor a restart


def _next_marker(file: IO[bytes]) -> int | None:
    """The second byte of the next JPEG marker; leaves the file's position after it."""
    while len(block := file.read(1 << 16)) > 1:
        if b"\xff" * MOST_FILL in block:
            raise ImageTooLarge(f"more than {MOST_FILL:,} bytes before a marker of a JPEG")
        if marker := _MARKER.search(block):
            file.seek(marker.end() - len(block), os.SEEK_CUR)
            return block[marker.end() - 1]
        if block.endswith(b"\xff"):
            file.seek(-1, os.SEEK_CUR)
    return None


def _check_png(file: IO[bytes], _: Limits) -> None:
    place = 8
    pixels = 0
    metadata = 0
    metadata_bytes = 0
    most_packed = 0.0
    packed = 0
    while True:
        file.seek(place)
        length = int.from_bytes(file.read(4), "big")
        name = file.read(4)
        if len(name) < 4 or name == b"IEND":
            return
        if name in (b"IDAT", b"fdAT", b"fcTL"):
            pixels += 1
            _at_most(pixels, MOST_CHUNKS, "chunks of pixels")
            packed = packed + length if name == b"IDAT" else length  # a frame: each by itself
            _at_most(packed, int(most_packed), "bytes of packed pixels")
        else:
            metadata += 1
            _at_most(metadata, MOST_METADATA_CHUNKS, "chunks of metadata")
            metadata_bytes += length
            _at_most(metadata_bytes, MOST_METADATA_BYTES, "bytes of metadata")
        if name == b"IHDR":
            most_packed = MOST_PACKED * _png_pixel_bytes(file.read(10)) + MOST_EMPTY_BYTES
        elif name == b"eXIf":
            _at_most(length, MOST_EXIF_BYTES, "bytes of EXIF")
        elif name in (b"tEXt", b"zTXt", b"iTXt") and file.read(len(_RAW_EXIF)) == _RAW_EXIF:
            _at_most(length // 2, MOST_EXIF_BYTES, "bytes of EXIF")  # two digits a byte
        place += 12 + length


_RAW_EXIF = b"Raw profile type exif\0"  # the EXIF of a PNG as ImageMagick writes it, a text


def _png_pixel_bytes(header: bytes) -> int:
    """Bytes of all rows before they are packed, from the content of the chunk IHDR."""
    width, height = (int.from_bytes(header[at : at + 4], "big") for at in (0, 4))
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.get(header[-1], 4)
    return (1 + -(-width * channels * header[-2] // 8)) * height


def _check_webp(file: IO[bytes], limits: Limits) -> None:
    header = file.read(HEADER_BYTES)
    if size := webp_size(header):  # libwebp allocates the canvas as it opens the file
        allowed = limits.megapixels * (ANIMATED_SHARE if is_animated_webp(header) else 1.0)
        check_pixels(size, replace(limits, megapixels=allowed))
    place = 12
    frames = 0
    metadata = 0
    while True:
        file.seek(place)
        name = file.read(4)
        length = int.from_bytes(file.read(4), "little")
        if len(name) < 4:
            return
        if name == b"ANMF":
            frames += 1
            _at_most(frames, MOST_FRAMES, "frames")
        else:
            metadata += 1
            _at_most(metadata, MOST_METADATA_CHUNKS, "chunks of metadata")
        if name == b"EXIF":
            _at_most(length, MOST_EXIF_BYTES, "bytes of EXIF")
        place += 8 + length + length % 2


def is_animated_webp(header: bytes) -> bool:
    """Whether a file is an animated WebP, by its first `HEADER_BYTES`."""
    flags = header[20:21] if header[:4] == b"RIFF" and header[8:16] == b"WEBPVP8X" else b""
    return bool(flags) and bool(flags[0] & 2)


def webp_size(header: bytes) -> tuple[int, int] | None:
    """Width and height from a WebP container's first 30 bytes (RFC 9649), None where they are cut
    off."""
    if len(header) < 30:
        return None
    if header[12:16] == b"VP8X":
        return int.from_bytes(header[24:27], "little") + 1, int.from_bytes(
            header[27:30], "little"
        ) + 1
    if header[12:16] == b"VP8L":
        bits = int.from_bytes(header[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = (int.from_bytes(header[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    return width, height


def _check_gif(file: IO[bytes], _: Limits) -> None:
    """Counts images and sub-blocks (GIF89a specification, sections 15 to 27)."""
    file.seek(13 + _colour_table_bytes(file.read(11)[10:]))
    frames = sub_blocks = 0
    while (block := file.read(1)) in (b",", b"!"):
        sub_blocks += 1
        _at_most(sub_blocks, MOST_SUB_BLOCKS, "sub-blocks of a GIF")
        if block == b",":
            frames += 1
            _at_most(frames, MOST_FRAMES, "frames")
            file.seek(_colour_table_bytes(file.read(9)[8:]) + 1, os.SEEK_CUR)
        else:
            file.seek(1, os.SEEK_CUR)
        while (length := file.read(1)) not in (b"", b"\0"):
            sub_blocks += 1
            _at_most(sub_blocks, MOST_SUB_BLOCKS, "sub-blocks of a GIF")
            file.seek(length[0], os.SEEK_CUR)


def _colour_table_bytes(flags: bytes) -> int:
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _check_bmp(file: IO[bytes], _: Limits) -> None:
    header = file.read(34)
    width, height, compression = (
        int.from_bytes(header[at : at + 4], "little", signed=True) for at in (18, 22, 30)
    )
    if header[14] >= 40 and compression in (1, 2):
        _at_most(width * abs(height), MOST_RUN_LENGTH_PIXELS, "pixels of a run-length BMP")


class _Tiff:
    """The directories of a TIFF (TIFF 6.0, section 2) or BigTIFF, whose counts and offsets have
    eight bytes."""

    WIDTH = 256
    HEIGHT = 257
    TILE_WIDTH = 322
    TILE_HEIGHT = 323
    SIZES = (WIDTH, HEIGHT, TILE_WIDTH, TILE_HEIGHT)
    STRIPS = (273, 324)
    STRIP_BYTES = (279, 325)
    PLACES = (3, 4, 16)  # types of strips: numbers of 2, 4 and 8 bytes
    DIRECTORIES = (
        34665,
        34853,
        40965,
    )  # EXIF, GPS, interoperability: Pillow reads them with the photo
    BLOBS = (1, 2, 7)  # bytes, text, undefined
    BYTES: ClassVar = {1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 8: 2, 9: 4, 13: 4, 16: 8, 17: 8}
    """Type -> bytes of a value, for the types that sizes and offsets may have."""

    def __init__(self, file: IO[bytes]) -> None:
        header = file.read(16)
        self.file = file
        self.order: Literal["little", "big"] = "little" if header[:2] == b"II" else "big"
        self.word, self.count_bytes = (8, 8) if b"+" in header[2:4] else (4, 2)
        self.first = int.from_bytes(header[self.word : 2 * self.word], self.order)

    def _number(self, size: int) -> int:
        return int.from_bytes(self.file.read(size), self.order)

    def stored_in_place(self, kind: int, count: int) -> bool:
        """Whether a tag is one whole number that stands in the directory itself.

        Eight bytes of a classic TIFF would stand elsewhere; decoders read them, though no TIFF may
        have them.
        """
        return count == 1 and self.BYTES.get(kind, self.word + 1) <= self.word

    def total(self, kind: int, count: int, value: int) -> int:
        """The sum of a tag's whole numbers."""
        size = self.BYTES[kind]
        if count * size > self.word:
            self.file.seek(value)
            data = self.file.read(count * size)
        elif count == 1:
            return value
        else:
            data = value.to_bytes(self.word, self.order)[: count * size]
        starts = range(0, len(data), size)
        return sum(int.from_bytes(data[at : at + size], self.order) for at in starts)

    def pages(self) -> Iterator[int]:
        """The offset of each page's directory."""
        start = self.first
        while start:
            yield start
            self.file.seek(start)
            self.file.seek((4 + 2 * self.word) * self._number(self.count_bytes), os.SEEK_CUR)
            start = self._number(self.word)

    def tags(self, start: int) -> Iterator[tuple[int, int, int, int]]:
        """Number, type, count and first value (or offset of the values) of each tag of a
        directory."""
        self.file.seek(start)
        tags = self._number(self.count_bytes)
        _at_most(tags, MOST_TAGS, "tags of a TIFF")
        size = 4 + 2 * self.word
        data = self.file.read(size * tags)
        for at in range(0, len(data) - size + 1, size):
            tag, kind = (
                int.from_bytes(data[at + skip : at + skip + 2], self.order) for skip in (0, 2)
            )
            value = at + 4 + self.word
            count = int.from_bytes(data[at + 4 : value], self.order)
            stored = self.BYTES.get(kind, self.word) if count == 1 else self.word
            yield tag, kind, count, int.from_bytes(data[value : value + stored], self.order)


def _check_tiff(file: IO[bytes], _: Limits) -> None:
    tiff = _Tiff(file)
    pages: set[int] = set()
    for page in tiff.pages():
        if page in pages:
            raise ImageError("a broken photo: its pages go round in a circle")
        pages.add(page)
        _at_most(len(pages), MOST_FRAMES, "frames")
    directories = [tiff.first]
    numbers = 0
    blobs = 0
    packed = 0
    values: dict[int, int] = {}
    for start in directories:  # the list grows in the loop
        for tag, kind, count, value in tiff.tags(start):
            if tag in _Tiff.SIZES and not tiff.stored_in_place(kind, count):
                raise ImageError("a broken photo: its size is not stored as a TIFF's")
            if tag in (*_Tiff.STRIPS, *_Tiff.STRIP_BYTES) and kind not in _Tiff.PLACES:
                raise ImageError("a broken photo: its strips are not stored as a TIFF's")
            values.setdefault(tag, value)
            numbers += 0 if kind in _Tiff.BLOBS else count
            blobs += count if kind in _Tiff.BLOBS else 0
            _at_most(numbers, MOST_TAG_VALUES, "values in a TIFF's tags")
            _at_most(blobs, MOST_TAG_BYTES, "bytes in a TIFF's tags")
            if tag in _Tiff.STRIP_BYTES:
                packed += tiff.total(kind, count, value)
            if tag in _Tiff.DIRECTORIES and value not in directories:
                directories.append(value)
                _at_most(len(directories), MOST_DIRECTORIES, "directories of a TIFF")
    width, height, tile_width, tile_height = (values.get(tag, 0) for tag in _Tiff.SIZES)
    _at_most(packed - file.seek(0, os.SEEK_END), MOST_SHARED_BYTES, "bytes of shared strips")
    most = max(MOST_TILE_PIXELS, int(1.25 * width * height))  # a tile's sides are multiples of 16
    _at_most(tile_width * tile_height, most, "pixels in a TIFF's tile")


def _check_boxes(file: IO[bytes], limits: Limits) -> None:
    """The boxes of an AVIF or HEIF file (ISO/IEC 14496-12, section 4.2): those with metadata must
    be small, and the size that they give must be true."""
    most_pixels = limits.megapixels * 1e6
    sizes = []
    is_avif = False
    for name, length in _file_boxes(file):
        if name in (b"ftyp", b"moov"):
            _at_most(length, MOST_BOX_BYTES, "bytes of metadata")
        if name == b"ftyp":
            brands = file.read(length)
            is_avif = b"avif" in brands or b"avis" in brands
        elif name == b"moov":
            sizes.append(avif_limits.largest_in_tracks(file, file.read(length), most_pixels))
        elif name == b"meta":
            _at_most(length, MOST_META_BYTES, "bytes of metadata")
            sizes.append(_check_meta(file, file.read(length), most_pixels))
    coded_sizes = [size for size in sizes if any(size)]
    for size in coded_sizes:
        check_pixels(size, limits)
    if is_avif and not coded_sizes:
        raise ImageError("a broken photo: its pixels cannot be found")


def _file_boxes(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Name of each box of a file and the length of its content, where the file's position is."""
    place = 0
    boxes = 0
    end = file.seek(0, os.SEEK_END)
    while place < end:
        boxes += 1
        _at_most(boxes, MOST_METADATA_CHUNKS, "boxes of metadata")
        file.seek(place)
        length = int.from_bytes(file.read(4), "big")
        name = file.read(4)
        header = 8
        if length == 1:  # it follows, in 64 bits
            length = int.from_bytes(file.read(8), "big")
            header = 16
        length = length if length >= header else end - place  # 0: to the end of the file
        yield name, max(0, length - header)
        place += length


def _check_meta(file: IO[bytes], meta: bytes, most_pixels: float) -> tuple[int, int]:
    """The largest size of a coded photo that a `meta` box lists; (0, 0) if it lists none."""
    others = len(meta) - avif_limits.profile_bytes(meta)
    _at_most(others, MOST_BOX_BYTES, "bytes of metadata")
    _at_most(avif_limits.exif_bytes(meta), MOST_EXIF_BYTES, "bytes of EXIF")
    size = avif_limits.check_sizes(file, meta, most_pixels)
    avif_limits.check_derived(meta, most_pixels)
    return size


_KNOWN: dict[str, tuple[bytes, Callable[[IO[bytes], Limits], None]]] = {
    "JPEG": (rb"\xff\xd8\xff", _check_jpeg),
    "PNG": (rb"\x89PNG\r\n\x1a\n", _check_png),
    "WEBP": (rb"RIFF.{4}WEBPVP8[ LX]", _check_webp),
    "GIF": (rb"GIF8[79]a", _check_gif),
    "BMP": (
        rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0",
        _check_bmp,
    ),  # and the size of its second header
    "TIFF": (rb"II[*+]\0|MM\0\*", _check_tiff),  # not MM\0+: Pillow reads such a BigTIFF as a TIFF
    "AVIF": (rb".{4}ftypavi[fs]", _check_boxes),
    "HEIF": (
        rb".{4}ftyp(hei[cxms]|hev[cx]|mif1|msf1)",
        _check_boxes,
    ),  # the last two may be AVIF as well
}
"""How a file of each format begins, and its check."""
