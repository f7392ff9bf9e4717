"""Frames of videos that PyAV writes for the test."""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from conftest import draw_scene
from regiontalk.errors import ImageError, ImageTooLarge, MissingExtra, UnsupportedImage
from regiontalk.images import video
from regiontalk.images.limits import Limits
from regiontalk.images.moments import moment_of
from regiontalk.images.photo import Photo
from regiontalk.images.video import key_frames
from videos import clip, photo, write_video  # noqa: F401  (a fixture)


def times(path: Path) -> list[float]:
    moments = [moment_of(frame) for frame in key_frames(path)]
    return [moment.time for moment in moments if moment is not None]


def difference(one: Image.Image, other: Image.Image) -> float:
    return float(np.abs(np.asarray(one, float) - np.asarray(other, float)).mean())


def test_each_scene_has_a_frame(clip: Path) -> None:  # noqa: F811
    found = times(clip)
    assert len(found) == 3
    assert found[0] == 0
    assert 2 <= found[1] < 4 <= found[2] < 6
    for frame, name in zip(key_frames(clip), ("coffee", "chelsea", "bear"), strict=True):
        assert difference(Photo(frame).open(), photo(name)) < 8
    assert Photo(f"{clip}#t=3").size == (320, 240)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mov", "libx264"),
        ("a.mkv", "libx264"),
        ("a.webm", "libvpx"),
        ("a.avi", "mpeg4"),
        ("a.mpg", "mpeg2video"),
        ("a.mts", "mpeg2video"),
        ("a.flv", "flv"),
        ("a.wmv", "wmv2"),
    ],
)
def test_other_containers(tmp_path: Path, name: str, codec: str) -> None:
    pictures = [photo("coffee"), photo("chelsea")]
    path = write_video(tmp_path / name, pictures, rate=25, codec=codec)
    first, second = times(path)
    assert first == 0
    assert 2 <= second < 4
    assert difference(Photo(f"{path}#t={second}").open(), photo("chelsea")) < 12
    assert difference(Photo(f"{path}#t=1.5").open(), photo("coffee")) < 12


def test_a_scene_without_change_has_one_frame_and_a_pan_some(tmp_path: Path) -> None:
    assert times(write_video(tmp_path / "still.mp4", [draw_scene()], seconds=20)) == [0]
    wide = photo("jockey", (960, 240))
    views = [wide.crop((x, 0, x + 320, 240)) for x in range(0, 640, 8)]
    assert 2 <= len(times(write_video(tmp_path / "pan.mp4", views, 0.1))) <= 8


def test_a_minute_has_few_frames(tmp_path: Path) -> None:
    colours = ("red", "blue", "white", "black", "green", "yellow")
    flashes = [Image.new("RGB", (64, 48), colours[number % 6]) for number in range(70)]
    found = times(write_video(tmp_path / "flashes.mp4", flashes, seconds=1))
    assert sum(time < 60 for time in found) == video.PER_MINUTE
    assert found == sorted(found)
    assert max(found) > 60


def test_a_fade_is_waited_for(tmp_path: Path) -> None:
    before, after = photo("coffee"), photo("chelsea")
    fade = [Image.blend(before, after, step / 10) for step in range(1, 10)]
    views = [*[before] * 20, *fade, *[after] * 20]
    (_, frame) = key_frames(write_video(tmp_path / "fade.mp4", views, 0.1))
    assert difference(Photo(frame).open(), after) < 12


def test_a_turned_video_is_upright(tmp_path: Path) -> None:
    path = write_video(tmp_path / "phone.mp4", [photo("coffee")], turned=-90)
    upright = photo("coffee").rotate(-90, expand=True)
    assert difference(Photo(f"{path}#t=0").open(), upright) < 8


def test_a_video_is_no_photo_and_has_an_end(clip: Path) -> None:  # noqa: F811
    with pytest.raises(UnsupportedImage, match="a video, not a photo") as error:
        Photo(clip).open()
    assert error.value.hint is not None
    assert error.value.hint.endswith("clip.mp4#t=SECONDS")
    with pytest.raises(ImageError, match="no frame at 900 seconds"):
        Photo(f"{clip}#t=900").open()


def test_without_the_extra(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(video, "is_installed", lambda: False)
    for ask in (lambda: key_frames(clip), Photo(f"{clip}#t=1").open):
        with pytest.raises(MissingExtra) as error:
            ask()
        assert error.value.hint == "pip install 'regiontalk[video]'"


def refused(path: Path, *, limits: Limits = Limits()) -> str:  # noqa: B008
    """The one line about a video that is not taken."""
    with pytest.raises(ImageError) as error:
        key_frames(path, limits)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}: ")


def test_broken_files_are_one_line(clip: Path, tmp_path: Path) -> None:  # noqa: F811
    whole = clip.read_bytes()
    path = tmp_path / "bad.mp4"
    for content, reason in (
        (b"", "empty"),
        (b"text", "not a video of a supported type"),
        (whole[:100], "a broken video"),
        (whole[: whole.index(b"moov")], "a broken video"),
        (whole[:40] + b"\0" * 5000, "a broken video"),
    ):
        path.write_bytes(content)
        assert refused(path).startswith(reason)
    assert "No such file" in refused(tmp_path / "gone.mp4")
    (tmp_path / "folder.mp4").mkdir()
    assert refused(tmp_path / "folder.mp4") == "a folder, not a video"


def test_playlists_open_no_other_files(clip: Path, tmp_path: Path) -> None:  # noqa: F811
    for text in (
        f"#EXTM3U\n#EXTINF:2,\n{clip}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile '{clip}'\n",
        f'<?xml version="1.0"?><MPD><BaseURL>{clip}</BaseURL></MPD>',
    ):
        path = tmp_path / "list.mp4"
        path.write_text(text)
        assert refused(path).startswith("not a video of a supported type")


