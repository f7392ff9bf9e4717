"""Runs a model on many photos, for the verbs that do so: finds the photos, processes them in
threads, and reports and skips those that fail."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regiontalk import __version__
from regiontalk.captioners.loading import CaptionerAddress
from regiontalk.cli import console, options, outputs
from regiontalk.cli.journal import KEY, Journal, keeping
from regiontalk.errors import InputError, RegionTalkError, SkippedInputs, UsageError
from regiontalk.images import video
from regiontalk.images.limits import Limits
from regiontalk.images.moments import is_video
from regiontalk.images.paths import WITH_VIDEOS, Photos, attempts, find_photos
from regiontalk.images.photo import Photo
from regiontalk.models import packaged
from regiontalk.models.folder import SUMS

if TYPE_CHECKING:
    from regiontalk.model import Model

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """The call of the model for each photo, and its name in messages."""

    ask: Callable[[Model, Any], Any]
    options: Mapping[str, Any]
    """The options of the call, as plain values, to compare two runs."""
    doing: str
    done: str
    check: Callable[[Model], None] = lambda _: None
    """Raises an error if the model does not support the call."""


@dataclass(frozen=True)
class PhotoOptions:
    """The options that `photo_options` gives a verb."""

    paths: tuple[str, ...]
    output: Path | None
    size: int | None
    model: options.Place | None
    device: str
    workers: int
    as_json: bool
    strict: bool
    max_megapixels: float
    quiet: bool
    verbose: bool
    force: bool
    engine: str = options.LOCAL
    address: str | None = None
    """The address of a Ray cluster; only verbs with `options.cluster_options` have one."""
    heads: tuple[Path, ...] = ()
    """Files of other heads; only verbs with `options.heads_option` take them."""
    words_book: options.Book | None = None

    @classmethod
    def take(cls, options: dict[str, Any]) -> PhotoOptions:
        """Takes these options out of all options of a verb, which keep its own."""
        names = options.keys() & cls.__dataclass_fields__.keys()
        return cls(**{name: options.pop(name) for name in names})

    def wanted(self, export: str | None = None) -> outputs.Wanted:
        options.check_engine(self.engine, self.address)
        return outputs.Wanted(
            self.output, self.as_json, export, self.force, shards=self.engine == options.RAY
        )

    def given(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """A verb's own options that were given, and the size."""
        return {
            name: value
            for name, value in {**chosen, "size": self.size}.items()
            if value is not None
        }

    def find(self, wanted: outputs.Wanted) -> Photos:
        """The photos; raises an error if there are none, and reports those that were left out."""
        if self.engine == options.RAY:
            from regiontalk.lab.cluster import sources

            photos = sources.find(self.paths)
        else:
            photos = find_photos(self.paths, leave_out=wanted.folder, suffixes=WITH_VIDEOS)
            _open_videos(photos, self)
        _report_missing(photos, self.paths, self.quiet)
        return photos

    def answer(self, request: Request, photos: Photos, wanted: outputs.Wanted) -> None:
        """Runs the model on every photo and writes the results as `wanted`."""
        if self.engine == options.RAY:
            failed = _answer_on_cluster(self, request, photos, wanted)
        else:
            count = len(photos.paths)
            resumable = wanted.output if count > 1 and wanted.kind != "data set" else None
            same_run = {"asked": request.options, **self.identity()}
            with (
                keeping(resumable, same_run, self.quiet) as journal,
                outputs.opening(wanted, photos.paths, journal.finished) as put,
            ):
                can_open = photos.can_be_opened(self.limits)
                model = self.load_model(request.check) if can_open else None
                _report_finished(journal, photos, wanted, self.quiet)
                ask = _asking(request, model, photos, journal, self.limits)
                no_bar = self.quiet or count == 1 or (wanted.prints and sys.stdout.isatty())
                answers = attempts(self.timed(ask), photos.paths, self.workers)
                watched = console.track(answers, request.doing, count, no_bar)
                failed = put_all(watched, journal.after(put), count, request.done)
            _report_written(wanted, count - failed, self.quiet)
        skipped = failed + len(photos.skipped)
        if self.strict and skipped:
            raise SkippedInputs(f"{skipped} skipped, and --strict was given")

    @property
    def limits(self) -> Limits:
        return Limits(megapixels=self.max_megapixels)

    def load_model(self, check: Callable[[Model], None] = lambda _: None) -> Model:
        """The model; raises the error of `check` if it does not support what is asked."""
        model = options.load_model(
            self.model,
            self.device,
            self.max_megapixels,
            self.heads,
            words_book=self.words_book,
        )
        place = self.model
        if not isinstance(place, CaptionerAddress):
            place = packaged.place_of(place)
        console.message(f"regiontalk: model {place}, device {self.device}", not self.verbose)
        check(model)
        return model

    def timed(self, ask: Callable[[str], Result]) -> Callable[[str], Result]:
        """The call for a photo; with --verbose it also says how long it took."""
        if not self.verbose:
            return ask

        def ask_and_say(photo: str) -> Result:
            start = time.perf_counter()
            result = ask(photo)
            console.message(f"regiontalk: {photo}: {time.perf_counter() - start:.2f} s")
            return result

        return ask_and_say

    def identity(self) -> dict[str, Any]:
        """What the results depend on in addition to the options: the model's files, and how it
        runs."""
        return {
            "model": [_fingerprint(place) for place in (self.model, *self.heads)],
            "device": self.device,
            "mp": self.max_megapixels,
            "words_book": options.book_state(self.words_book),
        }


