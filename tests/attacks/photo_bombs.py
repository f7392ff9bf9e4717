"""Small files that take much memory or time to open, one for each limit of
`regiontalk.images.limits`."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

from hostile_files import encode, png_chunk
from PIL import Image


def flat(width: int, height: int, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (width, height))


def jpeg_segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def jpeg_with(between: bytes) -> bytes:
    data = encode(flat(16, 16), "JPEG")
    return data[:2] + between + data[2:]


def jpeg_markers(count: int) -> bytes:
    return jpeg_with(jpeg_segment(0xE5, b"") * count)


def jpeg_junk(count: int) -> bytes:
    return jpeg_with(b"\xff\xd0" * (count // 2))


def jpeg_scans(count: int, side: int = 16) -> bytes:
    """The last scan of a progressive JPEG again and again."""
    data = encode(flat(side, side), "JPEG", progressive=True)
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + scan * count + data[-2:]


def many_scans(count: int) -> bytes:
    """Of as large a photo as may be, where the scans are many."""
    return jpeg_scans(count, 7000 if count >= 90 else 16)


def fractions(count: int, tag: int = 0x0112) -> bytes:
    """EXIF whose orientation is so many fractions."""
    entry = struct.pack("<HHHIII", 1, tag, 5, count, 26, 0)
    return b"II*\0" + struct.pack("<I", 8) + entry + struct.pack("<II", 3, 7) * count


def jpeg_exif(count: int) -> bytes:
    exif = fractions(count)
    parts = [exif[start : start + 65_000] for start in range(0, len(exif), 65_000)]
    return jpeg_with(b"".join(jpeg_segment(0xE1, b"Exif\0\0" + part) for part in parts))


def png_with(*chunks: bytes) -> bytes:
    data = encode(flat(16, 16), "PNG")
    return data[:33] + b"".join(chunks) + data[33:]


def png_chunks(count: int) -> bytes:
    return png_with(png_chunk(b"prVt", b"") * count)


def png_pixels(count: int) -> bytes:
    return png_with(png_chunk(b"IDAT", b"") * count)


def png_profiles(count: int) -> bytes:
    return png_with(png_chunk(b"iCCP", b"x\0\0" + zlib.compress(bytes(1 << 20))) * count)


def png_exif(count: int) -> bytes:
    return png_with(png_chunk(b"eXIf", fractions(count)))


def png_raw_exif(count: int) -> bytes:
    """EXIF in hexadecimal digits, as ImageMagick writes it into a text of a PNG."""
    exif = b"Exif\0\0" + fractions(count)
    text = b"\nexif\n%8d\n" % len(exif) + exif.hex().encode()
    return png_with(png_chunk(b"tEXt", b"Raw profile type exif\0" + text))


def png_packed(count: int) -> bytes:
    """Pixels that are followed by zeros, which Pillow reads as a whole."""
    data = encode(flat(16, 16), "PNG")
    start = data.index(b"IDAT") - 4
    (length,) = struct.unpack_from(">I", data, start)
    pixels = data[start + 8 : start + 8 + length] + bytes(count)
    return data[:start] + png_chunk(b"IDAT", pixels) + png_chunk(b"IEND", b"")


def png_private(count: int) -> bytes:
    """A chunk of another program."""
    return png_with(png_chunk(b"prVt", bytes(count)))


def webp_animation(side: int) -> bytes:
    """A frame of one pixel on a large canvas, of which libwebp holds two copies at once."""
    pixel = encode(flat(1, 1, "RGBA"), "WEBP", lossless=True)[12:]
    far = struct.pack("<I", side - 1)[:3] * 2
    frame = bytes(12) + struct.pack("<I", 100)[:3] + b"\0" + pixel
    chunks = [(b"VP8X", b"\x12\0\0\0" + far), (b"ANIM", bytes(6)), (b"ANMF", frame)]
    body = b"".join(
        name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)
        for name, content in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def webp_with(chunk: bytes) -> bytes:
    data = encode(flat(16, 16), "WEBP", exif=b"Exif\0\0" + fractions(1)) + chunk
    return data[:4] + struct.pack("<I", len(data) - 8) + data[8:]


def webp_chunks(count: int) -> bytes:
    return webp_with(b"prVt\0\0\0\0" * count)


def webp_exif(count: int) -> bytes:
    return encode(flat(16, 16), "WEBP", exif=fractions(count))


def gif_sub_blocks(count: int) -> bytes:
    """A comment before the image, a byte at a time."""
    data = encode(flat(16, 16, "P"), "GIF")
    start = data.index(b",")
    return data[:start] + b"!\xfe" + b"\1 " * count + b"\0" + data[start:]


def gif_comments(count: int) -> bytes:
    """Comments without a byte."""
    data = encode(flat(16, 16, "P"), "GIF")
    start = data.index(b",")
    return data[:start] + b"!\xfe\0" * count + data[start:]


def gif_pixels(count: int) -> bytes:
    """What follows the image's pixels, a byte at a time."""
    data = encode(flat(16, 16, "P"), "GIF")
    return data[:-2] + b"\1\0" * count + data[-2:]


