"""`regiontalk search`: finds photos by their content."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regiontalk.cli import console, outputs
from regiontalk.cli.boxes_option import read_boxes
from regiontalk.cli.index import check_one_place, place_option, store_option
from regiontalk.cli.options import (
    PLACE,
    Book,
    completes,
    device_option,
    load_model,
    model_option,
    probability_option,
    words_book_option,
)
from regiontalk.errors import UsageError
from regiontalk.results import NOT_SURE, BoxXYXY, Hit, Hits, Region

if TYPE_CHECKING:
    from regiontalk.search.index import Index

MOST_LIKELY_SHOWN = 10
FEWEST_SHOWN = 5  # photos that are shown by default even if they are less likely


@click.command()
@click.argument("arguments", nargs=-1, metavar="[PHRASE] [DIR]", shell_complete=completes("dir"))
@click.option(
    "--top",
    type=click.IntRange(min=1),
    help="Show this many photos. Default: at most 10 likely ones.",
)
@click.option("--all", "show_all", is_flag=True, help="Show all photos, the best first.")
@probability_option("--threshold", "Leave out photos with a lower score.")
@click.option(
    "--since",
    default="",
    metavar="DATE",
    help="Only photos taken since: 2021, 2021-05 or 2021-05-30.",
)
@click.option("--until", default="", metavar="DATE", help="Only photos taken up to this date.")
@click.option(
    "--like",
    type=click.Path(),
    metavar="PHOTO",
    help="Instead of PHRASE: find photos that look like this.",
)
@click.option(
    "--box",
    metavar='"x0,y0,x1,y1"',
    help="With --like: only this part of it, in pixels or fractions.",
)
@click.option("--as-typed", is_flag=True, help="Correct no typing mistakes, and take no synonyms.")
@place_option
@store_option
@model_option
@device_option
@words_book_option
@click.option(
    "-o",
    "--output",
    type=PLACE,
    help="Write the results to a page (.html), or to a folder of pictures.",
)
@click.option("--force", is_flag=True, help="Replace files at -o that regiontalk did not write.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, one photo per line.")
@click.option("-q", "--quiet", is_flag=True, help="Show no messages.")
def command(
    *,
    arguments: tuple[str, ...],
    like: str | None,
    box: str | None,
    place: Path | None,
    store: str | None,
    model: Path | None,
    device: str,
    words_book: Book | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    top: int | None,
    show_all: bool,
    threshold: float | None,
    since: str,
    until: str,
    as_typed: bool,
) -> None:
    """Find photos in DIR (default: the current folder) that show what PHRASE says.

    Index the folder first (`regiontalk index`). The index of DIR is used, or that of its nearest
    parent folder. With --store, all photos of the database are searched, or those below DIR.

    \b
    "a dog; a red ball"       both in one photo
    "a beach -people"         a beach without people
    "a beach -\\"palm trees\\""  the same with several words
    "\\"bycicle\\""              a word as it is typed, not corrected

    It reads English. Typing mistakes are corrected, and words that the model does not know are read
    as others that mean about the same; a message says so.

    The score is the probability that the photo shows what you asked for. The result says which
    region each word of the phrase matched. Likely photos come first; if there are few, some less
    likely ones follow."""
    query, folder = _split(arguments, like, box)
    if show_all and top is not None:
        raise UsageError("--all and --top exclude each other")
    wishes = outputs.Wanted(output, as_json, force=force)
    if wishes.kind not in ("", "page", "pictures"):
        raise UsageError(
            f"{output}: a page (.html) or a folder for pictures", hint="--json gives data"
        )
    index, below = _find_index(folder, place, store, model, device, words_book)
    most = (len(index) or 1) if show_all else top or MOST_LIKELY_SHOWN
    dates = {"since": since, "until": until}
    if like is None:
        hits = index.search(
            query, top=most, folder=below, threshold=threshold, as_typed=as_typed, **dates
        )
    else:
        hits = index.like(like, _one_box(box, like), top=most, folder=below, **dates)
    index.close()
    if top is None and not show_all and threshold is None:
        hits = replace(hits, hits=hits.hits[: max(len(hits.likely), FEWEST_SHOWN)])
    _show(hits, wishes, quiet)
    _notes(hits, quiet)


def _one_box(box: str | None, photo: str) -> BoxXYXY | None:
    if box is None:
        return None
    boxes = read_boxes(box).of(photo)
    if len(boxes) != 1:
        raise UsageError(f"--box: {len(boxes)} boxes; give one")
    return boxes[0]


def _split(arguments: tuple[str, ...], like: str | None, box: str | None) -> tuple[str, str]:
    """The phrase and the folder."""
    if box is not None and like is None:
        raise UsageError("--box needs a photo", hint="give it with --like PHOTO")
    words = arguments if like is None else ("", *arguments)
    if not 1 <= len(words) <= 2:
        expected = "a phrase and perhaps a folder" if like is None else "at most a folder"
        raise UsageError(
            f"{expected}, not {len(arguments)} arguments",
            hint='a phrase of several words needs quotes: "…"',
        )
    return words[0], words[1] if len(words) == 2 else ""


def _find_index(
    folder: str,
    place: Path | None,
    store: str | None,
    model: Path | None,
    device: str,
    words_book: Book | None,
) -> tuple[Index, str]:
    """The index, and the folder's path in it."""
    from regiontalk.search.index import Index

    # without --model, the index says which of the package's models it is
    loaded = None
    if model is not None or device == "cuda":
        loaded = load_model(model, device, lazily=True, words_book=words_book)
    check_one_place(place, store)
    below = ""
    if store is not None:
        index = Index.open(folder or "/", model=loaded, store=store)
    elif place is not None:
        index = Index.open(folder or ".", model=loaded, place=place)
    else:
        index, below = Index.around(folder or ".", model=loaded)
    index.words_book = True if words_book is None else words_book
    return index, below


