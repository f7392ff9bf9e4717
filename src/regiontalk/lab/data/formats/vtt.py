"""WebVTT: the captions of a video as a track that players show (https://www.w3.org/TR/webvtt1/)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from regiontalk.errors import UsageError
from regiontalk.images.moments import Moment, moment_of
from regiontalk.images.video import seconds_of
from regiontalk.results import AltText, Description, ImageRegions, hedged

HEADER = "WEBVTT\n\nNOTE RegionTalk\n"
LAST_SECONDS = 5.0  # of the last caption, if the video does not say how long it is

Result = ImageRegions | Description | AltText


def to_vtt(frames: Sequence[Result]) -> str:
    """The captions, sentence or alt text of each frame, until the next frame begins."""
    moments = [_moment_of(frame) for frame in frames]
    if len({moment.video for moment in moments}) > 1:
        raise UsageError("a WebVTT track belongs to one video", hint="one command for each video")
    cues = []
    for moment, after, frame in itertools.zip_longest(moments, moments[1:], frames):
        end = _end_of(moment) if after is None else after.time
        if text := _text(frame):
            cues.append(f"{_clock(moment.time)} --> {_clock(end)}\n{text}\n")
    return "\n".join([HEADER, *cues])


def _moment_of(frame: Result) -> Moment:
    moment = moment_of(frame.path)
    if moment is None:
        raise UsageError(f"{frame.path}: a photo has no time", hint="a WebVTT track needs a video")
    return moment


def _end_of(last: Moment) -> float:
    return max(seconds_of(last.video), last.time + LAST_SECONDS)


def _text(frame: Result) -> str:
    if isinstance(frame, ImageRegions):
        lines = [hedged(region.caption, frame.is_sure(region)) for region in frame.regions]
        text = "\n".join(dict.fromkeys(lines))
    elif isinstance(frame, Description):
        text = hedged(frame.sentence, frame.sure)
    else:
        text = frame.text
    signs = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
    return re.sub("[&<>]", lambda sign: signs[sign[0]], text)


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}"