def gif_frames(count: int) -> bytes:
    data = encode(flat(16, 16, "P"), "GIF")
    start = data.index(b",")
    return data[:start] + data[start:-1] * count + b";"


def bmp_runs(pixels: int) -> bytes:
    """One row that ends after a pixel: the decoder fills it up, pixel by pixel."""
    header = struct.pack("<IiiHHIIiiII", 40, pixels, 1, 1, 8, 1, 6, 0, 0, 256, 0)
    return struct.pack("<2sIHHI", b"BM", 1084, 0, 0, 1078) + header + bytes(1024) + b"\1\0\0\0\0\1"


def tiff(
    tags: list[tuple[int, int, int, int]], data: bytes = b"", order: str = "<", big: bool = False
) -> bytes:
    """A TIFF of one page with tags (number, type, count, value); the value -1 is the place of
    `data`."""
    tags = sorted(tags)
    head, entry = ("HHHQQ", "HHQQ") if big else ("HIH", "HHII")
    place = (
        2
        + struct.calcsize(order + head)
        + struct.calcsize(order + entry) * len(tags)
        + (8 if big else 4)
    )
    mark = b"II" if order == "<" else b"MM"
    start = (
        struct.pack(order + head, 43, 8, 0, 16, len(tags))
        if big
        else struct.pack(order + head, 42, 8, len(tags))
    )

    def packed(tag: int, kind: int, count: int, value: int) -> bytes:
        value = place if value == -1 else value
        if order == ">" and count == 1:  # a value stands at the left of its field
            value <<= (64 if big else 32) - {3: 16, 4: 32}[kind]
        return struct.pack(order + entry, tag, kind, count, value)

    return mark + start + b"".join(packed(*tag) for tag in tags) + bytes(8 if big else 4) + data


GREY = [(256, 4, 1, 16), (257, 4, 1, 16), (258, 3, 1, 8), (262, 3, 1, 1)]
RAW = [*GREY, (259, 3, 1, 1), (273, 4, 1, -1), (278, 4, 1, 16), (279, 4, 1, 256)]


def tiff_tile(side: int) -> bytes:
    packer = zlib.compressobj(9)
    row = bytes(side)
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    tags = [
        *GREY,
        (259, 3, 1, 8),
        (322, 4, 1, side),
        (323, 4, 1, side),
        (324, 4, 1, -1),
        (325, 4, 1, len(pixels)),
    ]
    return tiff(tags, pixels)


def tiff_strips(count: int) -> bytes:
    tags = [*GREY, (259, 3, 1, 1), (278, 4, 1, 1), (273, 4, count, -1), (279, 4, count, -1)]
    return tiff(tags, struct.pack("<I", 8) * max(64, count))


def tiff_shared_strips(count: int) -> bytes:
    """Strips of two pixels, all in the same bytes, which begin with many empty blocks."""
    plain = zlib.compress(bytes(2))
    packed = plain[:2] + b"\0\0\0\xff\xff" * 8_000 + plain[2:]
    size = [(256, 4, 1, 2), (257, 4, 1, count), (278, 4, 1, 1)]
    kind = [(258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1)]
    start = len(tiff([*size, *kind, (273, 4, 0, 0), (279, 4, 0, 0)]))
    strips = [(273, 4, count, start), (279, 4, count, start + 4 * count)]
    places = struct.pack("<I", start + 8 * count) * count
    lengths = struct.pack("<I", len(packed)) * count
    return tiff([*size, *kind, *strips], places + lengths + packed)


def tiff_fractions(count: int) -> bytes:
    """In the EXIF directory, which Pillow reads with the photo."""
    start = len(tiff([*RAW, (34665, 4, 1, 0)])) + 256
    entry = struct.pack("<HHHIII", 1, 33434, 5, count, start + 18, 0)
    return tiff([*RAW, (34665, 4, 1, start)], bytes(256) + entry + struct.pack("<II", 3, 7) * count)


def tiff_tags(count: int) -> bytes:
    return tiff(
        [*RAW, *((40_000 + number % 20_000, 3, 1, 1) for number in range(count))], bytes(256)
    )


def tiff_text(count: int) -> bytes:
    return tiff([*RAW, (270, 2, count, -1)], bytes(max(256, count)))


def tiff_directories(count: int) -> bytes:
    """EXIF in EXIF in EXIF."""
    start = len(tiff([*RAW, (34665, 4, 1, 0)])) + 256
    links = (
        struct.pack("<HHHIII", 1, 34665, 4, 1, start + 18 * number, 0)
        for number in range(1, count + 1)
    )
    return tiff([*RAW, (34665, 4, 1, start)], bytes(256) + b"".join(links) + bytes(18))


def tiff_pages(count: int) -> bytes:
    page = tiff(RAW, bytes(256))[8:-256]
    place = 8 + len(page) * count
    tags = [(*tag[:3], place if tag[3] == -1 else tag[3]) for tag in RAW]
    pages = []
    for number in range(count):
        following = 8 + len(page) * (number + 1) if number + 1 < count else 0
        pages.append(tiff(tags)[8:-4] + struct.pack("<I", following))
    return b"II*\0" + struct.pack("<I", 8) + b"".join(pages) + bytes(256)


