"""Hostile and broken photos through the command line: a result, or one line that says why; nothing
hangs.

The decoders themselves are attacked in `test_images`.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_files import encode, png_chunk
from PIL import Image

from regiontalk.cli.main import run

pytestmark = pytest.mark.timeout(120)
ORIENTATIONS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""EXIF orientation -> how an upright photo is stored."""


def png(width: int, height: int, *chunks: bytes) -> bytes:
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    end = png_chunk(b"IDAT", zlib.compress(b"")) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + end


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def caption(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[dict[str, Any]], list[str]]]:
    """Exit code, objects on stdout, lines on stderr."""

    def ask(*arguments: str) -> tuple[int, list[dict[str, Any]], list[str]]:
        code = run(["caption", *arguments, "--json"])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err.splitlines()

    return ask


Ask = Callable[..., tuple[int, list[dict[str, Any]], list[str]]]


def refused(answer: tuple[int, list[dict[str, Any]], list[str]], name: str) -> str:
    """The one line on stderr, after exit code 4."""
    code, results, (line,) = answer
    assert (code, results) == (4, [])
    assert line.startswith(f"regiontalk: {name}: ")
    assert line.isprintable()
    assert "unexpected" not in line
    return line


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.jpg", b"", "empty"),
        ("text.jpg", b"this is no photo\n" * 20, "not a photo"),
        (
            "drawing.svg",
            b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
            "not a photo",
        ),
        ("page.html", b"<!doctype html><title>x</title>", "not a photo"),
        ("nothing.png", png(0, 0), "a broken photo"),
        (
            "figure.png",
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n",
            "not a photo",
        ),
        (
            "layers.png",
            b"8BPS\0\1" + bytes(6) + b"\0\3" + struct.pack(">IIHH", 9, 9, 8, 3) + bytes(64),
            "not a photo",
        ),
        ("document.png", b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n%%EOF\n", "not a photo"),
        ("wide.png", png(20_000, 20_000), "pixels"),
        ("large.png", png(10_000, 10_000), "megapixels"),
        (
            "text-bomb.png",
            png(9, 9, png_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(10**8)))),
            "a broken photo",
        ),
    ],
)
def test_what_is_no_photo_is_refused_in_one_line(
    desk: Path,
    caption: Ask,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    reason: str,
) -> None:
    def no_process(*_: object, **__: object) -> None:
        pytest.fail("a photo must not start a process")

    monkeypatch.setattr("subprocess.Popen", no_process)
    (desk / name).write_bytes(content)
    assert reason in refused(caption(name), name)


def test_what_is_no_file_is_refused_at_once(desk: Path, caption: Ask) -> None:
    os.mkfifo("pipe.jpg")
    (desk / "loop.jpg").symlink_to("loop.jpg")
    (desk / "dangling.jpg").symlink_to("gone.jpg")
    (desk / "folder.jpg").mkdir()
    for name in (
        "pipe.jpg",
        "loop.jpg",
        "dangling.jpg",
        "folder.jpg",
        "/dev/zero",
        "gone.jpg",
        "x" * 300,
    ):
        refused(caption(name), name)
    code, _, (line,) = caption("")
    assert (code, line) == (4, "regiontalk: : No such file or directory")


def test_a_gif_of_fifty_thousand_frames_and_a_tiff_that_goes_round(
    desk: Path, caption: Ask
) -> None:
    one = encode(Image.new("P", (1, 1)), "GIF")
    start = one.index(b",")
    (desk / "long.gif").write_bytes(one[:start] + one[start:-1] * 50_000 + b";")
    assert "frames" in refused(caption("long.gif"), "long.gif")
    tags = struct.pack("<HHHII", 1, 256, 4, 1, 9)
    (desk / "round.tif").write_bytes(
        struct.pack("<2sHI", b"II", 42, 8) + tags + struct.pack("<I", 8)
    )
    assert "circle" in refused(caption("round.tif"), "round.tif")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF"])
def test_sixty_four_truncation_points(
    desk: Path, caption: Ask, scene: Image.Image, kind: str
) -> None:
    data = encode(scene, kind)
    (desk / "photos").mkdir()
    for point in np.linspace(0, len(data) - 1, 64).astype(int):
        (desk / "photos" / f"{point:06}.jpg").write_bytes(data[:point])
    (desk / "photos" / "whole.jpg").write_bytes(data)
    code, results, messages = caption("photos")
    assert code == 0
    assert len(results) + len(messages) == len(list((desk / "photos").iterdir()))
    assert results[-1]["path"] == "photos/whole.jpg"
    assert all(line.startswith("regiontalk: skipped photos/") for line in messages)


