from __future__ import annotations

from pathlib import Path

import pytest

from regiontalk.errors import UsageError
from regiontalk.lab.data.formats.vtt import to_vtt
from regiontalk.results import Description, ImageRegions, Region, Shown
from videos import clip  # noqa: F401  (a fixture)

BOX = (0.0, 0.0, 9.0, 9.0)


def said(path: str, *captions: str, score: float = 0.9) -> ImageRegions:
    regions = tuple(Region(BOX, score, caption) for caption in captions)
    return ImageRegions(path, 10, 10, "model", regions, Shown())


def test_a_track_says_what_is_seen_until_the_next_frame(clip: Path) -> None:  # noqa: F811
    frames = [
        said(f"{clip}#t=0", "a cup", "a spoon", "a cup"),
        said(f"{clip}#t=2.25"),
        said(f"{clip}#t=3.5", "cat & <dog>", score=0.1),
        Description(f"{clip}#t=4", 10, 10, "model", "a child with a bear", -0.5),
    ]
    assert to_vtt(frames) == (
        "WEBVTT\n\nNOTE RegionTalk\n\n"
        "00:00:00.000 --> 00:00:02.250\na cup\na spoon\n\n"
        "00:00:03.500 --> 00:00:04.000\ncat &amp; &lt;dog&gt; (not sure)\n\n"
        "00:00:04.000 --> 00:00:09.000\na child with a bear\n"
    )


def test_hours(clip: Path) -> None:  # noqa: F811
    assert "02:46:40.120 --> 02:46:45.120" in to_vtt([said(f"{clip}#t=10000.12", "a cup")])


def test_only_one_video_has_a_track() -> None:
    with pytest.raises(UsageError, match="one video"):
        to_vtt([said("a.mp4#t=0"), said("b.mp4#t=0")])
    with pytest.raises(UsageError, match=r"photo\.jpg: a photo has no time"):
        to_vtt([said("photo.jpg")])
