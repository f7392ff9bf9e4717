"""Videos made of pictures, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import pytest
from PIL import Image, ImageOps

PHOTOS = Path(__file__).parents[1] / "examples" / "photos"


def photo(name: str, size: tuple[int, int] = (320, 240)) -> Image.Image:
    return ImageOps.pad(Image.open(PHOTOS / f"{name}.jpg").convert("RGB"), size)


def write_video(
    path: Path,
    pictures: Sequence[Image.Image],
    seconds: float = 2.0,
    rate: int | Fraction = 10,
    codec: str = "mpeg4",
    pixels: str = "yuv420p",
    turned: int = 0,
    options: dict[str, str] | None = None,
    coder_options: dict[str, str] | None = None,
) -> Path:
    """Shows each picture for some seconds."""
    with av.open(path, "w", options=options or {}) as container:
        stream = container.add_stream(codec, rate=rate, options=coder_options or {})
        stream.width, stream.height = pictures[0].size
        stream.pix_fmt = pixels
        if turned:
            stream.set_display_rotation(turned)
        for picture in pictures:
            for _ in range(max(1, int(seconds * rate))):
                container.mux(stream.encode(av.VideoFrame.from_image(picture)))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """Three scenes of two seconds each."""
    names = ("coffee", "chelsea", "bear")
    return write_video(tmp_path / "clip.mp4", [photo(name) for name in names])
