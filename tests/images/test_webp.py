"""WebP photos: the pixels that Pillow decodes, in a fraction of its memory."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from regiontalk.images import webp
from regiontalk.images.photo import open_photo

PEAK = """
import io, sys
from PIL import Image
from regiontalk.images.photo import Photo

def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) * 1024

data, before = sys.stdin.buffer.read(), peak()
print(Photo(data).resized(448).photo_size, peak() - before)
"""
TOGETHER = """
import sys, threading
from regiontalk.images.photo import open_photo

def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) * 1024

data, before = sys.stdin.buffer.read(), peak()
threads = [threading.Thread(target=open_photo, args=(data,)) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(peak() - before)
"""


def encode(image: Image.Image, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", **options)
    return buffer.getvalue()


@pytest.mark.parametrize("options", [{"lossless": True, "exact": True}, {"quality": 60}])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_the_pixels_are_those_that_pillow_decodes(
    mode: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).integers(0, 256, (9, 13, len(mode)), dtype=np.uint8)
    data = encode(Image.fromarray(values).resize((101, 67)), **options)
    ours = np.asarray(open_photo(data))
    monkeypatch.setattr(webp, "_decode", lambda _: None)
    np.testing.assert_array_equal(ours, np.asarray(open_photo(data)))


def test_of_an_animation_the_first_frame() -> None:
    red, blue = (Image.new("RGB", (40, 30), colour) for colour in ("red", "blue"))
    data = encode(red, save_all=True, append_images=[blue], lossless=True)
    assert open_photo(data).getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_robustness_22_a_large_photo_is_held_at_most_twice() -> None:
    """Pillow would hold it four times."""
    data = encode(Image.new("RGB", (6000, 4000), "teal"), lossless=True, quality=0, method=0)
    done = subprocess.run([sys.executable, "-c", PEAK], input=data, capture_output=True, check=True)
    size, _, peak = done.stdout.decode().rpartition(" ")
    assert size == "(6000, 4000)"
    assert int(peak) < 2.5 * 4 * 6000 * 4000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_threads_hold_one_animation_at_a_time() -> None:
    frames = [Image.new("RGBA", (2400, 2400), (value, 9, 9, 200)) for value in (5, 6)]
    options = {"save_all": True, "append_images": frames[1:], "lossless": True, "method": 0}
    data = encode(frames[0], **options)

    def peak(threads: int) -> int:
        command = [sys.executable, "-c", TOGETHER, str(threads)]
        # glibc would keep memory that was freed for each thread
        one_arena = {**os.environ, "MALLOC_ARENA_MAX": "1"}
        done = subprocess.run(command, input=data, capture_output=True, check=True, env=one_arena)
        return int(done.stdout)

    assert peak(4) < 1.7 * peak(1)
