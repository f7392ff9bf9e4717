"""What the verbs over many photos share: the photos are found, given to a model in threads, and what fails is named and
skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from regiontalk.cli import console, outputs
from regiontalk.cli.options import completes, device_option, load_model, max_megapixels_option, model_option
from regiontalk.errors import InputError, RegionTalkError, SkippedInputs
from regiontalk.photos import Photos, attempts, find_photos

if TYPE_CHECKING:
    from regiontalk.model import Model

Result = TypeVar("Result")


class Doing(NamedTuple):
    """What is done to photos, in words."""

    now: str
    done: str


@dataclass(frozen=True)
class PhotoOptions:
    """The options that `photo_options` gives a verb."""

    paths: tuple[str, ...]
    model: str | None
    device: str
    workers: int
    as_json: bool
    strict: bool
    max_megapixels: float
    quiet: bool
    heads: tuple[Path, ...] = ()
    """Of verbs that have `options.heads_option`."""

    def find(self, wanted: outputs.Wanted) -> Photos:
        """The photos; fails where there is none, and names what was left out."""
        photos = find_photos(self.paths, leave_out=wanted.folder)
        _report_missing(photos, self.paths, self.quiet)
        return photos

    def answer(
        self,
        ask: Callable[[Model, str], Result],
        photos: Photos,
        wanted: outputs.Wanted,
        doing: Doing,
        check: Callable[[Model], None] = lambda _: None,
    ) -> None:
        """Asks the model about every photo and writes the answers as wanted; `check` fails where it cannot be asked."""
        model = load_model(self.model, self.device, self.max_megapixels, self.heads)
        check(model)
        skipped = _answer_all(lambda photo: ask(model, photo), photos, wanted, doing, self.workers, self.quiet)
        if self.strict and skipped:
            raise SkippedInputs(f"{skipped} skipped, and --strict was given")


def photo_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a verb PATH... and the options around it, as one `asked`; to be the innermost decorator."""

    @click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=completes("file"))
    @model_option
    @device_option
    @click.option("-j", "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Photos at a time.")
    @click.option("--json", "as_json", is_flag=True, help="JSON lines, one photo a line.")
    @click.option("--strict", is_flag=True, help="Exit code 3 if a photo was skipped.")
    @max_megapixels_option
    @click.option("-q", "--quiet", is_flag=True, help="No bar and no notes; photos that are skipped are still named.")
    @wraps(command)
    def asking(**options: Any) -> None:
        shared = {name: options.pop(name) for name in PhotoOptions.__dataclass_fields__ if name in options}
        command(asked=PhotoOptions(**shared), **options)

    return asking


def _report_missing(photos: Photos, paths: tuple[str, ...], quiet: bool) -> None:
    if not photos.paths:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        reason = photos.skipped[0] if photos.skipped else f"{paths[0]}{more}: no photo there"
        raise InputError(reason, hint="a photo, a folder with photos, a pattern, or - for paths on stdin")
    for line in photos.skipped:
        console.message(f"regiontalk: skipped {line}")
    for path in photos.hidden:
        console.message(f"regiontalk: left out {path}: a hidden file", quiet)


def _answer_all(
    ask: Callable[[str], Result], photos: Photos, wanted: outputs.Wanted, doing: Doing, workers: int, quiet: bool
) -> int:
    """Asks about every photo, writes the answers as wanted, and names what failed; how many photos were skipped."""
    count = len(photos.paths)
    with outputs.opening(wanted, photos.paths) as put:
        bar = not quiet and count > 1 and not wanted.fills_terminal
        watched = console.track(attempts(ask, photos.paths, workers), doing.now, count, not bar)
        failed = put_all(watched, put, count, doing.done)
    if wanted.output is not None:
        console.message(f"{wanted.output}: {console.count(count - failed, 'photo')}", quiet)
    return failed + len(photos.skipped)


def put_all(
    results: Iterable[Result | RegionTalkError], put: Callable[[Result], object], photos: int, done: str
) -> int:
    """Hands results on and names what failed; how many did. Fails itself where nothing is left."""
    failed = 0
    for result in results:
        if not isinstance(result, RegionTalkError):
            put(result)
            continue
        failed += 1
        if photos == 1:
            raise result
        hint = f"  ({result.hint})" if result.hint else ""
        console.message(f"regiontalk: skipped {result.message}{hint}")
    if failed == photos:
        raise InputError(f"none of {photos} photos could be {done}")
    return failed
