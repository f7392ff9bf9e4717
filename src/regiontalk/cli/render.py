"""Results for the terminal."""

from __future__ import annotations

from dataclasses import replace

from rich.table import Table
from rich.text import Text

from regiontalk.cli import console
from regiontalk.drawing import PALETTE
from regiontalk.errors import one_line
from regiontalk.types import Description, ImageRegions, Sentence


def print_result(photo: ImageRegions | Description) -> None:
    """A table of a photo's regions or sentences."""
    heading = Text(one_line(photo.path), style="bold")
    heading.append(f"  {photo.width}×{photo.height}", style="not bold dim")
    console.out().print(heading)
    if isinstance(photo, ImageRegions):
        _print_regions(photo)
    else:
        _print_sentences(photo)


def _print_sentences(photo: Description) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for said in (Sentence(photo.sentence, photo.logprob), *photo.alternatives):
        table.add_row(f"{said.logprob:.2f}", Text(one_line(said.sentence)))
    console.out().print(table)


def _print_regions(photo: ImageRegions) -> None:
    """The squares are the colours that the regions have in drawn pictures and on the page."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", style="dim", no_wrap=True)
    shown = replace(photo.shown, threshold=0.0, top=None).choose(photo.regions)
    for number, region in enumerate(shown):
        key = Text("■", style="rgb({},{},{})".format(*PALETTE[number % len(PALETTE)]))
        box = " ".join(f"{side:.0f}" for side in region.xyxy)
        figures = box if region.confidence is None else f"{region.confidence:.2f}  {box}"
        table.add_row(key, f"{region.score:.2f}", Text(one_line(region.caption)), figures)
    if shown:
        console.out().print(table)
    if not photo.regions:
        console.out().print(Text("  nothing found", style="dim"))
    if hidden := len(photo.regions) - len(shown):
        console.out().print(Text(f"  {hidden} more, less likely right: --confidence 0 shows all", style="dim"))