def test_a_video_without_pictures(clip: Path, tmp_path: Path) -> None:  # noqa: F811
    sound = tmp_path / "sound.mp4"
    with av.open(sound, "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.rate = 8000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert refused(sound) == "there is no picture in it"
    empty = tmp_path / "empty.mkv"
    with av.open(empty, "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        container.start_encoding()
    assert refused(empty).startswith("a broken video")


def test_an_encrypted_video(tmp_path: Path) -> None:
    lock = {"encryption_scheme": "cenc-aes-ctr", "encryption_key": "42" * 16}
    options = {**lock, "encryption_kid": "43" * 16}
    locked = tmp_path / "locked.mp4"
    write_video(locked, [draw_scene()], codec="libx264", options=options)
    assert refused(locked) == "it is encrypted"
    with pytest.raises(ImageError, match="it is encrypted"):
        Photo(f"{locked}#t=0").open()


def test_a_wrong_or_great_length(clip: Path, tmp_path: Path) -> None:  # noqa: F811
    long = write_video(
        tmp_path / "long.mkv", [draw_scene()] * 11, rate=Fraction(1, 3600), seconds=3600
    )
    assert refused(long) == "11.0 hours long; the limit is 4"
    # the same without its length
    data = bytearray(long.read_bytes())
    at = data.index(b"\x44\x89\x88") + 3  # Duration, a float of eight bytes
    data[at : at + 8] = struct.pack(">d", 1000.0)
    tagged = data.find(b"DURATION")
    if tagged > 0:
        data[tagged : tagged + 8] = b"DURATIOX"
    long.write_bytes(data)
    assert "hours" in refused(long)
    # a clip that says that it lasts for days
    data = bytearray(clip.read_bytes())
    at = data.index(b"mdhd") + 20  # its duration, four bytes
    data[at : at + 4] = b"\x7f\xff\xff\xff"
    clip.write_bytes(data)
    assert len(times(clip)) == 3


def test_a_video_that_changes_to_wider_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = tmp_path / "both.ts"
    for pixels in ("yuv420p", "yuv444p"):
        path = write_video(tmp_path / "a.mts", [photo("coffee")], codec="libx264", pixels=pixels)
        with both.open("ab") as file:
            file.write(path.read_bytes())
    film = both.rename(tmp_path / "both.mts")
    assert times(film) == [0]
    narrow = 320 * 240 * (video.KEPT_FRAMES * 1.5 + video.TABLE_BYTES)
    monkeypatch.setattr(video, "MOST_DECODER_BYTES", int(narrow))
    assert refused(film).startswith("320×240 pixels (yuv444p): decoding may take")


def test_a_codec_without_earlier_frames_may_have_larger_ones(
    clip: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write_video(tmp_path / "a.mov", [photo("coffee")], codec="mjpeg", pixels="yuvj420p")
    monkeypatch.setattr(video, "MOST_DECODER_BYTES", 2_000_000)
    assert refused(clip)
    assert times(path) == [0]


DECODER = """
import sys
from regiontalk.images import video

def peak():
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))) * 1024

video.key_frames(sys.argv[1])
before = peak()
video.key_frames(sys.argv[2])
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_decoder_takes_no_more_than_is_said(clip: Path, tmp_path: Path) -> None:  # noqa: F811
    """A video whose frames may all need the 16 before."""
    size = (1600, 1200)
    options = {"preset": "ultrafast", "x264-params": "ref=16:bframes=0:scenecut=0:threads=1"}
    path = tmp_path / "many.mp4"
    write_video(path, [photo("coffee", size)], codec="libx264", coder_options=options)
    command = [sys.executable, "-c", DECODER, str(clip), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    one = 1600 * 1200 * 1.5
    said = 1600 * 1200 * (video.KEPT_FRAMES * 1.5 + video.TABLE_BYTES)
    assert 14 * one < int(done.stdout) < said + 10_000_000


@pytest.mark.parametrize(("large", "waits"), [(0, True), (1 << 40, False)])
def test_one_large_video_is_decoded_at_a_time(
    clip: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    large: int,
    waits: bool,
) -> None:
    monkeypatch.setattr(video, "LARGE_DECODER_BYTES", large)
    other = threading.Thread(target=Photo(f"{clip}#t=1").open)
    with video._opened(str(clip), Limits()):
        other.start()
        other.join(1 if waits else None)
        assert other.is_alive() == waits
    other.join()


def test_more_frames_than_a_video_has(tmp_path: Path) -> None:
    path = write_video(tmp_path / "bomb.mkv", [draw_scene((32, 32))], seconds=0.5, rate=1000)
    assert "more frames" in refused(path)


def test_size_and_time_are_limited(
    clip: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ImageTooLarge, match="megapixels, more than"):
        key_frames(clip, Limits(megapixels=0.05))
    with monkeypatch.context() as patched:
        patched.setattr(video, "MOST_DECODER_BYTES", 2_000_000)
        line = "320×240 pixels (yuv420p): decoding may take 0.0 GB, more than 0.002"
        assert refused(clip).startswith(line)
    thin = Image.new("RGB", (60_000, 1), "red")
    path = write_video(tmp_path / "thin.mkv", [thin], 0.2, codec="ffv1", pixels="bgr0")
    assert times(path) == [0]
    assert Photo(f"{path}#t=0").resized(320).pixels.shape == (16, 320, 3)
    monkeypatch.setattr(video, "MOST_SCAN_SECONDS", 0)
    assert refused(clip) == "it takes more than 0 seconds to decode"