def box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + name + content


def avif_exif(count: int) -> bytes:
    """Pillow writes no such orientation, so another tag takes its place first."""
    harmless = fractions(count, tag=0x013E)
    data = encode(flat(16, 16), "AVIF", speed=10, exif=harmless)
    return data.replace(harmless[:12], fractions(count)[:12])


def avif_items(count: int) -> bytes:
    """The photo's item and so many without content: libavif compares each with all before it."""
    data = encode(flat(16, 16), "AVIF", speed=10)
    meta, table, pixels = data.index(b"meta") - 4, data.index(b"iloc") - 4, data.index(b"mdat") - 4
    (meta_length,), (table_length,) = (
        struct.unpack_from(">I", data, meta),
        struct.unpack_from(">I", data, table),
    )
    more = b"".join(struct.pack(">IHHH", 1000 + number, 0, 0, 0) for number in range(count))
    grown = 36 + len(more) - table_length
    (start, length) = struct.unpack_from(">II", data, table + 22)
    assert start == pixels + 8
    first = struct.pack(">IHHHII", 1, 0, 0, 1, start + grown, length)
    items = box(b"iloc", struct.pack(">IBBI", 2 << 24, 0x44, 0, count + 1) + first + more)
    content = data[meta + 8 : table] + items + data[table + table_length : meta + meta_length]
    return data[:meta] + box(b"meta", content) + data[meta + meta_length :]


def heif_boxes(count: int) -> bytes:
    return encode(flat(16, 16), "AVIF", speed=10) + box(b"free", b"") * count


class Bomb(NamedTuple):
    limit: str
    """The constant of `images.limits` that refuses it."""
    make: Callable[[int], bytes]
    most: int
    """How large it may be."""
    real: int
    """How large it must be to hurt, in at most 25 MB."""


BOMBS = (
    Bomb("MOST_SEGMENTS", jpeg_markers, 4_900, 6_000_000),
    Bomb("MOST_JUNK", jpeg_junk, 99_000, 24_000_000),
    Bomb("MOST_SCANS", many_scans, 90, 20_000),
    Bomb("MOST_EXIF_BYTES", jpeg_exif, 130_000, 3_000_000),
    Bomb("MOST_EXIF_BYTES", png_exif, 130_000, 3_000_000),
    Bomb("MOST_EXIF_BYTES", png_raw_exif, 130_000, 1_500_000),
    Bomb("MOST_EXIF_BYTES", webp_exif, 130_000, 3_000_000),
    Bomb("MOST_EXIF_BYTES", avif_exif, 130_000, 3_000_000),
    Bomb("MOST_METADATA_CHUNKS", png_chunks, 990, 2_000_000),
    Bomb("MOST_METADATA_CHUNKS", png_profiles, 990, 20_000),
    Bomb("MOST_METADATA_BYTES", png_private, 24_000_000, 24_000_000),
    Bomb("MOST_EMPTY_BYTES", png_packed, 990_000, 24_000_000),
    Bomb("ANIMATED_SHARE", webp_animation, 5_000, 7_000),
    Bomb("MOST_METADATA_CHUNKS", webp_chunks, 990, 3_000_000),
    Bomb("MOST_METADATA_CHUNKS", heif_boxes, 990, 3_000_000),
    Bomb("MOST_CHUNKS", png_pixels, 99_000, 2_000_000),
    Bomb("MOST_SUB_BLOCKS", gif_sub_blocks, 499_000, 12_000_000),
    Bomb("MOST_SUB_BLOCKS", gif_comments, 499_000, 8_000_000),
    Bomb("MOST_SUB_BLOCKS", gif_pixels, 499_000, 12_000_000),
    Bomb("MOST_FRAMES", gif_frames, 9_900, 400_000),
    Bomb("MOST_FRAMES", tiff_pages, 9_900, 200_000),
    Bomb("MOST_RUN_LENGTH_PIXELS", bmp_runs, 10_000_000, 49_000_000),
    Bomb("MOST_TILE_PIXELS", tiff_tile, 2_048, 46_300),
    Bomb("MOST_SHARED_BYTES", tiff_shared_strips, 24, 140_000),
    Bomb("MOST_TAG_VALUES", tiff_strips, 149_000, 6_000_000),
    Bomb("MOST_TAG_VALUES", tiff_fractions, 299_000, 3_000_000),
    Bomb("MOST_TAGS", tiff_tags, 990, 60_000),
    Bomb("MOST_DIRECTORIES", tiff_directories, 45, 290_000),
    Bomb("MOST_TAG_BYTES", tiff_text, 24_000_000, 24_000_000),
    Bomb("MOST_BOX_BYTES", avif_items, 12_500, 2_000_000),
)


def is_sound(data: bytes) -> bool:
    """Whether Pillow itself opens it."""
    with Image.open(io.BytesIO(data)) as image:
        image.load()
    return True