format_option = click.option(
    "--format", "export", type=click.Choice(outputs.FORMATS), help="Another program's format."
)


PATH_HELP = """
    PATH is a photo or video, a folder (with all its subfolders), a pattern such as 'trip/**/*.jpg',
    or - for stdin. Stdin has paths, one per line or separated by NUL, or the bytes of one photo. Of
    a video, those frames are taken that show something new; clip.mp4#t=12.5 is one frame.
    Unreadable photos are reported and skipped.
"""


_PHOTO_OPTIONS = (
    click.argument(
        "paths",
        nargs=-1,
        required=True,
        metavar="PATH...",
        shell_complete=options.completes("file"),
    ),
    click.option(
        "-o",
        "--output",
        type=options.PLACE,
        help="Write to a page (.html), a folder of pictures, one picture, or a .json, .jsonl or "
        ".csv file.",
    ),
    click.option(
        "--size",
        type=click.IntRange(16, 4096),
        help="Long side of the resized photos. Default: the model's.",
    ),
    options.any_model_option,
    options.device_option,
    options.words_book_option,
    options.workers_option,
    click.option("--json", "as_json", is_flag=True, help="Print JSON lines, one photo per line."),
    click.option(
        "--force", is_flag=True, help="Replace files at -o that regiontalk did not write."
    ),
    click.option("--strict", is_flag=True, help="End with exit code 3 if a photo was skipped."),
    options.max_megapixels_option,
    click.option(
        "-q",
        "--quiet",
        is_flag=True,
        help="No progress bar, no messages; skipped photos are named.",
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Also say which model is used, and how long each photo took.",
    ),
)


def photo_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a verb PATH... and the options around it, which `PhotoOptions.take` reads; to be the
    innermost decorator."""
    command.__doc__ = f"{command.__doc__}{PATH_HELP}"
    for option in reversed(_PHOTO_OPTIONS):
        command = option(command)
    return command


def _open_videos(photos: Photos, shared: PhotoOptions) -> None:
    """Puts those frames of videos that show something new in the place of the videos."""
    videos = [path for path in photos.paths if is_video(path) and "://" not in path]
    if not videos:
        return
    if not video.is_installed():
        others = [path for path in photos.paths if path not in videos]
        if not others or set(videos) & set(shared.paths):
            video.need()
        console.message(f"regiontalk: {video.left_out(len(videos))}")
        photos.paths = others
        return
    frames: dict[str, list[str]] = {}
    with console.progress("Looking for scenes", len(videos), shared.quiet) as bar:
        for number, path in enumerate(videos):

            def watch(share: float, before: int = number) -> None:
                bar.update(bar.task_ids[0], completed=before + share)

            try:
                frames[path] = video.key_frames(path, shared.limits, watch)
            except InputError as problem:
                if len(photos.paths) == 1:
                    raise
                hint = f"  ({problem.hint})" if problem.hint else ""
                photos.skipped.append(problem.message + hint)
                frames[path] = []
    photos.paths = list(chain.from_iterable(frames.get(path, [path]) for path in photos.paths))


def _report_missing(photos: Photos, paths: tuple[str, ...], quiet: bool) -> None:
    if not photos.paths:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        reason = photos.skipped[0] if photos.skipped else f"{paths[0]}{more}: no photo there"
        raise InputError(
            reason, hint="a photo, a folder with photos, a pattern, or - for paths on stdin"
        )
    for line in photos.skipped:
        console.message(f"regiontalk: skipped {line}")
    for path in photos.hidden:
        console.message(f"regiontalk: left out {path}: a hidden file", quiet)


def _fingerprint(model: options.Place | None) -> str:
    """Changes when a model changes: its checksums, or names, sizes and times of a run's files."""
    if isinstance(model, CaptionerAddress):
        return model.fingerprint
    place = packaged.place_of(model)
    sums = place / SUMS
    if sums.is_file():
        return hashlib.sha256(sums.read_bytes()).hexdigest()
    files = sorted(path for path in place.rglob("*") if path.is_file())
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(repr(states).encode()).hexdigest()


