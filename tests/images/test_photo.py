from __future__ import annotations

import io
import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps

from regiontalk.errors import ImageError, ImageTooLarge, UnsupportedImage, UsageError
from regiontalk.images import colours as image_colours
from regiontalk.images import photo as images
from regiontalk.images.limits import Limits

ORIENTATION = 0x0112
# What a camera held that way stores: the inverse of how a viewer turns it (EXIF 2.3, tag 0x0112).
STORED = {
    1: lambda image: image,
    2: ImageOps.mirror,
    3: lambda image: image.rotate(180),
    4: ImageOps.flip,
    5: lambda image: image.transpose(Image.Transpose.TRANSPOSE),
    6: lambda image: image.rotate(90, expand=True),
    7: lambda image: image.transpose(Image.Transpose.TRANSVERSE),
    8: lambda image: image.rotate(-90, expand=True),
}


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixels(source: images.PhotoSource) -> np.ndarray:
    photo = images.open_photo(source)
    assert photo.mode == "RGB"
    return np.asarray(photo).astype(int)


def swapped_profile() -> bytes:
    """sRGB with its primaries exchanged: red is stored as green, green as blue, blue as red."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    profile = profile.replace("sRGB".encode("utf-16-be"), "swap".encode("utf-16-be"))
    for letter, place in (("r", "?g"), ("g", "?b"), ("b", "?r")):
        profile = profile.replace(f"{letter}XYZ".encode(), f"{place[1].upper()}XYZ".encode())
    for letter in "RGB":
        profile = profile.replace(f"{letter}XYZ".encode(), f"{letter.lower()}XYZ".encode())
    return profile


def test_path_bytes_image_and_array_give_the_same_pixels(
    scene: Image.Image, scene_path: Path
) -> None:
    expected = np.asarray(scene)
    data = scene_path.read_bytes()
    buffers = (data, bytearray(data), memoryview(data))
    for source in (scene_path, str(scene_path), *buffers, scene, np.asarray(scene)):
        np.testing.assert_array_equal(pixels(source), expected)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_every_allowed_format_opens(scene: Image.Image, kind: str) -> None:
    difference = np.abs(pixels(encode(scene, kind)) - np.asarray(scene).astype(int))
    assert np.median(difference) <= 3
    assert difference.mean() < 8  # lossy formats smear the edges


def test_heif_opens_with_its_extra(scene: Image.Image) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    pillow_heif.register_heif_opener()
    difference = np.abs(pixels(encode(scene, "HEIF")) - np.asarray(scene).astype(int))
    assert difference.mean() < 8


def test_heif_without_its_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedImage, match="HEIF") as caught:
        images.open_photo(b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + bytes(50))
    assert caught.value.hint == "pip install 'regiontalk[heif]'"


@pytest.mark.parametrize("mode", ["1", "L", "LA", "La", "I", "I;16", "I;16B", "F"])
def test_every_grey_mode_gives_the_same_pixels(scene: Image.Image, mode: str) -> None:
    grey = scene.convert("L")
    expected = np.asarray(grey.convert("RGB"))
    if mode == "1":
        grey = grey.point(lambda value: 255 * (value > 128))
        expected = np.asarray(grey.convert("RGB"))
    converted = grey.convert("LA").convert("La") if mode == "La" else grey.convert(mode)
    if mode in ("I;16", "I;16B"):
        sixteen = (np.asarray(grey).astype(np.uint16) * 257).astype(
            "<u2" if mode == "I;16" else ">u2"
        )
        converted = Image.frombytes(mode, grey.size, sixteen.tobytes())
    np.testing.assert_array_equal(pixels(converted), expected)


@pytest.mark.parametrize("mode", ["RGBA", "RGBa", "RGBX", "CMYK", "P", "PA", "YCbCr", "HSV", "LAB"])
def test_every_colour_mode_gives_nearly_the_same_pixels(scene: Image.Image, mode: str) -> None:
    if mode == "LAB":
        srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        converted = ImageCms.profileToProfile(scene, srgb, lab, outputMode="LAB")
    elif mode == "PA":
        converted = scene.convert("P", palette=Image.Palette.ADAPTIVE).convert("PA")
    elif mode == "P":
        converted = scene.convert("P", palette=Image.Palette.ADAPTIVE)
    elif mode == "RGBa":
        converted = scene.convert("RGBA").convert("RGBa")
    else:
        converted = scene.convert(mode)
    assert converted.mode == mode
    # 8-bit CIELAB has few steps for a strong yellow
    np.testing.assert_allclose(
        pixels(converted), np.asarray(scene), atol=20 if mode == "LAB" else 6
    )


def test_sixteen_bit_png_is_scaled_not_cut_off(scene: Image.Image) -> None:
    grey = np.asarray(scene.convert("L"))
    data = encode(Image.fromarray(grey.astype(np.uint16) * 257), "PNG")
    np.testing.assert_array_equal(pixels(data)[..., 0], grey)


@pytest.mark.parametrize("full_scale", [1.0, 255.0, 65535.0])
def test_float_tiff_is_scaled_by_its_range(scene: Image.Image, full_scale: float) -> None:
    grey = np.asarray(scene.convert("L"))
    data = encode(Image.fromarray((grey / 255 * full_scale).astype(np.float32)), "TIFF")
    np.testing.assert_allclose(pixels(data)[..., 1], grey, atol=1)


def test_float_image_with_broken_values_still_opens() -> None:
    values = np.array([[0.5, np.nan], [np.inf, -np.inf]], dtype=np.float32)
    np.testing.assert_array_equal(pixels(Image.fromarray(values))[..., 0], [[128, 0], [0, 0]])


def test_colours_under_transparency_do_not_show(scene: Image.Image) -> None:
    alpha = Image.new("L", scene.size, 0)
    alpha.paste(255, (0, 0, 40, 64))
    expected = np.asarray(scene).astype(int).copy()
    expected[:, 40:] = 255
    for kind in ("PNG", "WEBP", "TIFF"):
        layered = scene.copy()
        layered.putalpha(alpha)
        options = {"lossless": True} if kind == "WEBP" else {}
        np.testing.assert_array_equal(pixels(encode(layered, kind, **options)), expected)


def test_a_transparent_colour_of_a_palette_is_white(scene: Image.Image) -> None:
    sun = (255, 215, 0)
    palette = scene.convert("P", palette=Image.Palette.ADAPTIVE, colors=8)
    index = palette.getpixel((20, 18))
    data = encode(palette, "GIF", transparency=index)
    expected = np.where(
        (np.asarray(scene) == sun).all(axis=-1, keepdims=True), 255, np.asarray(scene)
    )
    np.testing.assert_allclose(pixels(data), expected, atol=2)


def test_an_icc_profile_is_applied(scene: Image.Image) -> None:
    red, green, blue = scene.split()
    stored = Image.merge("RGB", (blue, red, green))
    data = encode(stored, "PNG", icc_profile=swapped_profile())
    np.testing.assert_allclose(pixels(data), np.asarray(scene), atol=2)


@pytest.mark.parametrize("profile", [b"no profile at all", swapped_profile()[:200], b""])
def test_a_broken_profile_falls_back_to_plain_conversion(
    scene: Image.Image, profile: bytes
) -> None:
    np.testing.assert_array_equal(
        pixels(encode(scene, "PNG", icc_profile=profile)), np.asarray(scene)
    )


def test_a_profile_of_another_colour_space_is_not_applied(scene: Image.Image) -> None:
    grey = scene.convert("L")
    data = encode(grey, "PNG", icc_profile=swapped_profile())
    np.testing.assert_array_equal(pixels(data), np.asarray(grey.convert("RGB")))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG", "AVIF", "HEIF"])
def test_every_orientation_is_turned_upright(
    scene: Image.Image, kind: str, orientation: int
) -> None:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95}}.get(kind, {})
    photo = pixels(encode(STORED[orientation](scene), kind, exif=exif.tobytes(), **options))
    assert photo.shape == (64, 96, 3)
    difference = np.abs(photo - np.asarray(scene))
    assert difference.mean() <= (
        8 if kind in ("JPEG", "AVIF", "HEIF") else 0
    )  # wrong turns differ by 50


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_senseless_orientation_is_ignored(scene: Image.Image, orientation: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    np.testing.assert_array_equal(pixels(encode(scene, "PNG", exif=exif)), np.asarray(scene))


@pytest.mark.parametrize("profile", [None, swapped_profile()])
def test_a_result_opened_again_is_not_turned_again(
    scene: Image.Image, profile: bytes | None
) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    once = images.open_photo(encode(STORED[6](scene), "PNG", exif=exif, icc_profile=profile))
    twice = images.open_photo(once)
    assert once.size == twice.size == scene.size
    np.testing.assert_array_equal(np.asarray(once), np.asarray(twice))


def test_the_source_image_is_left_alone(scene: Image.Image) -> None:
    layered = scene.convert("RGBA")
    layered.info["exif"] = b"kept"
    before = layered.tobytes()
    result = images.open_photo(layered)
    result.paste((1, 2, 3), (0, 0, 96, 64))
    assert (layered.mode, layered.info["exif"], layered.tobytes()) == ("RGBA", b"kept", before)


def test_only_the_first_frame_is_used(scene: Image.Image) -> None:
    other = Image.new("RGB", scene.size, "black")
    for kind in ("GIF", "TIFF", "PNG"):
        data = encode(scene, kind, save_all=True, append_images=[other, other])
        np.testing.assert_allclose(pixels(data), np.asarray(scene), atol=2)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "float64"])
def test_arrays_of_every_kind(scene: Image.Image, mode: str, kind: str) -> None:
    array = np.asarray(scene.convert(mode))
    full_scale = {"uint8": 255, "uint16": 65535}.get(kind, 1)
    scaled = (array / 255 * full_scale).round(0 if full_scale > 1 else 9).astype(kind)
    np.testing.assert_array_equal(pixels(scaled), np.asarray(scene.convert(mode).convert("RGB")))


def test_an_array_with_one_channel_is_grey(scene: Image.Image) -> None:
    grey = np.asarray(scene.convert("L"))
    np.testing.assert_array_equal(pixels(grey[..., None])[..., 2], grey)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((4, 4, 2), np.uint8), "H, W"),
        (np.zeros((4,), np.uint8), "H, W"),
        (np.zeros((0, 4, 3), np.uint8), "H, W"),
        (np.zeros((2, 4, 4, 3), np.uint8), "H, W"),
        (np.zeros((4, 4), np.int64), "uint8"),
        (np.zeros((4, 4), object), "uint8"),
        (np.zeros((4, 4), complex), "uint8"),
        (np.full((4, 4), 255.0), "0 to 1"),
        (np.full((4, 4), -0.1), "0 to 1"),
        (np.full((4, 4), np.nan), "0 to 1"),
    ],
)
def test_an_array_that_is_no_photo_is_a_usage_error(array: np.ndarray, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        images.open_photo(array)


def test_another_type_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="not int"):
        images.open_photo(7)  # type: ignore[arg-type]


def test_limits_hold_for_every_source(scene: Image.Image, scene_path: Path) -> None:
    limits = Limits(megapixels=0.006)
    for source in (scene_path, scene_path.read_bytes(), scene, np.asarray(scene)):
        with pytest.raises(ImageTooLarge, match="96×64"):
            images.open_photo(source, limits)
    fits = Limits(megapixels=0.006144)
    assert images.open_photo(scene_path, fits).size == (96, 64)


def test_the_byte_limit_is_for_uploads(scene_path: Path) -> None:
    limits = Limits(megabytes=scene_path.stat().st_size / 1e6 / 2)
    assert images.open_photo(scene_path, limits).size == (96, 64)
    with pytest.raises(ImageTooLarge, match="MB"):
        images.open_photo(scene_path.read_bytes(), limits)


def test_a_file_far_larger_than_its_pixels_could_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sparse.webp"
    path.write_bytes(b"RIFF\0\0\0\0WEBP")
    os.truncate(path, 900_000_000)
    with pytest.raises(ImageTooLarge, match="900 MB"):
        images.open_photo(path)


def test_pillows_guard_and_warning_filters_stay_as_they_were(scene_path: Path) -> None:
    guard, filters = Image.MAX_IMAGE_PIXELS, list(warnings.filters)
    tiny = encode(Image.new("RGB", (4, 4)), "PNG")
    huge = tiny[:16] + (14000).to_bytes(4, "big") + (7000).to_bytes(4, "big") + tiny[24:]

    def work() -> None:
        for _ in range(20):
            images.open_photo(scene_path)
            with pytest.raises(ImageError):
                images.open_photo(huge)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert guard == Image.MAX_IMAGE_PIXELS
    assert filters == list(warnings.filters)


def test_a_photo_over_pillows_own_guard_is_too_large(
    scene_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ImageTooLarge, match="6144 pixels"):
        images.open_photo(scene_path)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(16, 300))
def test_resize_gives_the_long_side_and_true_scales(
    width: int, height: int, long_side: int
) -> None:
    resized = images.resize(Image.new("RGB", (width, height), (10, 20, 30)), long_side)
    new_height, new_width, channels = resized.pixels.shape
    assert resized.pixels.dtype == np.uint8
    assert channels == 3
    assert max(new_width, new_height) == long_side
    assert min(new_width, new_height) >= 16
    assert (resized.scales[0] * width, resized.scales[1] * height) == pytest.approx(
        (new_width, new_height)
    )
    assert (resized.pixels == (10, 20, 30)).all()


LARGE = [
    ("JPEG", "RGB"),
    ("JPEG", "L"),
    ("JPEG", "CMYK"),
    ("PNG", "RGB"),
    ("PNG", "RGBA"),
    ("PNG", "P"),
    ("TIFF", "F"),
]


@pytest.mark.parametrize("orientation", [1, 6, 8])
@pytest.mark.parametrize(("kind", "mode"), LARGE)
def test_finding_c3_a_large_photo_that_is_decoded_smaller_looks_the_same(
    make_scene: Callable[[tuple[int, int]], Image.Image],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    mode: str,
    orientation: int,
) -> None:
    monkeypatch.setattr(image_colours, "_STRIP_PIXELS", 50_000)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    large = make_scene((1003, 669)).convert(mode)  # no multiple of 2, 4 or 8
    data = encode(large, kind, exif=exif)
    whole, reduced = images.resize(images.open_photo(data), 96), images.Photo(data).resized(96)
    assert (
        reduced.photo_size
        == whole.photo_size
        == (large.size if orientation == 1 else large.size[::-1])
    )
    assert reduced.scales == whole.scales
    difference = np.abs(reduced.pixels.astype(int) - whole.pixels)
    assert difference.mean() < 1
    assert np.percentile(difference, 99) < 40  # only edges move, by less than a pixel


def test_finding_c3_only_a_small_jpeg_is_decoded(
    make_scene: Callable[[tuple[int, int]], Image.Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def to_srgb(image: Image.Image, reduction: tuple[int, int]) -> Image.Image:
        sizes.append(image.size)
        return image_colours.to_srgb(image, reduction)

    monkeypatch.setattr(images, "to_srgb", to_srgb)
    photo = images.Photo(encode(make_scene((1600, 1200)), "JPEG"))
    assert photo.size == (1600, 1200)
    assert photo.preview(160).image.size == (160, 120)
    photo.resized(100)
    photo.resized(450)
    assert sizes == [(200, 150), (400, 300), (200, 150), (1600, 1200)]


def test_finding_b7_a_photo_holds_what_was_given(scene: Image.Image, scene_path: Path) -> None:
    array = np.asarray(scene)
    for source in (scene_path, scene_path.read_bytes(), scene, array):
        assert images.Photo.of(source, Limits()).source is source
    with scene_path.open("rb") as file:
        photo = images.Photo.of(file, Limits())
    assert photo.source == scene_path.read_bytes()
    assert photo.open().tobytes() == scene.tobytes()


def test_a_callers_image_is_not_decoded_smaller(
    make_scene: Callable[[tuple[int, int]], Image.Image],
) -> None:
    opened = Image.open(io.BytesIO(encode(make_scene((800, 600)), "JPEG")))
    assert images.Photo(opened).resized(64).photo_size == (800, 600)
    assert opened.size == (800, 600)


def test_large_photos_wait_for_each_other() -> None:
    decoding = images._Decoding(100)
    at_a_time, most = [0], [0]

    def work() -> None:
        with decoding.take(60):
            at_a_time[0] += 1
            most[0] = max(most[0], at_a_time[0])
            time.sleep(0.01)
            at_a_time[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    with decoding.take(40), decoding.take(60):
        pass
    with decoding.take(10_000):  # alone
        pass


def test_resize_keeps_places(scene: Image.Image) -> None:
    """A box scaled with the photo lies on the same thing."""
    resized = images.resize(scene, 480)
    for x, y in ((20, 18), (60, 40), (5, 60), (90, 5)):
        place = resized.pixels[round(y * resized.scales[1]), round(x * resized.scales[0])]
        np.testing.assert_allclose(place, scene.getpixel((x, y)), atol=2)


def test_resize_averages_instead_of_picking() -> None:
    board = (np.indices((800, 1200)).sum(axis=0) % 2 * 255).astype(np.uint8)
    resized = images.resize(images.open_photo(board), 100).pixels.astype(int)
    assert np.abs(resized - 127.5).max() < 4


def test_resize_is_deterministic(scene: Image.Image) -> None:
    first, second = images.resize(scene, 333), images.resize(scene.copy(), 333)
    assert first.pixels.tobytes() == second.pixels.tobytes()


def test_resize_refuses_a_side_without_room() -> None:
    with pytest.raises(UsageError, match="at least 16"):
        images.resize(Image.new("RGB", (4, 4)), 15)


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([1, 16, 32]))
def test_to_input_pads_right_and_bottom_with_grey(height: int, width: int, multiple: int) -> None:
    source = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
    result = images.to_input(source, multiple)
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    assert result.shape[1] % multiple == 0
    assert result.shape[2] % multiple == 0
    assert result.shape[1] - height < multiple
    assert result.shape[2] - width < multiple
    np.testing.assert_array_equal(result[:, :height, :width], source.transpose(2, 0, 1))
    assert (result[:, height:] == 127).all()
    assert (result[:, :, width:] == 127).all()


def test_a_lack_of_memory_is_not_called_a_broken_photo(
    scene_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(images, "to_srgb", fail)
    with pytest.raises(ImageTooLarge, match="not enough memory"):
        images.open_photo(scene_path)
