"""Files that are small and cost much: refused before a pixel is decoded, and only where they cost
much.

`fuzz_photos.py` opens them at the sizes that hurt.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hostile_files import encode, png_chunk
from photo_bombs import (
    BOMBS,
    RAW,
    Bomb,
    bmp_runs,
    flat,
    is_sound,
    jpeg_scans,
    png_packed,
    png_with,
    tiff,
    tiff_fractions,
    tiff_tile,
    webp_animation,
)
from PIL import Image

from regiontalk.errors import ImageError, ImageTooLarge, UnsupportedImage
from regiontalk.images import limits as image_limits
from regiontalk.images import photo as images
from regiontalk.images.limits import Limits

ELSEWHERE = (
    "MOST_TILE_PIXELS",
    "MOST_EXIF_BYTES",
    "MOST_BOX_BYTES",
    "MOST_EMPTY_BYTES",
    "ANIMATED_SHARE",
)
"""Limits of other kinds, with tests of their own."""
COUNTED = [bomb for bomb in BOMBS if bomb.limit not in ELSEWHERE]


def name_of(bomb: Bomb) -> str:
    return f"{bomb.limit}-{bomb.make.__name__}"


@pytest.mark.parametrize("bomb", COUNTED, ids=name_of)
def test_findings_c1_and_c2_what_is_counted_is_refused_above_its_limit(
    bomb: Bomb, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = bomb.make(20)
    assert is_sound(ordinary), "the attack must be one that a decoder follows"
    assert images.open_photo(ordinary).size[0] > 1
    monkeypatch.setattr(image_limits, bomb.limit, 19)
    monkeypatch.setattr(images, "_upright_srgb", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ImageTooLarge, match="more than 19 "):
        images.open_photo(ordinary)


@pytest.mark.parametrize(
    "bomb", [bomb for bomb in BOMBS if bomb.limit == "MOST_EXIF_BYTES"], ids=name_of
)
def test_metadata_of_many_fractions_is_refused(bomb: Bomb, monkeypatch: pytest.MonkeyPatch) -> None:
    assert images.open_photo(bomb.make(200)).size == (16, 16)
    monkeypatch.setattr(image_limits, "MOST_EXIF_BYTES", 1000)
    with pytest.raises(ImageTooLarge, match="more than 1,000 bytes of EXIF"):
        images.open_photo(bomb.make(200))


def test_few_bytes_fill_up_a_jpeg() -> None:
    """24 MB of them after the pixels took 40 seconds."""
    data = encode(flat(16, 16), "JPEG", progressive=True)
    filled = [data[:-2] + b"\xff" * count + data[-2:] for count in (900, 300_000)]
    assert images.open_photo(filled[0]).size == (16, 16)
    with pytest.raises(ImageTooLarge, match="bytes before a marker"):
        images.open_photo(filled[1])


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt"])
def test_every_text_with_exif_is_counted(kind: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_limits, "MOST_EXIF_BYTES", 1000)
    bomb = png_with(png_chunk(kind, b"Raw profile type exif\0" + bytes(2100)))
    with pytest.raises(ImageTooLarge, match="more than 1,000 bytes of EXIF"):
        images.open_photo(bomb)


def test_no_more_packed_bytes_than_pixels_need() -> None:
    assert images.open_photo(png_packed(900_000)).size == (16, 16)
    with pytest.raises(ImageTooLarge, match="bytes of packed pixels"):
        images.open_photo(png_packed(1_100_000))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_pixels_that_do_not_pack_are_within_the_limit(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_limits, "MOST_EMPTY_BYTES", 100)
    noise = Image.effect_noise((400, 300), 99)
    photo = Image.fromarray(np.asarray(noise).astype(np.uint16)) if mode == "I;16" else noise
    data = encode(photo if mode == "I;16" else photo.convert(mode), "PNG", compress_level=0)
    assert images.open_photo(data).size == (400, 300)


def test_an_animation_may_have_half_the_pixels() -> None:
    limits = Limits(megapixels=1)
    assert images.open_photo(webp_animation(700), limits).size == (700, 700)
    with pytest.raises(ImageTooLarge, match=r"more than 0\.5"):
        images.open_photo(webp_animation(800), limits)
    assert images.open_photo(encode(flat(800, 800), "WEBP"), limits).size == (800, 800)


@pytest.mark.parametrize("kind", ["WEBP", "AVIF", "PNG", "JPEG"])
def test_a_file_that_is_read_as_a_whole_has_a_limit_of_its_own(kind: str, tmp_path: Path) -> None:
    """A sparse file takes no room on the disk."""
    (tmp_path / "photo").write_bytes(encode(flat(16, 16), kind))
    os.truncate(tmp_path / "photo", 3_000_000)
    limits = Limits(megapixels=1)
    if kind in ("PNG", "JPEG"):  # what follows the photo is never read
        assert images.open_photo(tmp_path / "photo", limits).size == (16, 16)
    else:
        with pytest.raises(ImageTooLarge, match=f"3 MB is too large; the limit of {kind} is 2 MB"):
            images.open_photo(tmp_path / "photo", limits)


def test_the_items_of_an_avif_are_bounded() -> None:
    (bomb,) = (bomb for bomb in BOMBS if bomb.limit == "MOST_BOX_BYTES")
    assert images.open_photo(bomb.make(100)).size == (16, 16)
    with pytest.raises(ImageTooLarge, match="bytes of metadata"):
        images.open_photo(bomb.make(20_000))


def test_a_tile_far_larger_than_its_photo_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert images.open_photo(tiff_tile(256)).size == (16, 16)
    monkeypatch.setattr(image_limits, "MOST_TILE_PIXELS", 255 * 256)
    with pytest.raises(ImageTooLarge, match="tile"):
        images.open_photo(tiff_tile(256))


@pytest.mark.parametrize(("order", "big"), [("<", False), (">", False), ("<", True)])
def test_every_kind_of_tiff_is_read_as_it_is_stored(order: str, big: bool) -> None:
    pixels = bytes(range(256))
    data = tiff(RAW, pixels, order, big)
    assert images.open_photo(data).convert("L").tobytes() == pixels
    wide = [
        (*tag[:3], 50_000 if tag[0] in (322, 323) else tag[3])
        for tag in [*RAW, (322, 3, 1, 0), (323, 4, 1, 0)]
    ]
    with pytest.raises(ImageTooLarge, match="tile"):
        images.open_photo(tiff(wide, pixels, order, big))


def test_a_tiff_that_pillow_would_read_otherwise_than_we_is_refused() -> None:
    with pytest.raises(UnsupportedImage):
        images.open_photo(tiff(RAW, bytes(256), ">", big=True))


@pytest.mark.parametrize("kind", [1, 2, 5, 6, 7, 9, 17])
@pytest.mark.parametrize("tag", [273, 279])
def test_the_places_of_strips_are_numbers(tag: int, kind: int) -> None:
    """Pillow makes an object of each of 24 million bytes."""
    tags = [(*one[:1], kind, *one[2:]) if one[0] == tag else one for one in RAW]
    with pytest.raises(ImageError, match="strips"):
        images.open_photo(tiff(tags, bytes(256)))


@pytest.mark.parametrize(("order", "big"), [("<", False), (">", False), ("<", True)])
def test_the_bytes_of_strips_are_counted_as_they_are_stored(
    order: str, big: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the directory itself, or where it says."""
    monkeypatch.setattr(image_limits, "MOST_SHARED_BYTES", 1000)
    one = [tag for tag in RAW if tag[0] != 279]
    for count, lengths in ((1, (9000,)), (2, (40, 9000)), (5, (40, 40, 40, 40, 9000))):
        packed = struct.pack(f"{order}{count}H", *lengths)
        in_place = len(packed) <= (8 if big else 4)
        value = int.from_bytes(packed, "little") if in_place else -1
        if order == ">" and in_place:
            value = int.from_bytes(packed.ljust(4, b"\0"), "big")
        tags = [*one, (279, 3, count, lengths[0] if count == 1 else value)]
        with pytest.raises(ImageTooLarge, match="shared strips"):
            images.open_photo(tiff(tags, packed + bytes(300), order, big))


