"""AVIF files that hold another photo than they say."""

from __future__ import annotations

import io
import struct
from contextlib import suppress

import heif_bombs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from photo_bombs import box
from PIL import Image, ImageCms

from regiontalk.errors import ImageError, ImageTooLarge
from regiontalk.images import avif_limits
from regiontalk.images.limits import Limits
from regiontalk.images.photo import open_photo

MEGAPIXEL = 1e6


def encode(size: tuple[int, int], **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "teal").save(buffer, "AVIF", speed=10, **options)
    return buffer.getvalue()


def saying(data: bytes, size: tuple[int, int]) -> bytes:
    """The file with another size in its `ispe`."""
    place = data.index(b"ispe") + 8
    return data[:place] + struct.pack(">II", *size) + data[place + 8 :]


def meta_of(data: bytes) -> bytes:
    place = data.index(b"meta")
    (length,) = struct.unpack_from(">I", data, place - 4)
    return data[place + 4 : place - 4 + length]


@pytest.mark.parametrize("size", [(64, 48), (1, 1), (301, 17), (1023, 2049)])
@pytest.mark.parametrize("options", [{}, {"subsampling": "4:4:4", "quality": 100}])
def test_the_coded_size_is_read(size: tuple[int, int], options: dict[str, object]) -> None:
    data = encode(size, **options)
    assert avif_limits.check_sizes(io.BytesIO(data), meta_of(data), 50 * MEGAPIXEL) == size


def test_alpha_and_animations_are_photos_too() -> None:
    buffer = io.BytesIO()
    frames = [Image.new("RGBA", (70, 50), (value, 0, 0, 99)) for value in (10, 200)]
    frames[0].save(buffer, "AVIF", speed=10, save_all=True, append_images=frames[1:])
    assert open_photo(buffer.getvalue()).size == (70, 50)
    size = avif_limits.check_sizes(buffer, meta_of(buffer.getvalue()), MEGAPIXEL)
    assert size in ((70, 50), (0, 0))


@pytest.mark.parametrize("size", [(1, 1), (30, 20), (8000, 6000), (64, 4800)])
def test_a_size_that_is_a_lie_is_refused(size: tuple[int, int]) -> None:
    """libavif decodes what is there, however large, and scales it to what was said."""
    with pytest.raises(ImageError, match=rf"it says {size[0]}×{size[1]} pixels and holds 64×48"):
        open_photo(saying(encode((64, 48)), size))


@pytest.mark.parametrize("name", [b"iloc", b"iinf", b"ipco"])
def test_a_long_length_hides_nothing(name: bytes) -> None:
    """libavif reads lengths of 64 bits."""
    honest = heif_bombs.with_long_box(encode((64, 48)), name)
    assert open_photo(honest).size == (64, 48)
    with pytest.raises(ImageError, match="it says 8×8 pixels and holds 64×48"):
        open_photo(heif_bombs.with_long_box(saying(encode((64, 48)), (8, 8)), name))


def test_an_avif_whose_photo_is_not_found_is_refused() -> None:
    with pytest.raises(ImageError, match="its pixels cannot be found"):
        open_photo(encode((64, 48)).replace(b"av01", b"hvc1"))


def test_all_frames_of_a_photo_are_counted() -> None:
    """A decoder may decode each of them: 2 MB took over a minute."""
    limits = Limits(megapixels=0.01)
    assert open_photo(heif_bombs.frames_again(2, 64), limits).size == (64, 64)
    with pytest.raises(ImageTooLarge, match=r"frames have more than 0\.04 megapixels together"):
        open_photo(heif_bombs.frames_again(10, 64), limits)


def test_parts_that_overlap_are_refused() -> None:
    data = bytearray(encode((64, 48)))
    place = data.index(b"iloc") + 4
    assert data[place : place + 6] == b"\0\0\0\0\x44\0"
    struct.pack_into(">I", data, place + 18, 1 << 24)
    with pytest.raises(ImageError, match="overlap"):
        open_photo(bytes(data))


def test_tracks_that_share_their_frames_are_refused() -> None:
    """Each would be read: 20 MB, 1,800 times."""
    unit = b"\x12\0" * 50
    offsets = box(b"stco", struct.pack(">III", 0, 1, 0))
    lengths = box(b"stsz", struct.pack(">III", 0, len(unit), 1))
    track = box(b"stbl", offsets + lengths)
    for tracks, reason in ((1, "frames cannot be found"), (2, "overlap")):
        moov = box(b"trak", box(b"mdia", box(b"minf", track * tracks)))
        with pytest.raises(ImageError, match=reason):
            avif_limits.largest_in_tracks(io.BytesIO(unit), moov, MEGAPIXEL)


ONE = encode((64, 48), exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0")


@given(
    st.lists(st.tuples(st.integers(0, len(ONE) - 1), st.integers(0, 255)), min_size=1, max_size=8)
)
@example([(103, 194)])  # an offset of 2 ** 72
def test_flipped_bytes_are_our_own_errors_at_most(flips: list[tuple[int, int]]) -> None:
    data = bytearray(ONE)
    for place, value in flips:
        data[place] = value
    start = ONE.index(b"meta") + 4
    meta = bytes(data[start : start + len(meta_of(ONE))])
    assert avif_limits.exif_bytes(meta) >= 0
    with suppress(ImageError):
        avif_limits.check_sizes(io.BytesIO(data), meta, MEGAPIXEL)


def test_a_printers_colour_profile_is_no_bomb() -> None:
    """Half a megabyte of colours is common; as much of anything else that describes a photo is
    refused."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    profile += bytes(600_000)
    profile[:4] = struct.pack(">I", len(profile))
    data = encode((64, 48), icc_profile=bytes(profile))
    assert avif_limits.profile_bytes(meta_of(data)) > 600_000
    assert open_photo(data).size == (64, 48)
