"""`regiontalk caption`: the regions of photos with captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli.boxes_option import GivenBoxes, read_boxes
from regiontalk.cli.each_photo import PhotoOptions, Request, format_option, photo_options
from regiontalk.cli.names_option import names_option, read_names
from regiontalk.cli.options import cluster_options, probability_option
from regiontalk.cli.outputs import VTT, XMP, Wanted
from regiontalk.errors import UsageError
from regiontalk.images.paths import STDIN
from regiontalk.results import AltText, ImageRegions, Tags

if TYPE_CHECKING:
    from regiontalk.images.photo import PhotoSource
    from regiontalk.model import Model

DOING = ("Captioning", "captioned")
LIKELY = "likely"
ALL = "all"
NOT_WITH_TEXTS = ("boxes", "proposals", "beam", "words")
NOT_WITH_BOXES = ("top", "threshold", "proposals", "confidence")
NO_LIMITS = {"top": 10_000, "threshold": 0.0, "confidence": 0.0}


@click.command()
@click.option(
    "--top",
    type=click.IntRange(min=1),
    help="Regions per photo. Default: 12; all with --all or --json.",
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
    "Leave out less certain captions. Default: the model's; 0 with --all or --json.",
)
@click.option(
    "--likely",
    "part",
    flag_value=LIKELY,
    help="Only the likely regions. Default, except for --json, which marks them as shown.",
)
@click.option("--all", "part", flag_value=ALL, help="All regions, with those that are not sure.")
@click.option(
    "--boxes",
    "given_boxes",
    metavar='FILE|"x0,y0,x1,y1;…"',
    help="Caption these boxes instead of detecting regions.",
)
@names_option
@format_option
@click.option(
    "--alt",
    is_flag=True,
    help="Write alt texts: a sentence if the model is sure of it, else the sure regions.",
)
@click.option(
    "--tags", is_flag=True, help="Write keywords: the nouns and names that the model is sure of."
)
@cluster_options
@photo_options
def command(
    *,
    given_boxes: str | None,
    names_file: Path | None,
    export: str | None,
    part: str | None,
    alt: bool,
    tags: bool,
    **options: Any,
) -> None:
    """Find the regions of photos and caption each one.

    On a terminal you get a table. A pipe gets one line per region, with tabs between path, score,
    caption, box, confidence (empty if the model has none) and "sure" or "not sure". With --alt it
    is one line per photo, path and text; with --tags path and keywords. If a run with -o is
    stopped, the same command continues where it stopped.

    Tables, pictures, CSV and --format have the likely regions; --json and pages have all of them,
    and say which are likely. If no region of a photo is likely, the likeliest one is shown as "not
    sure".

    --boxes gives boxes as left, top, right, bottom in pixels. If all numbers are between 0 and 1,
    they are fractions of the photo's width and height.

    --names FILE calls things by your own names, one on each line of FILE. Regions that show none of
    them keep their captions, but get no name. With --tags, only these names become keywords.

    --format xmp writes an XMP sidecar for each photo, next to the photo or into the folder of -o.
    Photo managers show it as description, alt text, keywords and regions. Keywords and regions are
    those that are sure. With --alt it has the texts alone, with --tags the keywords alone. An
    existing sidecar is kept and added to.
    """
    shared = PhotoOptions.take(options)
    wanted = shared.wanted(export)
    if names_file is not None:
        options["names"] = read_names(names_file, shared)
    if alt or tags or wanted.kind == "sidecars":
        _check_texts(wanted, {"boxes": given_boxes, **options}, part, alt, tags)
        if part == ALL:
            options = NO_LIMITS | {
                name: value for name, value in options.items() if value is not None
            }
        shared.answer(
            _texts_request(wanted, alt, tags, shared.given(options)), shared.find(wanted), wanted
        )
        return
    boxes = None
    if given_boxes is not None:
        _refuse(NOT_WITH_BOXES, options, "cannot be used with --boxes")
        if part is not None:
            raise UsageError(f"--{part} cannot be used with --boxes: every box is in the answer")
        boxes = read_boxes(given_boxes)
    elif part is None and wanted.is_of_others:
        part = LIKELY
    photos = shared.find(wanted)
    if boxes is not None:
        boxes.check(photos.paths)
    shared.answer(_caption_request(shared.given(options), boxes, part), photos, wanted)


def _check_texts(
    wanted: Wanted, options: Mapping[str, Any], part: str | None, alt: bool, tags: bool
) -> None:
    """Refuses what does not go with alt texts, keywords and sidecars."""
    is_sidecar = wanted.kind == "sidecars"
    option = "--alt" if alt else "--tags" if tags else "--format xmp"
    _refuse(NOT_WITH_TEXTS, options, f"cannot be used with {option}")
    if (alt or tags) and part is not None:
        raise UsageError(f"--{part} cannot be used with {option}, which has no regions")
    if alt and tags and not is_sidecar:
        raise UsageError("--alt and --tags only go together with --format xmp")
    if (alt and wanted.export not in (None, "csv", VTT, XMP)) or (tags and wanted.is_of_others):
        more = "--format csv, --format vtt, " if alt else ""
        formats = f"--json, {more}--format xmp"
        raise UsageError(f"{option} gives texts without regions", hint=formats)


def _refuse(names: Sequence[str], options: Mapping[str, Any], reason: str) -> None:
    for name in names:
        if options[name] is not None:
            raise UsageError(f"--{name} {reason}")


def _caption_request(
    options: dict[str, Any], boxes: GivenBoxes | None, part: str | None
) -> Request:
    def ask(model: Model, photo: PhotoSource) -> ImageRegions:
        if boxes is None:
            return _only(part, model(photo, **options))
        name = photo if isinstance(photo, str) else STDIN
        own_boxes = boxes.of(name)
        try:
            return model(photo, boxes=own_boxes, **options)
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", hint=error.hint) from error

    call = {"verb": "caption", **options, "boxes": repr(boxes), "part": part}
    return Request(
        ask,
        call,
        *DOING,
        lambda model: model.check(options.get("words"), options.get("confidence")),
    )


def _only(part: str | None, photo: ImageRegions) -> ImageRegions:
    """The photo with its likely regions alone, or with all of them shown."""
    if part == LIKELY:
        return replace(photo, regions=photo.likely)
    if part == ALL:
        return replace(photo, shown=replace(photo.shown, threshold=0.0, top=None, confidence=0.0))
    return photo


def _texts_request(wanted: Wanted, alt: bool, tags: bool, options: dict[str, Any]) -> Request:
    """Alt texts or keywords; or what goes into a sidecar."""
    is_sidecar = wanted.kind == "sidecars"

    def ask(model: Model, photo: PhotoSource) -> AltText | Tags:
        if tags and not is_sidecar:
            return model.tags(photo, **options)
        alt_text = model.alt_text(photo, **options)
        if not alt and not tags:
            return alt_text
        return replace(
            alt_text,
            text=alt_text.text if alt else "",
            regions=(),
            tags=alt_text.tags if tags else (),
        )

    call = {"verb": "caption", "alt": alt, "tags": tags, **options}
    return Request(ask, call, *DOING, lambda model: model.check(None, options.get("confidence")))
