"""Any mode as sRGB; the colours themselves are tested through `open_photo` in test_images."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from regiontalk.images import colours as image_colours
from regiontalk.images.colours import to_srgb

MODES = ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "I", "I;16", "F"]


def in_mode(scene: Image.Image, mode: str) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(np.asarray(scene.convert("L")).astype(np.uint16) * 257)
    return scene.convert("P").convert("PA") if mode == "PA" else scene.convert(mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strip_pixels", [1, 700, 1 << 20])
def test_a_reduced_image_is_what_the_whole_one_gives(
    scene: Image.Image, mode: str, strip_pixels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_colours, "_STRIP_PIXELS", strip_pixels)
    image = in_mode(scene, mode)
    whole = to_srgb(image)
    assert (whole.mode, whole.size) == ("RGB", scene.size)
    reduced = to_srgb(image, (5, 3))
    assert (reduced.mode, reduced.size) == ("RGB", (20, 22))
    np.testing.assert_allclose(
        np.asarray(reduced).astype(int), np.asarray(whole.reduce((5, 3))), atol=2
    )


def test_the_range_of_floats_is_that_of_all_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_colours, "_STRIP_PIXELS", 8)
    values = np.linspace(0, 255, 64, dtype=np.float32).reshape(16, 4)
    values[0, 0] = np.nan
    grey = np.asarray(to_srgb(Image.fromarray(values), (2, 2)))[..., 0]
    assert grey[0, 0] < 20
    assert grey[-1, -1] > 235
    assert (np.diff(grey[:, 0].astype(int)) > 0).all()
