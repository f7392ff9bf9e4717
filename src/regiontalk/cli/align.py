"""`regiontalk align`: aligns a sentence with the regions of a photo."""

from __future__ import annotations

from pathlib import Path

import click

from regiontalk.cli import console, options, outputs, render
from regiontalk.cli.outputs import PAGES, PICTURES
from regiontalk.errors import UsageError
from regiontalk.show.page import writing_page

MOST_NAMED = 10  # unknown words


@click.command()
@click.argument("photo", shell_complete=options.completes("file"))
@click.argument("sentence")
@click.option(
    "--beta",
    type=options.Number(min=0),
    help="How strongly neighbouring words stay together. 0: each word goes to its best region. "
    "Default: the model's.",
)
@options.model_option
@options.heads_option
@options.device_option
@click.option(
    "-o",
    "--output",
    type=options.FILE,
    help="Write a page (.html) or a picture (.jpg, .png, .webp): coloured boxes, and the words in "
    "the same colours.",
)
@click.option("--force", is_flag=True, help="Replace a file at -o that regiontalk did not write.")
@options.json_option
@options.max_megapixels_option
@click.option("-q", "--quiet", is_flag=True, help="Show no messages.")
def command(
    *,
    photo: str,
    sentence: str,
    beta: float | None,
    model: Path | None,
    heads: tuple[Path, ...],
    device: str,
    output: Path | None,
    force: bool,
    as_json: bool,
    max_megapixels: float,
    quiet: bool,
) -> None:
    """Show which words of SENTENCE belong to which region of PHOTO.

    The sentence is cut into segments, and each segment is matched with one of the photo's best
    regions or with the whole photo. The score says how well the words of a segment fit their
    region. Words that the model does not know are listed; they stay with their neighbours.
    """
    if output is not None:
        if output.suffix.lower() not in (*PAGES, *PICTURES):
            raise UsageError(
                f"{output}: a page or picture must end in {', '.join((*PAGES[:1], *PICTURES))}"
            )
        outputs.spare([output], [photo], force)
    alignment = options.load_model(model, device, max_megapixels, heads).align(
        photo, sentence, beta=beta
    )
    if output is not None and output.suffix.lower() in PAGES:
        with writing_page(output) as add:
            add(alignment)
    elif output is not None:
        outputs.save_picture(alignment.draw(), output)
    if as_json:
        console.print_json(alignment.to_dict())
    else:
        render.print_alignment(alignment)
    if alignment.unknown:
        more = ", …" if len(alignment.unknown) > MOST_NAMED else ""
        console.message(f"unknown words: {', '.join(alignment.unknown[:MOST_NAMED])}{more}", quiet)
    if output is not None:
        console.message(
            f"{output}: {'the page' if output.suffix.lower() in PAGES else 'the picture'}", quiet
        )
