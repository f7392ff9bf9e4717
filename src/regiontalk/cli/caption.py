"""`regiontalk caption`: the regions of photos, and what is said of each."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import regiontalk
from regiontalk.cli import console, outputs
from regiontalk.cli.inputs import GivenBoxes, Photos, find_photos, read_boxes
from regiontalk.cli.render import EXPORTERS
from regiontalk.errors import InputError, RegionTalkError, SkippedInputs, UsageError
from regiontalk.images import Limits
from regiontalk.types import ImageRegions

if TYPE_CHECKING:
    from regiontalk.captioner import Captioner

AHEAD = 2  # photos for each worker that are under way before the first one's result is taken
TOP_FOR_PEOPLE = 12  # regions of a photo in tables, pictures and pages: each still has a colour of its own


def _finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Click's ranges let nan through."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number to work with", param=parameter)
    return value


@dataclass(frozen=True)
class Request:
    """What is asked of the model for every photo."""

    options: dict[str, Any]
    boxes: GivenBoxes | None

    def ask(self, model: Captioner, photo: str) -> ImageRegions:
        if self.boxes is None:
            return model(photo, **self.options)
        boxes = self.boxes.of(photo)
        try:
            return model(photo, boxes=boxes, **self.options)
        except UsageError as error:
            raise UsageError(f"{photo}: {error.message}", hint=error.hint) from error


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--top", type=click.IntRange(min=1), help="Regions of a photo; default 12, with --json or --format all.")
@click.option(
    "--threshold", type=click.FloatRange(0, 1), callback=_finite, help="Leave out regions that score less (0 to 1)."
)
@click.option("--proposals", type=click.IntRange(1, 10_000), help="Candidates looked at closely; default: the model's.")
@click.option("--size", type=click.IntRange(16, 4096), help="Long side the photo is resized to; default: the model's.")
@click.option("--beam", type=click.IntRange(1, 100), help="Beam width for captions; default 1, greedy.")
@click.option("--boxes", "given_boxes", metavar='FILE|"x0,y0,x1,y1;…"', help="Caption these boxes (pixels).")
@click.option("--model", metavar="DIR", help="A model folder made by regiontalk export; default: the package's own.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="cuda needs torch and a training run or checkpoint as --model.",
)
@click.option("-j", "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Photos at a time.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="page.html, a folder for annotated pictures, one picture, or .json/.jsonl.",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, one photo a line.")
@click.option("--format", "export", type=click.Choice(list(EXPORTERS)), help="The data in another program's format.")
@click.option("--strict", is_flag=True, help="Exit code 3 if a photo was skipped.")
@click.option(
    "--max-megapixels",
    type=click.FloatRange(0, 178, min_open=True),  # Pillow itself refuses more
    callback=_finite,
    default=Limits().megapixels,
    show_default=True,
    help="Refuse larger photos.",
)
@click.option("-q", "--quiet", is_flag=True, help="No bar and no notes; photos that are skipped are still named.")
def command(
    *,
    paths: tuple[str, ...],
    top: int | None,
    given_boxes: str | None,
    model: str | None,
    device: str,
    workers: int,
    output: Path | None,
    as_json: bool,
    export: str | None,
    strict: bool,
    max_megapixels: float,
    quiet: bool,
    **options: Any,
) -> None:
    """The regions of photos, and what is said of each.

    PATH is a photo, a folder (with all below it), a pattern such as 'trip/**/*.jpg', or - for paths on stdin,
    one a line or separated by NUL. A photo that cannot be read is named and skipped.
    """
    wanted = outputs.Wanted(output, as_json, export)
    boxes = _given_boxes(given_boxes, top, options) if given_boxes is not None else None
    if boxes is None:
        options["top"] = top or (None if wanted.is_data else TOP_FOR_PEOPLE)
    photos = find_photos(paths, leave_out=wanted.folder)
    _report_missing(photos, paths, quiet)
    if boxes is not None:
        boxes.check(photos.paths)
    captioner = _load(model, device, max_megapixels)
    request = Request({name: value for name, value in options.items() if value is not None}, boxes)
    with outputs.opening(wanted, photos.paths) as put:
        bar = not quiet and len(photos.paths) > 1 and not wanted.fills_terminal
        asked = _in_order(lambda photo: _attempt(request, captioner, photo), photos.paths, workers)
        failed = _put_all(console.track(asked, "Captioning", len(photos.paths), not bar), put, len(photos.paths))
    if output is not None:
        console.message(f"{output}: {len(photos.paths) - failed} photos", quiet)
    skipped = failed + len(photos.skipped)
    if strict and skipped:
        raise SkippedInputs(f"{skipped} skipped, and --strict was given")


def _given_boxes(given: str, top: int | None, options: dict[str, Any]) -> GivenBoxes:
    for name, value in {"top": top, **options}.items():
        if value is not None and name in ("top", "threshold", "proposals"):
            raise UsageError(f"--{name} chooses between regions that were found: it does not go with --boxes")
    return read_boxes(given)


def _report_missing(photos: Photos, paths: tuple[str, ...], quiet: bool) -> None:
    if not photos.paths:
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        reason = photos.skipped[0] if photos.skipped else f"{paths[0]}{more}: no photo there"
        raise InputError(reason, hint="a photo, a folder with photos, a pattern, or - for paths on stdin")
    for line in photos.skipped:
        console.message(f"regiontalk: skipped {line}")
    for path in photos.hidden:
        console.message(f"regiontalk: left out {path}: a hidden file", quiet)


def _load(model: str | None, device: str, megapixels: float) -> Captioner:
    captioner = _load_on_cuda(model) if device == "cuda" else regiontalk.load(model)
    return replace(captioner, limits=Limits(megapixels=megapixels))


def _load_on_cuda(model: str | None) -> Captioner:
    console.need("train", "--device cuda", "torch", "safetensors")
    from regiontalk.captioner import Captioner
    from regiontalk.training.checkpoints import find_checkpoint
    from regiontalk.training.engine import pick_device
    from regiontalk.training.torch_runtime import TorchRuntime

    device = str(pick_device("cuda"))
    if model is None:
        raise UsageError("--device cuda runs a checkpoint", hint="--model RUN, a folder that regiontalk train made")
    return Captioner(TorchRuntime(find_checkpoint(Path(model)), device))


def _attempt(request: Request, model: Captioner, photo: str) -> ImageRegions | RegionTalkError:
    try:
        return request.ask(model, photo)
    except (InputError, UsageError) as error:
        return error


def _in_order(
    work: Callable[[str], ImageRegions | RegionTalkError], photos: Iterable[str], workers: int
) -> Iterator[ImageRegions | RegionTalkError]:
    """`work` done in threads, a few photos ahead; results in the photos' order."""
    pool = ThreadPoolExecutor(workers)
    under_way: deque[Future[ImageRegions | RegionTalkError]] = deque()
    try:
        for photo in photos:
            under_way.append(pool.submit(work, photo))
            if len(under_way) >= AHEAD * workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _put_all(results: Iterable[ImageRegions | RegionTalkError], put: outputs.Put, photos: int) -> int:
    """Hands results on and names what failed; how many did. Fails itself where nothing is left."""
    failed = 0
    for result in results:
        if isinstance(result, ImageRegions):
            put(result)
            continue
        failed += 1
        if photos == 1:
            raise result
        hint = f"  ({result.hint})" if result.hint else ""
        console.message(f"regiontalk: skipped {result.message}{hint}")
    if failed == photos:
        raise InputError(f"none of {photos} photos could be captioned")
    return failed
