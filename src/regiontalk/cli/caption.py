"""`regiontalk caption`: the regions of photos, and what is said of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli import outputs
from regiontalk.cli.boxes_option import GivenBoxes, read_boxes
from regiontalk.cli.each_photo import Doing, PhotoOptions, photo_options
from regiontalk.cli.options import finite
from regiontalk.data import exports
from regiontalk.errors import UsageError
from regiontalk.types import ImageRegions

if TYPE_CHECKING:
    from regiontalk.model import Model

TOP_FOR_PEOPLE = 12  # regions of a photo in tables, pictures and pages: each still has a colour of its own


@dataclass(frozen=True)
class Request:
    """What is asked of the model for every photo."""

    options: dict[str, Any]
    boxes: GivenBoxes | None

    def check(self, model: Model) -> None:
        """Says before any work what the model cannot be asked for."""
        model.check(self.options.get("words"), self.options.get("confidence"))

    def ask(self, model: Model, photo: str) -> ImageRegions:
        if self.boxes is None:
            return model(photo, **self.options)
        boxes = self.boxes.of(photo)
        try:
            return model(photo, boxes=boxes, **self.options)
        except UsageError as error:
            raise UsageError(f"{photo}: {error.message}", hint=error.hint) from error


@click.command()
@click.option("--top", type=click.IntRange(min=1), help="Regions of a photo; default 12, with --json or --format all.")
@click.option(
    "--threshold", type=click.FloatRange(0, 1), callback=finite, help="Leave out regions that score less (0 to 1)."
)
@click.option(
    "--proposals", type=click.IntRange(1, 10_000), help="Proposals that are recognised; default: the model's."
)
@click.option("--size", type=click.IntRange(16, 4096), help="Long side the photo is resized to; default: the model's.")
@click.option("--beam", type=click.IntRange(1, 100), help="Beam width for captions; default 1, greedy.")
@click.option(
    "--words", type=int, metavar="N", help="Captions of N words, or fewer where it is unsure; default: it chooses."
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1),
    callback=finite,
    help="Leave out captions less likely right (0 to 1); default: the model's, with --json or --format 0.",
)
@click.option("--boxes", "given_boxes", metavar='FILE|"x0,y0,x1,y1;…"', help="Caption these boxes (pixels).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="page.html, a folder for annotated pictures, one picture, .json/.jsonl/.csv; a folder for --format yolo.",
)
@click.option("--format", "export", type=click.Choice(exports.FORMATS), help="The data in another program's format.")
@photo_options
def command(
    *,
    asked: PhotoOptions,
    top: int | None,
    given_boxes: str | None,
    output: Path | None,
    export: str | None,
    **options: Any,
) -> None:
    """The regions of photos, and what is said of each.

    PATH is a photo, a folder (with all below it), a pattern such as 'trip/**/*.jpg', or - for paths on stdin,
    one a line or separated by NUL. A photo that cannot be read is named and skipped.
    """
    wanted = outputs.Wanted(output, asked.as_json, export)
    boxes = _given_boxes(given_boxes, top, options) if given_boxes is not None else None
    if boxes is None:
        options["top"] = top or (None if wanted.is_data else TOP_FOR_PEOPLE)
    photos = asked.find(wanted)
    if boxes is not None:
        boxes.check(photos.paths)
    request = Request({name: value for name, value in options.items() if value is not None}, boxes)
    asked.answer(request.ask, photos, wanted, Doing("Captioning", "captioned"), request.check)


def _given_boxes(given: str, top: int | None, options: dict[str, Any]) -> GivenBoxes:
    for name, value in {"top": top, **options}.items():
        if value is not None and name in ("top", "threshold", "proposals", "confidence"):
            raise UsageError(f"--{name} chooses between regions that were found: it does not go with --boxes")
    return read_boxes(given)
