from __future__ import annotations

import pytest

from regiontalk.images.moments import Moment, file_of, in_file, moment_of, path_at


@pytest.mark.parametrize(
    ("path", "moment"),
    [
        ("clip.mp4#t=12.5", Moment("clip.mp4", 12.5)),
        ("a#t=1.mov/CLIP.MOV#t=0", Moment("a#t=1.mov/CLIP.MOV", 0.0)),
        ("clip.mp4", None),
        ("photo.jpg#t=3", None),  # a file may be called so
        ("clip.mp4#t=", None),
        ("clip.mp4#t=-3", None),
        ("clip.mp4#t=nan", None),
        ("clip.mp4#t=1e9", None),
        ("clip.mp4#t=1,5", None),
        (".mp4#t=99999999", None),
    ],
)
def test_a_path_names_a_moment_of_a_video(path: str, moment: Moment | None) -> None:
    assert moment_of(path) == moment
    assert file_of(path) == (path if moment is None else moment.video)


def test_times_are_written_in_hundredths() -> None:
    assert path_at("clip.mp4", 0) == "clip.mp4#t=0"
    assert path_at("clip.mp4", 12345.678) == "clip.mp4#t=12345.68"
    assert path_at("clip.mp4", 20.0) == "clip.mp4#t=20"
    assert in_file("a.mp4#t=3", "b.mp4") == "b.mp4#t=3"
    assert in_file("a.jpg", "b.jpg") == "b.jpg"