@pytest.mark.parametrize("kind", ["raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"])
@pytest.mark.parametrize("mode", ["1", "L", "RGB", "CMYK"])
def test_no_ordinary_tiff_shares_its_strips(
    mode: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (mode, kind) == ("1", "jpeg"):
        pytest.skip("there is no such TIFF")
    monkeypatch.setattr(image_limits, "MOST_SHARED_BYTES", 0)
    photo = Image.effect_noise((400, 300), 99).convert(mode)
    data = encode(photo, "TIFF", compression=kind)
    assert images.open_photo(data).size == (400, 300)


def test_directories_that_lead_to_each_other_end() -> None:
    data = tiff_fractions(2)
    place = data.index(struct.pack("<HHI", 34665, 4, 1)) + 8
    assert images.open_photo(data[:place] + struct.pack("<I", 8) + data[place + 4 :]).size == (
        16,
        16,
    )


def test_ordinary_progressive_photos_of_every_kind_open(scene: Image.Image) -> None:
    for options in (
        {"progressive": True},
        {"progressive": True, "restart_marker_rows": 1},
        {"optimize": True},
    ):
        assert images.open_photo(encode(scene, "JPEG", **options)).size == scene.size
    assert images.open_photo(jpeg_scans(80)).size == (16, 16)
    film = (
        encode(scene, "JPEG", progressive=True) + b"\xff\xda" * 500
    )  # as phones put one behind a photo
    assert images.open_photo(film).size == scene.size


def test_a_picture_of_runs_may_be_as_large_as_a_screen() -> None:
    assert images.open_photo(bmp_runs(100_000)).size == (100_000, 1)


def test_libtiff_says_nothing_by_itself(
    scene: Image.Image, capfd: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(encode(scene, "TIFF", compression="tiff_lzw"))
    data[8:600] = bytes(592)
    with pytest.raises(ImageError):
        images.open_photo(bytes(data))
    assert capfd.readouterr() == ("", "")


def test_a_format_is_known_by_its_first_bytes() -> None:
    for kind in image_limits.FORMATS:
        assert (
            image_limits.format_of(encode(flat(16, 16), kind)[: image_limits.HEADER_BYTES]) == kind
        )
    for text in (
        b"",
        b"BM is no picture, it is a word",
        b"RIFF....WAVE",
        b"....ftypisom",
        b"II",
        b"photos/a.jpg",
    ):
        assert image_limits.format_of(text) is None


@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"exif": Image.Exif().tobytes()}])
def test_the_size_of_a_webp_is_read_from_its_header(
    scene: Image.Image, options: dict[str, object]
) -> None:
    assert image_limits.webp_size(encode(scene, "WEBP", **options)[:32]) == scene.size