@pytest.mark.timeout(240)
def test_two_thousand_byte_flipped_photos(desk: Path, caption: Ask, scene: Image.Image) -> None:
    seeds = [encode(scene, kind) for kind in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")]
    dice = np.random.default_rng(2016)
    (desk / "photos").mkdir()
    for number in range(2000):
        data = bytearray(seeds[number % len(seeds)])
        for _ in range(dice.integers(1, 6)):
            data[dice.integers(len(data) if number % 2 else min(len(data), 200))] ^= (
                1 << dice.integers(8)
            )
        (desk / "photos" / f"{number:04}.jpg").write_bytes(data)
    before = memory_in_use()
    code, results, messages = caption("photos", "-j", "2", "--strict")
    assert memory_in_use() - before < 200e6
    assert code == 3
    assert messages.pop() == f"regiontalk: {len(messages)} skipped, and --strict was given"
    assert len(results) + len(messages) == 2000
    assert all(line.startswith("regiontalk: skipped photos/") for line in messages)


def memory_in_use() -> float:
    """Resident bytes; 0 where the system has no /proc."""
    status = Path("/proc/self/statm")
    return (
        int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0.0
    )


def test_extreme_shapes_with_the_real_model(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tiny_model: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = [(1, 60_000), (60_000, 1), (1, 1), (2, 2), (15, 15)]
    names = [f"{width}x{height}.png" for width, height in sizes]
    for name, size in zip(names, sizes, strict=True):
        Image.new("RGB", size, (200, 30, 60)).save(name)
    common = ["--model", str(tiny_model), "-q"]
    assert run(["caption", *names, *common, "--json", "-o", "page.html"]) == 0
    for line, (width, height) in zip(capsys.readouterr().out.splitlines(), sizes, strict=True):
        photo = json.loads(line)
        assert (photo["width"], photo["height"]) == (width, height)
        for region in photo["regions"]:
            x0, y0, x1, y1 = region["xyxy"]
            assert 0 <= x0 <= x1 <= width
            assert 0 <= y0 <= y1 <= height
    assert run(["caption", *names, *common, "-o", "drawn"]) == 0
    for form in ("coco", "vg", "hf", "labelstudio"):
        assert run(["caption", *names, *common, "--format", form]) == 0


def as_modes(scene: Image.Image) -> dict[str, Image.Image]:
    grey = scene.convert("L")
    values = np.asarray(grey)
    return {
        "one.png": scene.convert("1"),
        "L.png": grey,
        "LA.png": scene.convert("LA"),
        "P.png": scene.convert("P", palette=Image.Palette.ADAPTIVE),
        "RGBA.png": scene.convert("RGBA"),
        "CMYK.jpg": scene.convert("CMYK"),
        "I16.png": Image.fromarray(values.astype(np.uint16) * 257),
        "F.tiff": Image.fromarray(values.astype(np.float32) / 255),
    }


def test_every_mode_and_orientation(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    scene: Image.Image,
    tiny_model: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    scene.save("upright.png")
    same = ["upright.png", "P.png", "RGBA.png"]  # these keep every colour
    for name, image in as_modes(scene).items():
        image.save(name)
    for orientation, turn in ORIENTATIONS.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        stored = scene if turn is None else scene.transpose(turn)
        stored.save(f"turned-{orientation}.png", exif=exif)
        same.append(f"turned-{orientation}.png")
    assert run(["caption", ".", "--model", str(tiny_model), "--json", "-q"]) == 0
    found = {
        Path(photo["path"]).name: photo
        for photo in map(json.loads, capsys.readouterr().out.splitlines())
    }
    assert len(found) == 1 + 8 + 8
    assert {(photo["width"], photo["height"]) for photo in found.values()} == {scene.size}
    for name in same:
        assert found[name]["regions"] == found["upright.png"]["regions"], name
    for name in ("LA.png", "I16.png", "F.tiff"):
        assert found[name]["regions"] == found["L.png"]["regions"], name


def test_a_tree_with_everything_wrong(
    desk: Path, caption: Ask, scene: Image.Image, stand_in: Any
) -> None:
    tree = desk / "tree"
    for number in range(45):
        folder = tree / f"year {number % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        scene.save(folder / f"{number}.jpg")
    odd = [
        "a\nb.jpg",
        "\x1b[31mred.jpg",
        "[b]bold.jpg",
        "-rf.jpg",
        "é漢字🙂.jpg",
        "a*b?.jpg",
        os.fsdecode(b"caf\xe9.jpg"),
    ]
    for name in odd:
        scene.save(tree / name)
    for number in range(5):
        (tree / f"broken {number}.jpg").write_bytes(b"\xff\xd8\xff" + bytes(number))
    (tree / "._1.jpg").write_bytes(b"Mac OS X")
    (tree / "dangling.jpg").symlink_to("gone.jpg")
    (tree / "loop.jpg").symlink_to("loop.jpg")
    (tree / "year 1" / "up").symlink_to(tree)
    os.mkfifo(tree / "pipe.jpg")
    bad = {f"tree/broken {number}.jpg" for number in range(5)} | {
        "tree/dangling.jpg",
        "tree/loop.jpg",
        "tree/pipe.jpg",
    }
    if os.geteuid() != 0:  # root reads everything
        (tree / "year 2" / "2.jpg").chmod(0)
        bad.add("tree/year 2/2.jpg")
    for strict, expected in [((), 0), (("--strict",), 3)]:
        code, results, messages = caption("tree", *strict)
        assert code == expected
        assert len(results) == 45 + len(odd) + 8 - len(bad)
        assert {photo["path"] for photo in results} >= {f"tree/{name}" for name in odd}
        skipped = [line for line in messages if line.startswith("regiontalk: skipped ")]
        assert {
            line.removeprefix("regiontalk: skipped ").partition(": ")[0] for line in skipped
        } == bad
        assert "regiontalk: left out tree/._1.jpg: a hidden file" in messages
        assert len(messages) == len(bad) + 1 + len(strict)
