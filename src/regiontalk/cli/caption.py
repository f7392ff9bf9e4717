"""`regiontalk caption`: the regions of photos with captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli.boxes_option import GivenBoxes, read_boxes
from regiontalk.cli.each_photo import PhotoOptions, Request, format_option, photo_options
from regiontalk.cli.options import cluster_options, probability_option
from regiontalk.errors import UsageError
from regiontalk.images.paths import STDIN
from regiontalk.results import AltText, ImageRegions, Shown

if TYPE_CHECKING:
    from regiontalk.images.photo import PhotoSource
    from regiontalk.model import Model

DOING = ("Captioning", "captioned")
NOT_WITH_ALT = ("boxes", "proposals", "beam", "words", "confidence")
NOT_WITH_BOXES = ("top", "threshold", "proposals", "confidence")


@click.command()
@click.option(
    "--top",
    type=click.IntRange(min=1),
    help="Regions per photo. Default: 12; all with --json or --format.",
)
@probability_option("--threshold", "Leave out regions with a lower score.")
@click.option(
    "--proposals",
    type=click.IntRange(1, 10_000),
    help="Region proposals to examine. Default: the model's.",
)
@click.option(
    "--beam",
    type=click.IntRange(1, 100),
    help="Beam width of the caption search. Default: 1 (greedy).",
)
@click.option(
    "--words",
    type=int,
    metavar="N",
    help="Captions of at most N words. Default: the model chooses.",
)
@probability_option(
    "--confidence",
    "Leave out less certain captions. Default: the model's; 0 with --json or --format.",
)
@click.option(
    "--boxes",
    "given_boxes",
    metavar='FILE|"x0,y0,x1,y1;…"',
    help="Caption these boxes instead of detecting regions.",
)
@format_option
@click.option(
    "--alt",
    is_flag=True,
    help="Write alt texts: a sentence if the model is sure of it, else the sure regions.",
)
@cluster_options
@photo_options
def command(
    *, asked: PhotoOptions, given_boxes: str | None, export: str | None, alt: bool, **options: Any
) -> None:
    """Find the regions of photos and caption each one.

    On a terminal you get a table. A pipe gets one line per region: path, score, caption, box and,
    if the model has fitted confidences, confidence, separated by tabs. If a run with -o is stopped,
    the same command continues where it stopped.

    --boxes gives boxes as left, top, right, bottom in pixels. If all numbers are between 0 and 1,
    they are fractions of the photo's width and height.

    --format xmp writes an XMP sidecar for each photo, next to the photo or into the folder of -o.
    Photo managers show it as description, alt text and regions; with --alt it has no regions. An
    existing sidecar is kept and added to.
    """
    wanted = asked.wanted(export)
    if alt and export not in (None, "csv", "xmp"):
        raise UsageError(
            "--alt gives texts without regions", hint="--json, --format csv, --format xmp"
        )
    if alt or wanted.kind == "sidecars":
        _refuse(
            NOT_WITH_ALT,
            {"boxes": given_boxes, **options},
            f"cannot be used with {'--alt' if alt else '--format xmp'}",
        )
        asked.answer(_alt_request(alt, asked.given(options)), asked.find(wanted), wanted)
        return
    boxes = None
    if given_boxes is not None:
        _refuse(NOT_WITH_BOXES, options, "cannot be used with --boxes")
        boxes = read_boxes(given_boxes)
    elif not wanted.is_data:
        options["top"] = options["top"] or Shown.top
    photos = asked.find(wanted)
    if boxes is not None:
        boxes.check(photos.paths)
    asked.answer(_caption_request(asked.given(options), boxes), photos, wanted)


def _refuse(names: Sequence[str], options: Mapping[str, Any], reason: str) -> None:
    for name in names:
        if options[name] is not None:
            raise UsageError(f"--{name} {reason}")


def _caption_request(options: dict[str, Any], boxes: GivenBoxes | None) -> Request:
    def ask(model: Model, photo: PhotoSource) -> ImageRegions:
        if boxes is None:
            return model(photo, **options)
        name = photo if isinstance(photo, str) else STDIN
        given = boxes.of(name)
        try:
            return model(photo, boxes=given, **options)
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", hint=error.hint) from error

    asked = {"verb": "caption", **options, "boxes": repr(boxes)}
    return Request(
        ask,
        asked,
        *DOING,
        lambda model: model.check(options.get("words"), options.get("confidence")),
    )


def _alt_request(alt: bool, options: dict[str, Any]) -> Request:
    """Texts for screen readers; sidecars without --alt have regions too."""

    def ask(model: Model, photo: PhotoSource) -> AltText:
        found = model.alt_text(photo, **options)
        return replace(found, regions=()) if alt else found

    return Request(ask, {"verb": "caption", "alt": alt, **options}, *DOING)