def _asking(
    request: Request, model: Model | None, photos: Photos, journal: Journal, limits: Limits
) -> Callable[[str], Any]:
    """What gives the result of a photo: that of the journal if there is one. Without a model, which
    was not loaded because no photo can be opened, it raises the photo's error."""

    def ask(photo: str) -> Any:
        if photo in journal.finished:
            return journal.finished[photo]
        source = photos.source(photo)
        if model is None:
            return Photo(source, limits).check()
        result = request.ask(model, source)
        return result if source is photo else replace(result, path=photo)

    return ask


def _report_finished(journal: Journal, photos: Photos, wanted: outputs.Wanted, quiet: bool) -> None:
    finished = sum(photo in journal.finished for photo in photos.paths)
    if finished:
        count = console.count(len(photos.paths), "photo")
        console.message(f"{wanted.output}: {finished} of {count} were finished", quiet)


def _report_written(wanted: outputs.Wanted, count: int, quiet: bool) -> None:
    if wanted.kind:
        place = wanted.output or "next to the photos"
        console.message(f"{place}: {console.count(count, 'photo')}", quiet)


def _answer_on_cluster(
    shared: PhotoOptions, request: Request, photos: Photos, wanted: outputs.Wanted
) -> int:
    """Runs the model on a Ray cluster, whose workers write the results themselves; returns how many
    photos failed."""
    from regiontalk.lab.cluster.addresses import full_address
    from regiontalk.lab.cluster.answers import Answering, answer_all
    from regiontalk.lab.cluster.shards import Shards
    from regiontalk.lab.cluster.sources import options_of

    if photos.stdin is not None:
        raise UsageError("--engine ray needs paths, but stdin has a photo")
    same_run = {KEY: __version__, "asked": request.options, **shared.identity()}
    place = full_address(wanted.output)
    answering = Answering(request.ask, Shards(place), options_of(shared.paths))
    load = partial(shared.load_model, request.check)
    chunks = answer_all(load, answering, photos.paths, same_run, shared.workers, shared.address)
    before = next(chunks).photos
    answered = 0
    failed = 0
    console.message(
        f"{place}: {console.count(before, 'photo')} were finished", shared.quiet or not before
    )
    with console.progress(request.doing, len(photos.paths), shared.quiet) as bar:
        bar.advance(bar.task_ids[0], before)
        for chunk in chunks:
            answered += chunk.photos
            failed += len(chunk.skipped)
            bar.advance(bar.task_ids[0], chunk.photos + len(chunk.skipped))
            for reason in chunk.skipped.values():
                console.message(f"regiontalk: skipped {reason}")
    if failed and not before + answered:
        raise InputError(f"none of {failed} photos could be {request.done}")
    console.message(f"{place}: {console.count(before + answered, 'photo')}", shared.quiet)
    return failed


def put_all(
    results: Iterable[Result | RegionTalkError],
    put: Callable[[Result], object],
    photos: int,
    done: str,
) -> int:
    """Passes results on and reports failures; returns how many failed. Raises an error if all
    failed."""
    failed = 0
    for result in results:
        problem = result if isinstance(result, RegionTalkError) else _attempt(put, result)
        if problem is None:
            continue
        failed += 1
        if photos == 1:
            raise problem
        hint = f"  ({problem.hint})" if problem.hint else ""
        console.message(f"regiontalk: skipped {problem.message}{hint}")
    if failed == photos:
        raise InputError(f"none of {photos} photos could be {done}")
    return failed


def _attempt(put: Callable[[Result], object], result: Result) -> InputError | None:
    """The error that prevents writing this result, if any; a full disk is not an error of one
    result."""
    try:
        put(result)
    except InputError as error:
        return error
    return None
