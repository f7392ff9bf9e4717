"""`regiontalk index`: indexes the photos of a folder, so that `search` can find them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regiontalk.cli import console, options
from regiontalk.errors import InputError, SkippedInputs, UsageError
from regiontalk.serve.settings import CORRECTIONS

if TYPE_CHECKING:
    from regiontalk.search.build import Progress, Update
    from regiontalk.search.index import Index

MOST_NAMED = 10  # skipped photos of each reason; `--json` names all of them

place_option = click.option(
    "--index",
    "place",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of the index. Default: .regiontalk in the folder of the photos.",
)

store_option = click.option(
    "--store",
    metavar="ADDRESS",
    callback=lambda _context, _parameter, address: check_store(address),
    help="A PostgreSQL database for the index, shared by many machines: "
    "postgresql://user@host/photos.",
)


def check_store(address: str | None) -> str | None:
    if address is not None and not address.startswith(("postgresql://", "postgres://")):
        raise UsageError(f"--store {address}: not an address", hint="postgresql://user@host/photos")
    return address


def check_one_place(place: Path | None, store: str | None) -> None:
    if store is not None and place is not None:
        raise UsageError("--index cannot be used with --store")


@click.command()
@click.argument("folder", type=options.PLACE, metavar="DIR")
@place_option
@store_option
@options.any_model_option
@options.device_option
@options.workers_option
@options.cluster_options
@click.option(
    "--prune",
    is_flag=True,
    help="Drop deleted photos, even if they are more than half of the index.",
)
@click.option(
    "--rebuild",
    is_flag=True,
    help="Start from scratch: for a damaged index, or to use another model.",
)
@click.option("--strict", is_flag=True, help="End with exit code 3 if a photo was skipped.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as one JSON object.")
@options.max_megapixels_option
@click.option(
    "-q", "--quiet", is_flag=True, help="No progress bar, no messages; skipped photos are named."
)
def command(
    *,
    folder: Path,
    place: Path | None,
    store: str | None,
    model: options.Place | None,
    device: str,
    workers: int,
    engine: str,
    address: str | None,
    prune: bool,
    rebuild: bool,
    strict: bool,
    as_json: bool,
    max_megapixels: float,
    quiet: bool,
) -> None:
    """Index the photos in DIR and all its subfolders, so that `regiontalk search` can find them.

    Run it again when photos were added, changed, moved or deleted: only new and changed ones are
    processed. If it is stopped, the next run continues. Your photos are never changed. The index is
    a separate folder, or with --store a database, which can hold the photos of many folders. With
    --store and --engine ray, DIR can also be a tar file or an address such as s3://bucket/photos.
    """
    from regiontalk.search.index import Index

    options.check_engine(engine, address)
    check_one_place(place, store)
    source = _remote_source(folder, store) if engine == options.RAY else None
    if source is None:
        options.check_folder(folder)
    load = partial(options.load_model, model, device, max_megapixels)
    index = Index.open(folder, place=place, store=store)
    index.check_free()
    index.model = load()
    with console.progress("Indexing", quiet=quiet) as bar:

        def watch(progress: Progress) -> None:
            bar.update(bar.task_ids[0], completed=progress.done, total=progress.total)

        if source is not None:
            from regiontalk.lab.cluster.indexing import add_sources

            done = add_sources(index, source, load, workers, address, rebuild, watch)
        else:
            see_all = None
            if engine == options.RAY:
                from regiontalk.lab.cluster.indexing import see_on_cluster

                see_all = see_on_cluster(load, workers, address, store)
            done = index.update(
                workers=workers, prune=prune, rebuild=rebuild, watch=watch, see_all=see_all
            )
            _follow_photos(index)
    _report(source or folder, done, quiet, as_json, strict)


def _follow_photos(index: Index) -> None:
    """Tells the corrections of `serve`, if there are any, where their photos are now."""
    if (index.place / CORRECTIONS).is_dir():
        from regiontalk.serve.corrections import Corrections

        Corrections.of(index).follow(index)
        index.close()


def _report(place: Path | str, done: Update, quiet: bool, as_json: bool, strict: bool) -> None:
    for line in _shortened(done.skipped):
        console.message(f"regiontalk: skipped {line}")
    if done.outside:
        links = console.count(done.outside, "link")
        console.message(f"regiontalk: left out {links} to places outside of {place}", quiet)
    console.message(f"{place}: {_summary(done)}", quiet)
    if as_json:
        console.print_json(asdict(done))
    if not done.added + done.changed + done.moved + done.unchanged:
        raise InputError(f"{place}: none of its photos could be read")
    if strict and done.skipped:
        raise SkippedInputs(f"{len(done.skipped)} skipped, and --strict was given")


def _shortened(skipped: Sequence[str]) -> Iterator[str]:
    """The first lines for each reason, and how many more there are."""
    reasons = [line.rpartition(": ")[2] for line in skipped]
    counts = Counter[str]()
    for line, reason in zip(skipped, reasons, strict=True):
        counts[reason] += 1
        if counts[reason] <= MOST_NAMED:
            yield line
    for reason, count in counts.items():
        if count > MOST_NAMED:
            yield f"{count - MOST_NAMED:,} more: {reason}"


def _remote_source(place: Path, store: str | None) -> str | None:
    """A tar file or an address instead of a folder."""
    from regiontalk.lab.cluster.addresses import full_address
    from regiontalk.lab.cluster.sources import holds_photos

    address = full_address(place)
    if place.is_dir() or not holds_photos(address):
        return None
    if store is None:
        raise UsageError(
            f"{address}: a tar file or an address needs a database", hint="--store ADDRESS"
        )
    return address


def _summary(done: Update) -> str:
    photos = done.added + done.changed + done.moved + done.unchanged
    counts = {
        name: getattr(done, name) for name in ("added", "changed", "moved", "removed", "hidden")
    }
    counts["skipped"] = len(done.skipped)
    changes = [f"{count} {name}" for name, count in counts.items() if count]
    return f"{console.count(photos, 'photo')} in the index ({', '.join(changes) or 'nothing new'})"
