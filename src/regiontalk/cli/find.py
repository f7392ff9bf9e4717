"""`regiontalk find`: the regions that show what a phrase says, in one photo or many."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli import console, outputs, render
from regiontalk.cli.each_photo import PhotoOptions, format_option, photo_options, put_all
from regiontalk.cli.options import heads_option, probability_option
from regiontalk.errors import IndexProblem, ModelError, SkippedInputs, UsageError
from regiontalk.images.paths import Photos, attempts
from regiontalk.images.photo import Photo
from regiontalk.results import Finding, ImageRegions, Region, Shown, likeliest_first

if TYPE_CHECKING:
    from regiontalk.model import Model

Findings = tuple[Finding, ...]
"""The findings of one photo, one for each phrase."""

MOST_PHRASES = 100


@click.command()
@click.argument("phrase")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    help="Regions per photo and phrase. Default: all likely ones.",
)
@probability_option(
    "--threshold", "Leave out less likely regions. Default: the model's. 0 always shows the best."
)
@format_option
@click.option(
    "--look-again",
    is_flag=True,
    help="Process photos again even if they are indexed: slower, but more accurate.",
)
@heads_option
@photo_options
def command(*, phrase: str, export: str | None, look_again: bool, **options: Any) -> None:
    """Find the regions of photos that show what PHRASE says; the best photos come first.

    \b
    "a red umbrella"      one phrase
    "a dog; a red ball"   several phrases, each searched for separately

    The score is the probability that the region shows the phrase. If no region of a photo is likely
    enough, the phrase is reported as absent. In a folder with an index (`regiontalk index`), the
    index is used.

    --json prints a line for each photo and phrase. In pictures, pages and --format, the phrases are
    the captions, so --format can be used to label photos."""
    phrases = [part.strip() for part in phrase.split(";") if part.strip()]
    if not phrases:
        raise UsageError("no phrase to look for", hint='for example: "a dog"')
    if len(phrases) > MOST_PHRASES:
        raise UsageError(f"{len(phrases)} phrases; the limit is {MOST_PHRASES}")
    shared = PhotoOptions.take(options)
    wanted = shared.wanted(export)
    if wanted.kind == "sidecars":
        raise UsageError(
            "--format xmp describes whole photos", hint="regiontalk caption --format xmp"
        )
    photos = shared.find(wanted)
    chosen = shared.given(options)
    with outputs.opening(replace(wanted, as_json=False), photos.paths) as put:
        findings = _look(shared, photos, phrases, chosen, look_again)
        _show(findings, wanted, put)
    _notes(findings, phrases, shared.quiet)
    skipped = len(photos.paths) - len(findings) + len(photos.skipped)
    if shared.strict and skipped:
        raise SkippedInputs(f"{skipped} skipped, and --strict was given")


def _look(
    shared: PhotoOptions,
    photos: Photos,
    phrases: Sequence[str],
    options: dict[str, Any],
    look_again: bool,
) -> list[Findings]:
    """The findings of every photo that could be read, the likeliest first."""
    findings = list[Findings]()
    model = shared.load_model() if photos.can_be_opened(shared.limits) else None
    known = {}
    if model is not None:
        model.find(
            [], phrases, **options
        )  # errors in the phrases are reported before a photo is opened
        known = (
            {}
            if look_again or shared.size is not None
            else _from_indexes(shared, model, phrases, options)
        )

    def ask(path: str) -> Findings:
        if model is None:
            Photo(photos.source(path), shared.limits).check()
            return ()
        place = os.path.abspath(path)  # noqa: PTH100
        answers = (
            known[place] if place in known else model.find(photos.source(path), phrases, **options)
        )
        return tuple(replace(finding, path=path) for finding in answers)

    count = len(photos.paths)
    watched = console.track(
        attempts(shared.timed(ask), photos.paths, shared.workers),
        "Looking",
        count,
        shared.quiet or count == 1,
    )
    put_all(watched, findings.append, count, "looked at")
    return sorted(findings, key=likeliest_first)


def _from_indexes(
    shared: PhotoOptions, model: Model, phrases: Sequence[str], options: dict[str, Any]
) -> dict[str, Findings]:
    """Absolute path -> the findings of photos in indexed folders, from their index."""
    from regiontalk.search.index import Index

    known = {}
    for folder in (path for path in shared.paths if os.path.isdir(path)):  # noqa: PTH112
        index, below = Index.around(folder, model=model)
        try:
            for findings in index.find(phrases, folder=below, **options):
                known[os.path.abspath(findings[0].path)] = findings  # noqa: PTH100
        except (IndexProblem, ModelError) as problem:
            if index.place.exists():
                console.message(f"without the index: {problem.message}", shared.quiet)
        finally:
            index.close()
    return known


def _show(every_photo: Sequence[Findings], wanted: outputs.Wanted, put: outputs.Put) -> None:
    every = list(itertools.chain.from_iterable(every_photo))
    if wanted.as_json and wanted.kind != "data":
        for finding in every:
            console.print_json(finding.to_dict())
    elif not wanted.kind and wanted.export is None:
        render.print_findings(every)
    if wanted.holds_json:
        for finding in every:
            put(finding)
    elif wanted.kind or wanted.export:
        for photo in map(to_labels, every_photo):
            if photo.regions or wanted.is_data or wanted.kind == "picture":
                put(photo)


def _notes(every_photo: Sequence[Findings], phrases: Sequence[str], quiet: bool) -> None:
    if not every_photo:
        return
    notes = itertools.chain.from_iterable(finding.notes for finding in every_photo[0])
    for note in dict.fromkeys(notes):
        console.message(note, quiet)
    for number, phrase in enumerate(phrases):
        here = sum(findings[number].here for findings in every_photo)
        if not here:
            nearest = max(findings[number].closest for findings in every_photo)
            where = "" if len(every_photo) == 1 else f" in any of {len(every_photo)} photos"
            console.message(f"{phrase}: not found{where}; the best score is {nearest:.2f}", quiet)
        elif len(every_photo) > 1:
            console.message(f"{phrase}: in {here} of {len(every_photo)} photos", quiet)


def to_labels(findings: Findings) -> ImageRegions:
    """The regions found in a photo, with the phrases as captions."""
    first = findings[0]
    regions: list[Region] = []
    for finding in findings:
        phrase = finding.phrase
        regions += [
            replace(region, caption=phrase, logprob=None, confidence=None)
            for region in finding.regions
        ]
    ranked = tuple(sorted(regions, key=lambda region: -region.score))
    place = (first.path, first.width, first.height, first.model)
    return ImageRegions(*place, ranked, Shown(0.0, None), photo=first.photo)
