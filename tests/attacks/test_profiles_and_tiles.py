"""Two bombs: an ICC profile of many stages, and TIFF sizes in types that a classic TIFF cannot
hold."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

from regiontalk.errors import ImageError
from regiontalk.images import colours
from regiontalk.images.limits import Limits, check_structure

WIDTH, HEIGHT, TILE_WIDTH, TILE_HEIGHT = 256, 257, 322, 323
LONG, LONG8, SLONG8 = 4, 16, 17


def with_tag(profile: bytes, name: bytes, content: bytes) -> bytes:
    """An ICC profile with one more tag at its end."""
    count = int.from_bytes(profile[128:132], "big")
    table = bytearray(profile[132 : 132 + 12 * count])
    for at in range(4, len(table), 12):
        moved = int.from_bytes(table[at : at + 4], "big") + 12
        table[at : at + 4] = moved.to_bytes(4, "big")
    body = profile[132 + 12 * count :]
    start = 132 + 12 * (count + 1) + len(body)
    entry = name + struct.pack(">II", start, len(content))
    length = struct.pack(">I", start + len(content))
    return b"".join(
        (length, profile[4:128], struct.pack(">I", count + 1), table, entry, body, content)
    )


def stages(count: int) -> bytes:
    """The content of an `mpet` tag: `count` stages that share one 3×3 matrix."""
    start = 16 + 8 * count
    matrix = b"matf\0\0\0\0" + struct.pack(">HH", 3, 3) + struct.pack(">12f", *np.eye(4, 3).flat)
    places = struct.pack(">II", start, len(matrix)) * count
    return b"mpet\0\0\0\0" + struct.pack(">HHI", 3, 3, count) + places + matrix


@pytest.mark.timeout(10)
def test_a_profile_of_many_stages_is_not_applied() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    bomb = with_tag(
        profile.replace("sRGB".encode("utf-16-be"), "wide".encode("utf-16-be")),
        b"D2B0",
        stages(100_000),
    )
    image = Image.new("RGB", (640, 480), (200, 100, 50))
    image.info["icc_profile"] = bomb
    assert colours._is_costly(bomb)
    assert not colours._is_costly(profile)
    assert colours.to_srgb(image).getpixel((0, 0)) == (200, 100, 50)


def test_a_profile_of_more_tags_than_any_reader_takes_is_not_read() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    few = int.from_bytes(profile[128:132], "big")
    for _ in range(100 - few):
        profile = with_tag(profile, b"more", b"text\0\0\0\0")
    assert not colours._is_costly(profile)
    assert colours._is_costly(with_tag(profile, b"more", b"text\0\0\0\0"))


def tiff(**kinds: int) -> io.BytesIO:
    """A classic TIFF's header and directory, 64×64 pixels with a tile of 46,000×46,000."""
    sizes = {"width": (WIDTH, 64), "height": (HEIGHT, 64)}
    sizes |= {"tile_width": (TILE_WIDTH, 46_000), "tile_height": (TILE_HEIGHT, 46_000)}
    entries, values = b"", b""
    after = 8 + 2 + 12 * len(sizes) + 4
    for name, (tag, value) in sizes.items():
        kind = kinds.get(name, LONG)
        stored = value
        if kind != LONG:
            stored = after + len(values)
            values += struct.pack("<q", value)
        entries += struct.pack("<HHII", tag, kind, 1, stored)
    head = b"II*\0" + struct.pack("<IH", 8, len(sizes))
    return io.BytesIO(head + entries + bytes(4) + values)


@pytest.mark.parametrize(
    "kinds",
    [
        {},
        {"tile_width": SLONG8, "tile_height": SLONG8},
        {"width": LONG8, "tile_height": SLONG8},
        {"width": LONG8, "height": LONG8},
    ],
)
def test_no_type_of_a_size_passes_the_limit_of_tiles(kinds: dict[str, int]) -> None:
    with pytest.raises(ImageError):
        check_structure(tiff(**kinds), "TIFF", Limits())
