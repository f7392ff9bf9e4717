"""One photo after another: found, given to a model in threads, and what fails is named and skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from regiontalk.cli import console, outputs
from regiontalk.errors import InputError, RegionTalkError, SkippedInputs
from regiontalk.photos import Photos, attempts

Result = TypeVar("Result")


class Doing(NamedTuple):
    """What is done to photos, in words."""

    now: str
    done: str


def report_missing(photos: Photos, paths: tuple[str, ...], quiet: bool) -> None:
    """Fails where there is no photo at all; names what was left out."""
    if not photos.paths:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        reason = photos.skipped[0] if photos.skipped else f"{paths[0]}{more}: no photo there"
        raise InputError(reason, hint="a photo, a folder with photos, a pattern, or - for paths on stdin")
    for line in photos.skipped:
        console.message(f"regiontalk: skipped {line}")
    for path in photos.hidden:
        console.message(f"regiontalk: left out {path}: a hidden file", quiet)


def answer_all(
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


def fail_if_strict(strict: bool, skipped: int) -> None:
    if strict and skipped:
        raise SkippedInputs(f"{skipped} skipped, and --strict was given")


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