def _show(hits: Hits, wishes: outputs.Wanted, quiet: bool) -> None:
    if wishes.kind:
        with outputs.opening(wishes, [hit.path for hit in hits]) as put:
            for hit in hits:
                put(hit)
    elif wishes.as_json:
        for hit in hits:
            console.print_json(hit.to_dict())
    else:
        _print(hits.likely)
        if less_likely := [hit for hit in hits if not hit.likely]:
            console.message("less likely:", quiet)
            _print(less_likely)


def _print(hits: Sequence[Hit]) -> None:
    columns = ("photo", "score", "found")
    rows: list[tuple[str, ...]] = [(hit.path, *_cells(hit)) for hit in hits]
    if not sys.stdout.isatty():
        rows = [
            (*row, "likely" if hit.likely else "less likely")
            for row, hit in zip(rows, hits, strict=True)
        ]
    console.print_rows(columns, rows)


def _cells(hit: Hit) -> tuple[str, str]:
    """Score, and for each region its caption, after the words that match it if there are any."""
    captions = [_caption(hit, region) for region in hit.regions]
    if hit.words:
        pairs = zip(hit.labels(), captions, strict=True)
        captions = [f"{label} ({caption})" for label, caption in pairs]
    return f"{hit.score:.2f}", "; ".join(captions)


def _caption(hit: Hit, region: Region) -> str:
    if not region.caption:
        return "the whole photo"
    return region.caption if hit.is_sure(region) else f"{region.caption}, {NOT_SURE}"


def _notes(hits: Hits, quiet: bool) -> None:
    for note in hits.notes:
        console.message(note, quiet)
    if not hits.searched:
        if not hits.notes:
            console.message("no photo to search", quiet)
    elif not hits.likely:
        best = "" if hits.closest is None else f"; the best score is {hits.closest:.2f}"
        console.message(f"no likely match in {console.count(hits.searched, 'photo')}{best}", quiet)
