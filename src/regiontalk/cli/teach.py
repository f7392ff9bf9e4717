"""`regiontalk teach`: new words from a few examples, and the word book that they are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regiontalk.cli import console
from regiontalk.cli.boxes_option import read_boxes
from regiontalk.cli.options import (
    FILE,
    PLACE,
    Book,
    completes,
    json_option,
    load_model,
    max_megapixels_option,
    model_option,
    quiet_option,
    with_options,
    words_book_option,
)
from regiontalk.errors import DataError, InputError, RegionTalkError, UsageError, need

if TYPE_CHECKING:
    from regiontalk.images.limits import Limits
    from regiontalk.inference.teaching import Change, ToTeach
    from regiontalk.lab.data.records import Dataset, Record
    from regiontalk.model import Model
    from regiontalk.models.word_book import WordBook
    from regiontalk.results import ImageRegions, Lesson, WordReport

ADD = "add"
MAX_PHRASE_WORDS = 3  # of a record's phrase that is taught as a word

book_options = with_options(model_option, words_book_option)


class Teach(click.Group):
    """A group whose command `add` may be left out: `teach croissant a.jpg`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "-h", "--help"):
            args = [ADD, *args]
        return super().parse_args(ctx, args)


@click.group(cls=Teach, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Teach the model new words from a few examples; they are used from then on.

    \b
    regiontalk teach croissant a.jpg b.jpg          the main region of each photo
    regiontalk teach croissant a.jpg --box "40,60,300,280"
    regiontalk teach --from FOLDER     sub-folders with photos; their names are the words
    regiontalk teach --from DATA       a data set, or corrections: its boxes with phrases
    regiontalk teach --train -o model  a model whose captions have learned the words

    One photo is enough to start; three to ten are better. `caption`, `find`, `search` and `serve`
    use the words at once, also in photos that were indexed before. They are kept in a word book:
    your own, or the file of --words-book."""


@command.command(ADD)
@click.argument("given", nargs=-1, metavar="WORD PHOTO...", shell_complete=completes("file"))
@click.option(
    "--box", metavar='"x0,y0,x1,y1"', help="Only this part of the photo, in pixels or fractions."
)
@click.option(
    "--from",
    "source",
    type=PLACE,
    metavar="FOLDER",
    help="Teach many words: a folder with a sub-folder of photos for each word, or a data set.",
)
@click.option("--not", "is_not", is_flag=True, help="The photos show what the word does not mean.")
@click.option(
    "--train",
    "trains",
    is_flag=True,
    help="Train the captions of a new model, of --from or of all taught words. For many examples.",
)
@click.option("-o", "--output", type=PLACE, help="With --train: the new model's folder.")
@click.option(
    "--page", type=FILE, help="Write a page with the captions that changed, before and after."
)
@book_options
@max_megapixels_option
@json_option
@quiet_option
def add(
    *,
    given: tuple[str, ...],
    box: str | None,
    source: Path | None,
    is_not: bool,
    trains: bool,
    output: Path | None,
    page: Path | None,
    model: Path | None,
    words_book: Book | None,
    max_megapixels: float,
    as_json: bool,
    quiet: bool,
) -> None:
    """Teach WORD with photos; the word `add` may be left out.

    --train writes a new model to the folder of -o, whose captions have learned the words: those of
    --from, with phrases of any length, or all taught words whose photos are still there. It takes
    minutes, needs 20 examples or more, and the extra `train`. If the new model would name other
    things worse, nothing is written.
    """
    from regiontalk.inference.teaching import learn
    from regiontalk.models.folder import check_free

    if trains:
        if given or box is not None or is_not:
            raise UsageError("--train takes no word, photo, box or --not", hint="--from FOLDER")
        if output is None:
            raise UsageError("--train needs -o, the folder of the new model", hint="-o my-model")
        check_free(output)
        wanted = (
            _from_source(source, max_megapixels, longest=None)
            if source
            else _from_book(_open(model, words_book).taught_to.book)
        )
        _train(wanted, model, max_megapixels, output, page, as_json, quiet)
        return
    if output is not None:
        raise UsageError("-o is for --train")
    if source and (given or box is not None):
        raise UsageError("--from takes no word, photo or box")
    wanted = _from_source(source, max_megapixels) if source else _from_photos(given, box)
    wanted = [one._replace(is_it=not is_not) for one in wanted]
    loaded = load_model(model, "cpu", max_megapixels, words_book=words_book)
    before = {} if page is None else _captions_of(loaded, wanted)
    watched = console.track(iter(wanted), "Learning", len(wanted), quiet or len(wanted) == 1)
    lessons, skipped = learn(loaded, wanted, watched)
    for line in skipped:
        console.message(f"regiontalk: skipped {line}")
    if page is not None:
        changes = _changes(before, _captions_of(loaded, wanted))
        write_changes(page, changes)
        console.message(f"{page}: {console.count(len(changes), 'caption')} changed", quiet)
    if as_json:
        console.print_json({"words": [lesson.to_dict() for lesson in lessons], "skipped": skipped})
        return
    for lesson in lessons:
        console.print_line(lesson.word, *_learned(lesson))
        _tell_confusions(lesson.report, quiet)
    console.message(f"word book: {loaded.taught_to.file.path}", quiet)


def _from_photos(given: tuple[str, ...], box: str | None) -> list[ToTeach]:
    from regiontalk.images.paths import find_photos
    from regiontalk.inference.teaching import ToTeach

    if len(given) < 2:
        raise UsageError(
            "a word and one photo or more", hint="regiontalk teach croissant breakfast.jpg"
        )
    word, *paths = given
    photos = find_photos(paths)
    for line in photos.skipped:
        console.message(f"regiontalk: skipped {line}")
    if not photos.paths:
        reason = photos.skipped[0] if photos.skipped else f"{paths[0]}: no photo there"
        raise InputError(reason, hint="a photo, a folder with photos, or a pattern")
    if box is None:
        return [ToTeach(word, path) for path in photos.paths]
    if len(photos.paths) != 1:
        raise UsageError(f"--box for {len(photos.paths)} photos", hint="teach one photo at a time")
    (photo,) = photos.paths
    return [ToTeach(word, photo, given_box) for given_box in read_boxes(box).of(photo)]


def _from_source(
    source: Path, max_megapixels: float, longest: int | None = MAX_PHRASE_WORDS
) -> list[ToTeach]:
    """`longest`: leave out phrases of more words."""
    if not source.is_dir():
        raise InputError(f"{source}: {'not a folder' if source.exists() else 'no such folder'}")
    from regiontalk.images.limits import Limits
    from regiontalk.lab.data.records import ANNOTATIONS

    if any((source / name).is_file() for name in ANNOTATIONS):
        return _from_records(source, longest, Limits(megapixels=max_megapixels))
    return _from_folder(source)


def _from_folder(source: Path) -> list[ToTeach]:
    from regiontalk.images.paths import find_photos
    from regiontalk.inference.teaching import ToTeach

    wanted = []
    for folder in sorted(path for path in source.iterdir() if path.is_dir()):
        if not folder.name.startswith("."):
            photos = find_photos([str(folder)])
            for line in photos.skipped:
                console.message(f"regiontalk: skipped {line}")
            wanted += [ToTeach(folder.name, path) for path in photos.paths]
    if not wanted:
        raise InputError(
            f"{source}: no sub-folder with photos",
            hint="a sub-folder for each word: FOLDER/croissant/a.jpg",
        )
    return wanted


def _from_book(book: WordBook) -> list[ToTeach]:
    """The examples of the word book, whose photos may have gone."""
    from regiontalk.inference.teaching import ToTeach

    wanted = []
    for example in book.examples:
        if example.is_it:
            wanted.append(ToTeach(example.word, Path(example.photo), example.xyxy))
    if not wanted:
        raise UsageError("there are no taught words yet", hint="--from FOLDER")
    return wanted


def _from_records(source: Path, longest: int | None, limits: Limits) -> list[ToTeach]:
    from regiontalk.inference.teaching import ToTeach
    from regiontalk.lab.data.records import Dataset
    from regiontalk.models.word_book import without_article

    dataset = Dataset(source)
    wanted = list[ToTeach]()
    too_long = 0
    for record in dataset:
        try:
            photo, factors = _photo_of(record, dataset, limits)
        except RegionTalkError as error:
            console.message(f"regiontalk: skipped {error}")
            continue
        for region in record.regions:
            word = region.phrase.strip() if longest is None else without_article(region.phrase)
            if longest is not None and len(word.split()) > longest:
                too_long += 1
            elif word:
                box = [side * factor for side, factor in zip(region.xyxy, factors, strict=True)]
                wanted.append(ToTeach(word, photo, box))
    if too_long:
        console.message(
            f"left out {console.count(too_long, 'phrase')} of more than {longest} words"
        )
    if not wanted:
        raise InputError(f"{source}: no region with a short phrase", hint='for example "a mug"')
    return wanted


def _photo_of(
    record: Record, dataset: Dataset, limits: Limits
) -> tuple[Path | bytes, tuple[float, ...]]:
    """The photo of a record, and by how much its boxes grow: records may be of smaller copies."""
    from regiontalk.images.photo import Photo
    from regiontalk.lab.data.records import join_paths

    if min(record.width, record.height) < 1:
        size = f"{record.width}×{record.height}"
        raise DataError(f"{record.image}: its record says that it has {size} pixels")
    path = Path(join_paths(dataset.folder, record.image))
    photo = path if record.shard is None else dataset.read_photo(record)
    width, height = Photo.of(photo, limits).size
    return photo, (width / record.width, height / record.height) * 2


def _train(
    wanted: Sequence[ToTeach],
    place: Path | None,
    max_megapixels: float,
    output: Path,
    page: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Trains a new model on the examples, and tells what changed."""
    need("train", "teach --train", "torch", "safetensors", "onnx", "onnxscript")
    from regiontalk.cli.train import ProgressWatcher
    from regiontalk.lab.training.many_examples import look_at, train
    from regiontalk.models.packaged import place_of

    loaded = load_model(place, "cpu", max_megapixels)
    seen = look_at(
        loaded, wanted, lambda photos, count: console.track(photos, "Looking", count, quiet)
    )
    for line in seen.skipped:
        console.message(f"regiontalk: skipped {line}")
    watcher = ProgressWatcher(quiet)
    with watcher.bar:
        report = train(seen, place_of(place), output, watcher)
    if page is not None:
        write_changes(page, report.changes)
    if as_json:
        console.print_json(report.to_dict())
        return
    for name, before, after in (
        ("examples", report.right_before, report.right_after),
        ("known regions", report.old_before, report.old_after),
    ):
        console.print_line(name, f"{before:.1f} % right", f"{after:.1f} % right")
    console.message(f"{output}: learned {console.count(report.examples, 'example')}", quiet)


def _captions_of(model: Model, wanted: Sequence[ToTeach]) -> dict[Any, ImageRegions]:
    """What the model says now of each photo of the examples that can be opened."""
    answers = {}
    for photo in dict.fromkeys(example.photo for example in wanted):
        with suppress(RegionTalkError):  # `learn` tells
            answers[photo] = model(photo)
    return answers


def _changes(before: Mapping[Any, ImageRegions], after: Mapping[Any, ImageRegions]) -> list[Change]:
    """The regions with other captions than before."""
    from regiontalk.inference.teaching import Change

    changes = []
    for photo in [photo for photo in after if photo in before]:
        old, new = before[photo], after[photo]
        pairs = zip(old.regions, new.regions, strict=True)  # the boxes stay
        for region_before, region in pairs:
            if region_before.caption != region.caption:
                captions = (region_before.caption, region.caption, region.caption)
                changes.append(Change(photo, new.path or "photo", region.xyxy, *captions))
    return changes


def write_changes(page: Path, changes: Sequence[Change]) -> None:
    """A page with regions and their captions, before and after."""
    from regiontalk.images.photo import Photo
    from regiontalk.results import ImageRegions, Region, Shown
    from regiontalk.show.page import writing_page

    by_photo: dict[str, list[Change]] = {}
    for change in changes:
        by_photo.setdefault(change.name, []).append(change)
    every = Shown(threshold=0.0, top=None, confidence=0.0, sure_score=0.0)
    with writing_page(page) as put:
        for name, of_photo in by_photo.items():
            photo = Photo(of_photo[0].photo)
            regions = [
                Region(change.xyxy, 1.0, f"{change.after} (before: {change.before})")
                for change in of_photo
            ]
            put(ImageRegions(name, *photo.size, "", tuple(regions), every, photo=photo))


def _learned(lesson: Lesson) -> tuple[str, str]:
    report = lesson.report
    return console.count(report.examples, "example"), _state(report)


def _state(report: WordReport) -> str:
    """How well a word is known, in words."""
    if not report.examples:
        return "only examples of what it is not"
    if report.recognised is None:
        return "weak: teach it with more photos"
    share = f"{report.recognised:.0%} of its examples are recognised by the others"
    return f"weak: {share}" if report.weak else share


def _tell_confusions(report: WordReport, quiet: bool) -> None:
    for confusion in report.confusions:
        box = ",".join(f"{side:.0f}" for side in confusion.xyxy)
        looks = f"taught as {report.word!r}, looks more like {confusion.word!r}"
        console.message(f"{confusion.photo} ({box}): {looks}", quiet)


def _open(model: Path | None, words_book: Book | None) -> Model:
    """The model, to work with its word book."""
    if words_book is False:
        raise UsageError("--words-book none: there is no word book to work with")
    return load_model(model, "cpu", lazily=True, words_book=words_book)


@command.command("list")
@book_options
@json_option
@quiet_option
def show(*, model: Path | None, words_book: Book | None, as_json: bool, quiet: bool) -> None:
    """List the taught words and how well each is known; weak words come first."""
    loaded = _open(model, words_book)
    reports = loaded.taught_words()
    if as_json:
        console.print_json({"words": [report.to_dict() for report in reports]})
        return
    if not reports:
        console.message(f"no words in {loaded.taught_to.file.path}", quiet)
        return
    rows = [
        (report.word, str(report.examples), str(report.others), _state(report))
        for report in reports
    ]
    console.print_rows(("word", "examples", "not", "state"), rows)
    for report in reports:
        _tell_confusions(report, quiet)


@command.command("next")
@click.argument("folder", type=PLACE, metavar="[DIR]", default=".")
@click.option("--top", type=click.IntRange(1, 1000), default=20, show_default=True)
@book_options
@json_option
@quiet_option
def unsure(
    *,
    folder: Path,
    top: int,
    model: Path | None,
    words_book: Book | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show the regions of the indexed folder DIR of which the model is least sure: the examples
    that would help most. The page of `regiontalk serve DIR` asks about them, with one key for
    each."""
    from regiontalk.search.index import Index

    loaded = _open(model, words_book)
    index, below = Index.around(folder, model=loaded)
    regions = index.least_sure(top=top, folder=below)
    index.close()
    if as_json:
        console.print_json({"regions": [region.to_dict() for region in regions]})
        return
    if not regions:
        console.message("nothing to ask: no taught words yet", quiet)
    rows = [
        (
            region.path,
            region.word,
            f"{region.probability:.2f}",
            ",".join(f"{side:.0f}" for side in region.xyxy),
        )
        for region in regions
    ]
    console.print_rows(("photo", "word", "probability", "box"), rows)


@command.command("forget")
@click.argument("words", nargs=-1, metavar="WORD...")
@click.option("--all", "every", is_flag=True, help="All words; the old file is kept beside it.")
@book_options
@quiet_option
def forget(
    *,
    words: tuple[str, ...],
    every: bool,
    model: Path | None,
    words_book: Book | None,
    quiet: bool,
) -> None:
    """Drop words from the word book."""
    from regiontalk.inference.teaching import Taught
    from regiontalk.models.loading import load

    if bool(words) == every:
        raise UsageError("give words to forget, or --all")
    if every:  # also of a damaged book, with which no model can be loaded
        if words_book is False:
            raise UsageError("--words-book none: there is no word book to work with")
        place = words_book if isinstance(words_book, Path) else None
        old = Taught.of(
            load(model, lazily=True, words_book=False).runtime, place
        ).file.start_again()
        console.message("no words yet" if old is None else f"the old words: {old}", quiet)
        return
    loaded = _open(model, words_book)
    loaded.forget(*words)
    console.message(f"forgotten: {', '.join(words)}", quiet)


@command.command("export")
@click.argument("file", type=FILE)
@click.argument("words", nargs=-1, metavar="[WORD...]")
@book_options
@quiet_option
def export(
    *,
    file: Path,
    words: tuple[str, ...],
    model: Path | None,
    words_book: Book | None,
    quiet: bool,
) -> None:
    """Write words (default: all) to a new word book FILE, for another machine. It holds no photos,
    and only the names of their files."""
    from regiontalk.io.files import replacing

    if file.exists():
        raise UsageError(f"{file}: already exists", hint="give another name, or delete it first")
    book = _open(model, words_book).taught_to.book
    chosen = book.only(words) if words else book
    if not chosen.examples:
        raise UsageError("there are no taught words yet", hint="regiontalk teach WORD PHOTO...")
    examples = tuple(
        replace(example, photo=Path(example.photo).name) for example in chosen.examples
    )
    with replacing(file) as partial:
        partial.write_bytes(replace(chosen, examples=examples).to_bytes())
    console.message(f"{file}: {console.count(len(chosen.words), 'word')}", quiet)


@command.command("merge")
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@book_options
@quiet_option
def merge(
    *, files: tuple[Path, ...], model: Path | None, words_book: Book | None, quiet: bool
) -> None:
    """Add the words of other word books."""
    from regiontalk.models.word_book import read_word_book

    taught = _open(model, words_book).taught_to
    others = [read_word_book(file) for file in files]
    for file, other in zip(files, others, strict=True):
        taught.file.check_same(other, str(file))

    def add_all(book: WordBook) -> WordBook:
        for other in others:
            book = book.with_examples(other.examples, other.codes)
        return book

    book = taught.file.change(add_all)
    console.message(
        f"{taught.file.path}: {console.count(len(book.words), 'word')}, "
        f"{console.count(len(book.examples), 'example')}",
        quiet,
    )
