"""Results as tables for a terminal, and as lines for a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from regiontalk.cli import console
from regiontalk.errors import one_line
from regiontalk.results import (
    NOT_SURE,
    Alignment,
    AltText,
    BoxXYXY,
    Description,
    Finding,
    ImageRegions,
    Region,
    Tags,
)
from regiontalk.show.drawing import GREY, PALETTE

SURE = "sure"


def print_lines(photo: ImageRegions | Description | AltText | Tags) -> None:
    """A line for each region, sentence or text, separated by tabs: the photo's path first, and last
    whether the model is sure."""
    if isinstance(photo, ImageRegions):
        rows = [
            [*_cells(region), SURE if photo.is_sure(region) else NOT_SURE]
            for region in photo.likely
        ]
    elif isinstance(photo, Description):
        rows = [
            [f"{sentence.logprob:.2f}", sentence.sentence, SURE if sentence.sure else NOT_SURE]
            for sentence in photo.sentences
        ]
    else:
        rows = [[_text(photo)]]
    for row in rows:
        console.print_line(photo.path, *row)


def print_result(photo: ImageRegions | Description | AltText | Tags) -> None:
    """A table of a photo's regions or sentences, or its alt text or keywords."""
    heading = Text(one_line(photo.path), style="bold")
    heading.append(f"  {photo.width}×{photo.height}", style="not bold dim")
    console.out().print(heading)
    if isinstance(photo, ImageRegions):
        _print_regions(photo)
    elif isinstance(photo, Description):
        _print_sentences(photo)
    else:
        console.out().print(Text(one_line(_text(photo))))


def _text(photo: AltText | Tags) -> str:
    return photo.text if isinstance(photo, AltText) else ", ".join(photo.keywords)


def print_alignment(alignment: Alignment) -> None:
    """Score, words and box of each segment."""
    rows = [
        (f"{segment.score:.2f}", segment.text, _box(segment.xyxy)) for segment in alignment.segments
    ]
    console.print_rows(("score", "words", "x0,y0,x1,y1"), rows, alignment.path)


def print_findings(findings: Sequence[Finding]) -> None:
    """Path, score, phrase, caption and box of each region."""
    rows = []
    for finding in findings:
        for region in finding.regions:
            hedge = "" if finding.is_sure(region) else f" ({NOT_SURE})"
            caption = f"{region.caption}{hedge}"
            score = f"{region.score:.2f}"
            rows.append((finding.path, score, finding.phrase, caption, _box(region.xyxy)))
    console.print_rows(("photo", "score", "phrase", "caption", "x0,y0,x1,y1"), rows)


def _cells(region: Region) -> list[str]:
    """Score, caption, box, and the confidence, which is empty if the model has none."""
    confidence = "" if region.confidence is None else f"{region.confidence:.2f}"
    return [f"{region.score:.2f}", region.caption, _box(region.xyxy), confidence]


def _hedged(text: str, sure: bool) -> Text:
    """Grey, and it says so, if the model is not sure."""
    line = Text(one_line(text))
    if not sure:
        line.append(f"  {NOT_SURE}")
        line.stylize("dim")
    return line


def _box(box_xyxy: BoxXYXY) -> str:
    """A box in the format of --boxes."""
    return ",".join(f"{side:.0f}" for side in box_xyxy)


def _print_sentences(photo: Description) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for sentence in photo.sentences:
        table.add_row(f"{sentence.logprob:.2f}", _hedged(sentence.sentence, sentence.sure))
    console.out().print(table)


def _print_regions(photo: ImageRegions) -> None:
    """The squares are the colours that the regions have in drawn pictures and on the page."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", style="dim", no_wrap=True)
    shown = photo.likely
    for number, region in enumerate(shown):
        sure = photo.is_sure(region)
        colour = "rgb({},{},{})".format(*(PALETTE[number % len(PALETTE)] if sure else GREY))
        score, caption, box, confidence = _cells(region)
        figures = f"{confidence}  {box}".lstrip()
        table.add_row(Text("■", style=colour), score, _hedged(caption, sure), figures)
    if shown:
        console.out().print(table)
    if not photo.regions:
        console.out().print(Text("  nothing found", style="dim"))
    if hidden := len(photo.regions) - len(shown):
        console.out().print(Text(f"  {hidden} more, less likely: --all shows all", style="dim"))
