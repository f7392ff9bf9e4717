"""Tables that speak of more frames than there are."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import av
import numpy as np
import pytest

from regiontalk.errors import ImageError, ImageTooLarge
from regiontalk.images import mp4_limits
from regiontalk.images.mp4_limits import check_tables
from regiontalk.images.video import key_frames
from videos import clip, photo, write_video  # noqa: F401  (a fixture)


def changed(data: bytes, table: bytes, offset: int, *numbers: int) -> bytes:
    """With other numbers in the first table of that name."""
    at = data.index(table) + 4 + offset
    packed = struct.pack(f">{len(numbers)}I", *numbers)
    return data[:at] + packed + data[at + len(packed) :]


def test_more_frames_than_there_is_room_for(clip: Path) -> None:  # noqa: F811
    """FFmpeg took 1.4 GB for twenty million."""
    data = changed(clip.read_bytes(), b"stsz", 4, 1, 20_000_000)
    clip.write_bytes(data)
    with pytest.raises(ImageTooLarge, match=r"clip\.mp4: its tables have more than 2,000,000"):
        key_frames(clip)
    check_tables(io.BytesIO(changed(data, b"stsz", 4, 1, 1_000_000)))


def test_all_tracks_count_wherever_their_tables_are(clip: Path) -> None:  # noqa: F811
    data = clip.read_bytes()
    more = b"trak" + b"\0\0\0\x14stsz" + struct.pack(">III", 0, 1, 1_500_000)
    box = struct.pack(">I", len(more) + 4) + more
    check_tables(io.BytesIO(data + box))
    with pytest.raises(ImageTooLarge):
        check_tables(io.BytesIO(data + 2 * box))


def test_sound_before_pictures_is_no_hiding_place(tmp_path: Path) -> None:
    path = with_plain_sound(tmp_path / "a.mov")
    data = path.read_bytes()
    check_tables(io.BytesIO(data))
    sound = data.index(b"soun")
    pictures = changed(data[:sound] + b"vide" + data[sound + 4 :], b"stsz", 8, 1)
    with pytest.raises(ImageTooLarge):
        check_tables(io.BytesIO(pictures))
    chunks = data.rindex(b"stsc")
    with pytest.raises(ImageTooLarge):
        check_tables(io.BytesIO(data[:chunks] + changed(data[chunks:], b"stsc", 12, 2**32 - 1)))


def with_plain_sound(path: Path) -> Path:
    """A minute of uncompressed sound at 48,000 samples a second, with a picture."""
    with av.open(path, "w") as container:
        pictures = container.add_stream("mpeg4", rate=1)
        pictures.width, pictures.height, pictures.pix_fmt = 320, 240, "yuv420p"
        sound = container.add_stream("pcm_s16le", rate=48_000, layout="mono")
        for _ in range(60):
            frame = av.VideoFrame.from_image(photo("coffee"))
            container.mux(pictures.encode(frame))
            samples = av.AudioFrame.from_ndarray(np.zeros((1, 48_000), np.int16), "s16", "mono")
            samples.rate = 48_000
            container.mux(sound.encode(samples))
        container.mux(pictures.encode(None))
        container.mux(sound.encode(None))
    return path


def test_plain_sound_has_many_samples(tmp_path: Path) -> None:
    path = with_plain_sound(tmp_path / "a.mov")
    assert b"soun" in path.read_bytes()
    assert len(key_frames(path)) == 1


def test_fragments_count(tmp_path: Path) -> None:
    options = {"movflags": "frag_keyframe+empty_moov"}
    path = write_video(tmp_path / "a.mp4", [photo("coffee"), photo("bear")], options=options)
    data = path.read_bytes()
    assert b"moof" in data
    assert len(key_frames(path)) == 2
    with pytest.raises(ImageTooLarge):
        check_tables(io.BytesIO(changed(data, b"trun", 4, 2**32 - 1)))


def test_many_edits_of_many_frames(clip: Path) -> None:  # noqa: F811
    data = clip.read_bytes()
    assert b"elst" in data
    check_tables(io.BytesIO(changed(data, b"elst", 4, 1000)))
    with pytest.raises(ImageTooLarge):
        check_tables(io.BytesIO(changed(data, b"elst", 4, 100_000)))


def test_parts_and_tables_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = b"\0\0\0\x08free" * 100
    check_tables(io.BytesIO(parts))
    monkeypatch.setattr(mp4_limits, "MOST_BOXES", 99)
    with pytest.raises(ImageTooLarge, match="more than 99 parts"):
        check_tables(io.BytesIO(parts))
    monkeypatch.setattr(mp4_limits, "MOST_TABLE_BYTES", 1000)
    with pytest.raises(ImageTooLarge, match="its tables have more than"):
        check_tables(io.BytesIO(b"\0\0\0\0moov" + bytes(2000)))
    check_tables(io.BytesIO(b"\0\0\0\0mdat" + bytes(2000)))
    with pytest.raises(ImageError, match="compressed"):
        check_tables(io.BytesIO(b"\0\0\0\x10moov\0\0\0\x08cmov"))
