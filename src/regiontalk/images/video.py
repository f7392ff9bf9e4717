"""Frames of a video as photos with a time: those that show something new, and the one at a time.

Only the pictures of a video are decoded, never its sound.
"""

from __future__ import annotations

import heapq
import importlib.util
import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regiontalk.errors import ImageError, ImageTooLarge, MissingExtra, UnsupportedImage, one_line
from regiontalk.images.limits import Limits, check_pixels
from regiontalk.images.moments import Moment, path_at
from regiontalk.images.mp4_limits import check_tables
from regiontalk.io.files import open_regular
from regiontalk.io.malloc import give_freed_memory_back

if TYPE_CHECKING:
    from PIL import Image

EXTRA = "video"
FORMATS: dict[str, bytes] = {
    "mov": rb".{4}(ftyp|moov|mdat|free|wide|skip)",
    "matroska": rb"\x1a\x45\xdf\xa3",
    "avi": rb"RIFF.{4}AVI ",
    "mpegts": rb"(.{4})?G.{187,191}G",
    "mpeg": rb"\x00\x00\x01\xba",
    "asf": rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "flv": rb"FLV",
}
"""How files of the allowed containers begin. FFmpeg itself would also take playlists, which make it
open other files and addresses."""
HEADER_BYTES = 512

PER_MINUTE = 12  # frames of a minute at most: those where most changes
STEP_SECONDS = 0.5  # between two frames that are compared
# Mean difference of two frames, of 1, from which a frame shows something new.
MIN_NEW_DIFFERENCE = 0.06
# The same between neighbours, below which a fade or a fast turn is over.
MAX_STILL_DIFFERENCE = 0.03
MOST_UNSTILL = 3  # frames that are waited for until it is over
COMPARED_SIDE = 32  # pixels of the compared frames

MOST_DECODER_BYTES = 550_000_000
DECODER_THREADS = 2  # each keeps a frame
# A decoder keeps as many frames as a video may say, up to 16, and those that it works on. Its
# tables take some bytes for each pixel, too.
KEPT_FRAMES = 16 + DECODER_THREADS
KEPT_WHOLE_FRAMES = 2 * DECODER_THREADS  # of codecs whose frames need no others
TABLE_BYTES = 10
WIDEST_PIXEL = 8  # bytes, where the format of pixels is not known
LARGE_DECODER_BYTES = 100_000_000  # from which one video is decoded at a time
_one_large = threading.RLock()
LONGEST_HOURS = 4
MOST_SCAN_SECONDS = 1800  # of this machine's time, for all frames of a video
MOST_FRAME_SECONDS = 60  # the same, for one frame
MOST_FRAME_RATE = 300  # frames per second: more are no video
MOST_BROKEN = 1000  # packets that cannot be decoded

NEEDED_BY_OTHERS = "NONREF"  # FFmpeg's word for leaving out frames that no other frame needs
_BT709 = 1  # colours of HD, as FFmpeg counts them

Watch = Callable[[float], object]
"""Is told which share of a video has been looked at, from 0 to 1."""


def is_installed() -> bool:
    """Whether videos can be opened."""
    return importlib.util.find_spec("av") is not None


def need() -> None:
    """Raises `MissingExtra` if videos cannot be opened."""
    if not is_installed():
        raise MissingExtra("videos need PyAV, which is not installed", extra=EXTRA)


def left_out(count: int) -> str:
    """The line about videos that cannot be opened."""
    videos = "1 video" if count == 1 else f"{count} videos"
    return f"left out {videos}: PyAV is not installed  (pip install 'regiontalk[{EXTRA}]')"


def key_frames(
    video: str | Path,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    watch: Watch = lambda _: None,
) -> list[str]:
    """The paths of the frames that show something new, the first frame always; at most `PER_MINUTE`
    of each minute, those where most changes."""
    name = str(video)
    with _named(name), _opened(name, limits) as (container, stream):
        stream.codec_context.skip_frame = NEEDED_BY_OTHERS
        stream.codec_context.options |= {"skip_loop_filter": "all"}
        length = _check_length(stream, container)
        looks = _looks(_frames(container, stream, limits, MOST_SCAN_SECONDS), length, watch)
        times = [seconds for seconds, _ in _most_changing(_changes(looks))]
        if not times:
            raise ImageError("no frame can be decoded: it is broken or encrypted")
    return [path_at(name, seconds) for seconds in times]


