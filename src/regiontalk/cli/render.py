"""Results as tables for a terminal, and as lines for a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.table import Table
from rich.text import Text

from regiontalk.cli import console
from regiontalk.errors import one_line
from regiontalk.results import (
    Alignment,
    AltText,
    BoxXYXY,
    Description,
    Finding,
    ImageRegions,
    Region,
    Sentence,
)
from regiontalk.show.drawing import PALETTE


def print_lines(photo: ImageRegions | Description | AltText) -> None:
    """A line for each region, sentence or text, separated by tabs: the photo's path first, a
    confidence last."""
    if isinstance(photo, ImageRegions):
        rows = [
            [f"{one.score:.2f}", one.caption, _box(one.xyxy), *_confidence(one)]
            for one in _likely(photo)
        ]
    elif isinstance(photo, Description):
        rows = [[f"{one.logprob:.2f}", one.sentence] for one in _sentences(photo)]
    else:
        rows = [[photo.text]]
    for row in rows:
        console.print_line(photo.path, *row)


def print_result(photo: ImageRegions | Description | AltText) -> None:
    """A table of a photo's regions or sentences, or its alt text."""
    heading = Text(one_line(photo.path), style="bold")
    heading.append(f"  {photo.width}×{photo.height}", style="not bold dim")
    console.out().print(heading)
    if isinstance(photo, ImageRegions):
        _print_regions(photo)
    elif isinstance(photo, Description):
        _print_sentences(photo)
    else:
        console.out().print(Text(one_line(photo.text)))


def print_alignment(found: Alignment) -> None:
    """Score, words and box of each segment."""
    rows = [(f"{one.score:.2f}", one.text, _box(one.xyxy)) for one in found.segments]
    console.print_rows(("score", "words", "x0,y0,x1,y1"), rows, found.path)


def print_findings(found: Sequence[Finding]) -> None:
    """Path, score, phrase, caption and box of each region."""
    rows = [
        (one.path, f"{region.score:.2f}", one.phrase, region.caption, _box(region.xyxy))
        for one in found
        for region in one.regions
    ]
    console.print_rows(("photo", "score", "phrase", "caption", "x0,y0,x1,y1"), rows)


def _likely(photo: ImageRegions) -> list[Region]:
    """The regions shown in pictures; without a limit on the confidence, all regions."""
    threshold = photo.shown.threshold if photo.shown.confidence else 0.0
    return replace(photo.shown, threshold=threshold, top=None).at_first(photo.regions)


def _confidence(region: Region) -> list[str]:
    return [] if region.confidence is None else [f"{region.confidence:.2f}"]


def _sentences(photo: Description) -> tuple[Sentence, ...]:
    return Sentence(photo.sentence, photo.logprob), *photo.alternatives


def _box(box_xyxy: BoxXYXY) -> str:
    """In the format of --boxes."""
    return ",".join(f"{side:.0f}" for side in box_xyxy)


def _print_sentences(photo: Description) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for said in _sentences(photo):
        table.add_row(f"{said.logprob:.2f}", Text(one_line(said.sentence)))
    console.out().print(table)


def _print_regions(photo: ImageRegions) -> None:
    """The squares are the colours that the regions have in drawn pictures and on the page."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", style="dim", no_wrap=True)
    shown = _likely(photo)
    for number, region in enumerate(shown):
        key = Text("■", style="rgb({},{},{})".format(*PALETTE[number % len(PALETTE)]))
        figures = "  ".join([*_confidence(region), _box(region.xyxy)])
        table.add_row(key, f"{region.score:.2f}", Text(one_line(region.caption)), figures)
    if shown:
        console.out().print(table)
    if not photo.regions:
        console.out().print(Text("  nothing found", style="dim"))
    if hidden := len(photo.regions) - len(shown):
        console.out().print(
            Text(f"  {hidden} more, less likely: --confidence 0 shows all", style="dim")
        )
