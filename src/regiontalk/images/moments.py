"""The paths of frames of videos: `clip.mp4#t=12.5` is the frame at 12.5 seconds (W3C Media
Fragments). What takes the path of a photo takes such a path, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (
    *(".mp4", ".m4v", ".mov", ".3gp", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".mts", ".m2ts"),
    *(".wmv", ".flv"),
)

_MOMENT = re.compile(r"(.+)#t=(\d{1,6}(?:\.\d{1,6})?)", re.DOTALL)


class Moment(NamedTuple):
    """A frame of a video: `time` in seconds from its beginning."""

    video: str
    time: float


def is_video(path: str | Path) -> bool:
    """Whether a path is a video, by its name."""
    return str(path).lower().endswith(SUFFIXES)


def moment_of(path: str | Path) -> Moment | None:
    """What the path of a frame means; None for the path of a file."""
    match = _MOMENT.fullmatch(str(path))
    return Moment(match[1], float(match[2])) if match and is_video(match[1]) else None


def file_of(path: str) -> str:
    """The file that has the photo or frame of a path."""
    moment = moment_of(path)
    return path if moment is None else moment.video


def path_at(video: str, seconds: float) -> str:
    """The path of a frame."""
    return f"{video}#t=" + f"{seconds:.2f}".rstrip("0").rstrip(".")


def in_file(path: str, file: str) -> str:
    """The path of the same moment in another file; for the path of a file, that other file."""
    return file + path.removeprefix(file_of(path))