def frame_at(moment: Moment, limits: Limits) -> Image.Image:
    """The frame that is shown at a time, upright."""
    with _named(moment.video):
        return _to_image(_decoded(moment, limits))  # the decoder has given its memory back


def _decoded(moment: Moment, limits: Limits) -> Any:
    """The first frame that is shown at a time, or later."""
    target = moment.time - 0.005  # times in paths are rounded
    with _opened(moment.video, limits) as (container, stream):
        if moment.time > 0:
            at = int((moment.time + _begin(stream)) / stream.time_base)
            with suppress(_pyav().FFmpegError):  # it has no index: decoded from its beginning
                container.seek(at, stream=stream)
        for seconds, frame in _frames(container, stream, limits, MOST_FRAME_SECONDS, target):
            if seconds >= target:
                return frame
    raise ImageError(f"no frame at {moment.time:g} seconds")


def seconds_of(video: str) -> float:
    """How long a video says that it is; 0 if it does not say so."""
    with _named(video), _opened(video, Limits()) as (container, stream):
        return _length(stream, container)


def _pyav() -> Any:
    need()
    import av

    return av


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Every error names the video."""
    av = _pyav()
    try:
        yield
    except ImageError as error:
        if error.message.startswith(one_line(path)):
            raise
        raise type(error)(f"{one_line(path)}: {error.message}", hint=error.hint) from error
    except MemoryError as error:
        raise ImageTooLarge(f"{one_line(path)}: there is not enough memory to open it") from error
    except (av.FFmpegError, ValueError, OverflowError, ArithmeticError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ImageError(f"{one_line(path)}: a broken video: {reason}") from error


@contextmanager
def _opened(path: str, limits: Limits) -> Iterator[tuple[Any, Any]]:
    """The container and its pictures."""
    with open_regular(path, one_line(path), "video", ImageError) as file:
        form = _format_of(file.read(HEADER_BYTES))
        if form == "mov":
            check_tables(file)
        file.seek(0)
        with _pyav().open(file, format=form, metadata_errors="replace") as container:
            stream = _pictures(container)
            context = stream.codec_context
            check_pixels((stream.width, stream.height), limits)
            _check_memory(context)
            most_pixels = min(limits.megapixels * 1e6, MOST_DECODER_BYTES // _pixel_bytes(context))
            context.options = {"max_pixels": str(int(most_pixels))}
            context.thread_count = DECODER_THREADS
            stream.thread_type = "AUTO"
            if _decoder_bytes(context) <= LARGE_DECODER_BYTES:
                yield container, stream
            else:
                give_freed_memory_back()
                with _one_large:
                    yield container, stream


def _check_memory(context: Any) -> None:
    if _decoder_bytes(context) > MOST_DECODER_BYTES:
        raise ImageTooLarge(
            f"{context.width}×{context.height} pixels ({context.pix_fmt}): decoding may take "
            f"{_decoder_bytes(context) / 1e9:.1f} GB, more than {MOST_DECODER_BYTES / 1e9:g}",
            hint="a smaller one: ffmpeg -i VIDEO -vf scale=1920:-2 SMALLER.mp4",
        )


def _decoder_bytes(context: Any) -> int:
    """The memory that a decoder takes at most."""
    return int(context.width * context.height * _pixel_bytes(context))


def _pixel_bytes(context: Any) -> float:
    """The memory that a decoder takes at most for each pixel of a frame."""
    known = context.format
    frame_bytes = known.padded_bits_per_pixel / 8 if known else WIDEST_PIXEL
    kept = KEPT_WHOLE_FRAMES if context.codec.intra_only else KEPT_FRAMES
    return float(kept * frame_bytes + TABLE_BYTES)


def _format_of(header: bytes) -> str:
    if not header:
        raise ImageError("empty")
    for name, start in FORMATS.items():
        if re.match(start, header, re.DOTALL):
            return name
    raise UnsupportedImage(
        "not a video of a supported type", hint="known: MP4, MOV, MKV, WebM, AVI, MPEG, WMV, FLV"
    )


def _pictures(container: Any) -> Any:
    """The first stream of pictures that is not a cover."""
    for stream in container.streams.video:
        if "ATTACHED_PIC" in str(stream.disposition).upper():
            continue
        if stream.codec_context is None:
            raise UnsupportedImage("its codec is not known, or it is encrypted")
        if stream.codec_context.codec_tag == "encv":
            raise ImageError("it is encrypted")
        return stream
    raise ImageError("there is no picture in it")


def _begin(stream: Any) -> float:
    return float((stream.start_time or 0) * stream.time_base)


def _length(stream: Any, container: Any) -> float:
    if stream.duration is not None:
        return float(stream.duration * stream.time_base)
    return (container.duration or 0) / 1e6


def _check_length(stream: Any, container: Any) -> float:
    length = _length(stream, container)
    if length > LONGEST_HOURS * 3600:
        raise ImageTooLarge(f"{length / 3600:.1f} hours long; the limit is {LONGEST_HOURS}")
    return length


def _frames(
    container: Any, stream: Any, limits: Limits, most_seconds: float, first: float = 0.0
) -> Iterator[tuple[float, Any]]:
    """The decoded frames with their times in seconds; of those before `first`, only the ones that
    other frames need. What the file says of its length and size is not trusted."""
    av, ends_at, begin = _pyav(), time.monotonic() + most_seconds, _begin(stream)
    broken = 0
    for packet in container.demux(stream):
        if time.monotonic() > ends_at:
            raise ImageTooLarge(f"it takes more than {most_seconds} seconds to decode")
        if packet.has_sidedata("encryption_info"):  # some of its noise can be decoded
            raise ImageError("it is encrypted")
        if first and packet.pts is not None:
            is_early = float(packet.pts * stream.time_base) - begin < first
            stream.codec_context.skip_frame = NEEDED_BY_OTHERS if is_early else "DEFAULT"
        try:
            frames = packet.decode()
        except av.FFmpegError:
            broken += 1
            if broken > MOST_BROKEN:
                return
            continue
        _check_memory(stream.codec_context)  # a video may change its size and format
        for frame in frames:
            check_pixels((frame.width, frame.height), limits)
            if frame.time is not None:
                yield max(0.0, frame.time - begin), frame


class _Look(NamedTuple):
    """A frame as it is compared with others."""

    seconds: float
    pixels: NDArray[np.float32]
    """(32, 32, 3), from 0 to 1."""


def _looks(frames: Iterable[tuple[float, Any]], length: float, watch: Watch) -> Iterator[_Look]:
    """A frame for every `STEP_SECONDS`."""
    due = 0.0
    for number, (seconds, frame) in enumerate(frames):
        if seconds > LONGEST_HOURS * 3600 or number > MOST_FRAME_RATE * (seconds + 1):
            raise ImageTooLarge(f"more frames than {LONGEST_HOURS} hours of video have")
        if seconds >= due:
            due = seconds + STEP_SECONDS
            watch(min(1.0, seconds / length) if length else 0.0)
            yield _Look(seconds, _small(frame))


def _small(frame: Any) -> NDArray[np.float32]:
    small = frame.reformat(COMPARED_SIDE, COMPARED_SIDE, "rgb24", interpolation="AREA")
    pixels: NDArray[np.float32] = small.to_ndarray().astype(np.float32) / 255
    return pixels


def _changes(looks: Iterable[_Look]) -> Iterator[tuple[float, float]]:
    """The first frame, and each that shows something new; its time, and how much has changed."""
    kept = before = None
    waited, change = 0, 0.0
    for look in looks:
        if kept is None or before is None:
            yield 0.0, 1.0
            kept = look
        else:
            change = _difference(look, kept)
            is_still = _difference(look, before) < MAX_STILL_DIFFERENCE or waited == MOST_UNSTILL
            if change < MIN_NEW_DIFFERENCE:
                waited = 0
            elif not is_still:
                waited += 1
            else:
                yield look.seconds, change
                kept, waited = look, 0
        before = look
    if before is not None and waited:  # it ended before it was still
        yield before.seconds, change


def _difference(look: _Look, other: _Look) -> float:
    return float(np.abs(look.pixels - other.pixels).mean())


def _most_changing(changes: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """The largest changes, at most `PER_MINUTE` of each minute, in their order."""
    for _, of_minute in itertools.groupby(changes, lambda change: int(change[0] // 60)):
        yield from sorted(heapq.nlargest(PER_MINUTE, of_minute, key=lambda change: change[1]))


def _to_image(frame: Any) -> Image.Image:
    """The frame in sRGB, turned as its camera was held."""
    colours = {"src_colorspace": "ITU709"} if frame.colorspace == _BT709 else {}
    image: Image.Image = frame.to_image(**colours)
    return image.rotate(frame.rotation, expand=True) if frame.rotation else image
