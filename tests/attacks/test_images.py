"""Hostile and broken photos: each is opened, or refused with one line that says why; nothing
hangs."""

from __future__ import annotations

import io
import os
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile_files import encode, png_chunk
from PIL import Image

from regiontalk.errors import ImageError, ImageTooLarge, UnsupportedImage
from regiontalk.images import limits as image_limits
from regiontalk.images import photo as images

FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF"]
FLIPPED_IMAGES = 2000

pytestmark = pytest.mark.timeout(60)  # a photo that blocks must not hold the tests up


def png(width: int, height: int, *chunks: bytes, pixels: bytes = b"") -> bytes:
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    end = png_chunk(b"IDAT", zlib.compress(pixels)) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + end


def opens_or_says_why(data: bytes) -> bool:
    """Anything but a valid photo or one of our own errors is a failure."""
    try:
        photo = images.open_photo(data)
    except ImageError as error:
        if not error.message.isprintable():
            pytest.fail(f"not one clean line: {error.message!r}")
        return False
    assert photo.mode == "RGB"
    assert np.asarray(photo).shape == (photo.height, photo.width, 3)
    return True


@pytest.fixture
def no_pixels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the kinds of photos whose pixels were asked for."""
    loaded: list[str] = []
    monkeypatch.setattr(
        images, "_upright_srgb", lambda image, *_, **__: loaded.append(image.format)
    )
    return loaded


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.jpg", b""),
        ("text.jpg", b"this is no photo\n" * 20),
        ("drawing.svg", b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'),
        ("page.html", b"<!doctype html><title>x</title>"),
        ("nothing.png", png(0, 0)),
        ("zeros.png", bytes(4096)),
        ("one-byte.gif", b"G"),
    ],
)
def test_what_is_no_photo_is_named_with_its_reason(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ImageError) as caught:
        images.open_photo(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 4


def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path may have no more than about 100 characters
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
    (tmp_path / "dangling.jpg").symlink_to(tmp_path / "gone.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.jpg")
    reasons = {
        str(tmp_path): "folder",
        str(tmp_path / "pipe.jpg"): "pipe",
        str(tmp_path / "socket.jpg"): "socket",
        "/dev/zero": "device",
        "/dev/tty": "device",
        str(tmp_path / "loop.jpg"): "symbolic links",
        str(tmp_path / "dangling.jpg"): "No such file",
        str(tmp_path / "missing.jpg"): "No such file",
        str(tmp_path / ("x" * 300)): "too long",
        "": "No such file",
        "nul\0byte.jpg": "not a file name",
        "lone\ud800surrogate.jpg": "not a file name",
    }
    for path, reason in reasons.items():
        with pytest.raises(ImageError, match=reason) as caught:
            images.open_photo(path)
        assert caught.value.message.isprintable()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(scene_path: Path) -> None:
    scene_path.chmod(0)
    with pytest.raises(ImageError, match="Permission denied"):
        images.open_photo(scene_path)


def test_odd_names_cannot_forge_lines(scene: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / "a\nregiontalk: fine\x1b[31m.jpg"
    path.write_bytes(b"broken")
    with pytest.raises(UnsupportedImage) as caught:
        images.open_photo(path)
    assert caught.value.message.isprintable()
    scene.save(path, "PNG")
    assert images.open_photo(path).size == scene.size


@pytest.mark.parametrize("kind", FORMATS)
def test_sixty_four_truncation_points(scene: Image.Image, kind: str) -> None:
    data = encode(scene, kind)
    points = np.linspace(0, len(data) - 1, 64).astype(int)
    opened = [opens_or_says_why(data[:point]) for point in points]
    assert not any(opened[:32])  # with half of the file gone no format gives a whole picture
    assert opens_or_says_why(data)


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits"])
def test_truncated_compressed_tiff(scene: Image.Image, compression: str) -> None:
    data = encode(scene, "TIFF", compression=compression)
    for point in np.linspace(0, len(data) - 1, 64).astype(int):
        opens_or_says_why(data[:point])


@pytest.mark.timeout(240)
def test_two_thousand_byte_flipped_images(scene: Image.Image) -> None:
    seeds = [encode(scene, kind) for kind in FORMATS]
    seeds += [encode(scene, "TIFF", compression="tiff_lzw"), encode(scene.convert("CMYK"), "JPEG")]
    seeds += [encode(scene.convert("P"), "PNG"), encode(scene, "JPEG", progressive=True)]
    dice = np.random.default_rng(2015)
    opened = 0
    before = memory_in_use()
    for number in range(FLIPPED_IMAGES):
        data = bytearray(seeds[number % len(seeds)])
        for _ in range(dice.integers(1, 6)):
            data[dice.integers(len(data) if number % 2 else min(len(data), 200))] ^= (
                1 << dice.integers(8)
            )
        opened += opens_or_says_why(bytes(data))
    assert memory_in_use() - before < 200e6
    assert 0 < opened < FLIPPED_IMAGES


def memory_in_use() -> float:
    """Resident bytes; 0 where the system has no /proc."""
    status = Path("/proc/self/statm")
    return (
        int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0.0
    )


def webp_header(width: int, height: int) -> bytes:
    canvas = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + canvas
    return b"RIFF" + struct.pack("<I", len(body)) + body


def gif_header(width: int, height: int) -> bytes:
    data = encode(Image.new("P", (1, 1)), "GIF")
    return data[:6] + struct.pack("<HH", width, height) + data[10:]


def jpeg_header(width: int, height: int) -> bytes:
    data = encode(Image.new("L", (8, 8)), "JPEG")
    frame = data.index(b"\xff\xc0") + 5
    return data[:frame] + struct.pack(">HH", height, width) + data[frame + 4 :]


def bmp_header(width: int, height: int) -> bytes:
    data = encode(Image.new("L", (8, 8)), "BMP")
    return data[:18] + struct.pack("<ii", width, height) + data[26:]


def tiff_header(width: int, height: int) -> bytes:
    tags = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8)]
    tags += [(278, 4, 1, height), (279, 4, 1, width * height)]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + struct.pack("<I", 0)


@pytest.mark.parametrize(
    "header", [png, webp_header, gif_header, jpeg_header, bmp_header, tiff_header]
)
@pytest.mark.parametrize("side", [7072, 10_000, 16_383])
def test_too_many_pixels_are_refused_by_the_header(
    no_pixels: list[str], header: Callable[[int, int], bytes], side: int
) -> None:
    with pytest.raises(ImageTooLarge):
        images.open_photo(header(side, side))
    assert no_pixels == []


@pytest.mark.parametrize("size", [(20_000, 20_000), (2**31 - 1, 2**31 - 1), (2**31 - 1, 1)])
def test_a_giant_png_header_is_refused(no_pixels: list[str], size: tuple[int, int]) -> None:
    with pytest.raises(ImageTooLarge):
        images.open_photo(png(*size))
    assert no_pixels == []


def test_a_real_hundred_megapixel_png_is_refused(no_pixels: list[str]) -> None:
    with pytest.raises(ImageTooLarge, match=r"100\.0 megapixels, more than 50"):
        images.open_photo(png(10_000, 10_000, pixels=bytes(30_010_000)))
    assert no_pixels == []


def test_a_gif_of_fifty_thousand_frames_is_refused(no_pixels: list[str]) -> None:
    still = encode(Image.new("P", (8, 8)), "GIF")
    start = still.index(b",")
    frame = b"!\xf9\x04\0\1\0\0\0" + still[start:-1]
    with pytest.raises(ImageTooLarge, match="10,000 frames"):
        images.open_photo(still[:start] + frame * 50_000 + b";")
    assert no_pixels == []


def test_an_ordinary_animation_with_colour_tables_is_not_refused(
    scene: Image.Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = [scene.rotate(angle).quantize(16 + angle) for angle in range(30)]
    data = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    monkeypatch.setattr(image_limits, "MOST_FRAMES", 30)
    assert Image.open(io.BytesIO(data)).n_frames == 30
    assert opens_or_says_why(data)


def test_text_bombs_in_png_are_refused() -> None:
    bomb = png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(64_000_000)))
    tongues = png_chunk(b"iTXt", b"Comment\0\1\0\0\0" + zlib.compress(bytes(64_000_000)))
    profile = png_chunk(b"iCCP", b"profile\0\0" + zlib.compress(bytes(64_000_000)))
    pixel = b"\0\1\2\3"
    for chunk in (bomb, tongues, profile):
        before = memory_in_use()
        opens_or_says_why(png(1, 1, chunk, pixels=pixel))
        assert memory_in_use() - before < 30e6
    with pytest.raises(ImageError, match="too large"):
        images.open_photo(png(1, 1, bomb, pixels=pixel))


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_tiff_whose_pages_go_in_a_circle_is_refused(order: str) -> None:
    first, second = 8, 14  # two directories without entries that point at each other
    mark = b"II" if order == "<" else b"MM"
    loop = struct.pack(order + "2sHIHIHI", mark, 42, first, 0, second, 0, first)
    with pytest.raises(ImageError, match="circle"):
        images.open_photo(loop)


def test_a_good_tiff_that_loops_is_refused(scene: Image.Image) -> None:
    data = bytearray(encode(scene, "TIFF", save_all=True, append_images=[scene]))
    pages = list(image_limits._Tiff(io.BytesIO(data)).pages())
    assert len(pages) == 2
    (entries,) = struct.unpack_from("<H", data, pages[1])
    struct.pack_into("<I", data, pages[1] + 2 + 12 * entries, pages[0])
    with pytest.raises(ImageError, match="circle"):
        images.open_photo(bytes(data))


def test_a_tiff_of_many_pages_is_refused() -> None:
    pages = b"".join(struct.pack("<HI", 0, 8 + 6 * (number + 1)) for number in range(20_000))
    with pytest.raises(ImageTooLarge, match="10,000 frames"):
        images.open_photo(struct.pack("<2sHI", b"II", 42, 8) + pages)


def test_a_tiff_with_giant_tags_costs_no_memory() -> None:
    tags = [(256, 4, 1, 8), (257, 4, 1, 8), (258, 3, 0xFFFFFFF0, 8), (273, 4, 0x0FFFFFFF, 8)]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    before = memory_in_use()
    opens_or_says_why(struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4))
    assert memory_in_use() - before < 30e6


@pytest.mark.parametrize("size", [(1, 60_000), (60_000, 1), (1, 1), (2, 2), (15, 15), (3, 4000)])
def test_odd_shapes_give_a_valid_input(size: tuple[int, int]) -> None:
    photo = images.open_photo(encode(Image.new("RGB", size, (9, 99, 199)), "PNG"))
    resized = images.resize(photo, 720)
    height, width, _ = resized.pixels.shape
    assert max(width, height) == 720
    assert min(width, height) >= 16
    assert (width / resized.scales[0], height / resized.scales[1]) == pytest.approx(size)
    assert (resized.pixels == (9, 99, 199)).all()
    assert images.to_input(resized.pixels, 32).shape[0] == 3


@pytest.mark.parametrize(
    "content",
    [
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
        b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, 8, 8, 8, 3) + bytes(400),
        b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF",
        b"P6 2 2 255\n" + bytes(12),
        b"\0\0\1\0\1\0\1\1\0\0\1\0\x20\0" + bytes(100),
        b"SIMPLE  =                    T" + bytes(2880),
    ],
    ids=["EPS", "PSD", "PDF", "PPM", "ICO", "FITS"],
)
def test_other_formats_named_png_start_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **_: started.append(given))
    monkeypatch.setattr(os, "system", started.append)
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    with pytest.raises(UnsupportedImage, match="supported type") as caught:
        images.open_photo(path)
    assert caught.value.http_status == 415
    assert started == []


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1/a.jpg", "https://x/a.jpg", "file:///etc/passwd", "ftp://x/a.png"]
)
def test_addresses_are_refused_and_nothing_is_fetched(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(socket, "socket", lambda *given, **_: opened.append(given))
    for source in (address, Path(address)):
        with pytest.raises(ImageError, match="addresses are not fetched"):
            images.open_photo(source)
    assert opened == []


def test_broken_photos_leave_stderr_clean(
    scene: Image.Image, capfd: pytest.CaptureFixture[str]
) -> None:
    """C libraries must not print past us."""
    dice = np.random.default_rng(7)
    for kind in FORMATS:
        data = bytearray(encode(scene, kind))
        for _ in range(40):
            data[dice.integers(len(data))] ^= 1 << dice.integers(8)
            opens_or_says_why(bytes(data))
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_fresh_process_opens_every_format_with_warnings_as_errors(
    scene: Image.Image, tmp_path: Path
) -> None:
    """Plugins are registered on first use; no test before this one may be what makes it work."""
    for kind in FORMATS:
        scene.save(tmp_path / f"scene.{kind.lower()}", kind)
    code = (
        "import sys, pathlib; from regiontalk import images\n"
        "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()): print(images.open_photo(path).size)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split("\n")[:-1] == ["(96, 64)"] * len(FORMATS)
