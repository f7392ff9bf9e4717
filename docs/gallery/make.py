"""Writes docs/gallery.md and docs/gallery-sentences.md: what the model in the package says of
freely licensed photos, right or wrong, region by region and in one sentence.

python docs/gallery/make.py [MODEL]

`sources.json` has the photos and where they are from. Its verdicts were given by eye for the model
that it names under `judged`; they are left out for any other.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import regiontalk
from regiontalk.model import Model
from regiontalk.results import ImageRegions, Region

ROOT = Path(__file__).parents[2]
HERE = ROOT / "docs" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
SENTENCES = ROOT / "docs" / "gallery-sentences.md"
SHOWN = 5
ALTERNATIVES = 2

HEAD = """# Gallery

The captions of the model in the package (`{model}`) for {count} freely licensed photos: the {shown} regions with the
highest scores of each, with the [score](your-photos.md#scores) of the box and the confidence of the caption. Pictures
and pages show by default those in **bold**: captions that are likely right, or else the likeliest of the photo. The
pictures here show only these. The first eight photos are those of the README's first command. No photo was left out
because of its captions. [model-card.md](model-card.md) says what the model does not know. Made by
`python docs/gallery/make.py`.

"""
SENTENCES_HEAD = """# Gallery of sentences

One sentence of the model in the package (`{model}`) for each of {count} freely licensed photos, with beam 7: the
sentence with its log-probability, the next best ones, and the greedy one (`--beam 1`, "quick"). The picture shows the
regions that `regiontalk align` assigns to the words; weak matches are darker. The photos and their sources are those of
the [gallery](gallery.md). Made by `python docs/gallery/make.py`.

"""
SOURCES = """## Sources

The photos were made smaller, and boxes and words were drawn on them. They stay under their authors' terms.

| photo | by | licence | from |
|---|---|---|---|
"""


def main() -> None:
    sources = read_sources()
    model = regiontalk.load(sys.argv[1] if len(sys.argv) > 1 else None)
    judged = sources["judged"] == model.runtime.info.name
    about = {"model": model.runtime.info.name, "count": len(sources["photos"])}
    parts = [HEAD.format(**about, shown=SHOWN)]
    for photo in sources["photos"]:
        found = model(ROOT / photo["file"], top=SHOWN)
        parts.append(entry(photo, found, judged))
    rows = (
        f"| {name(one)} | {one['by']} | {one['licence']} | {one['from']} |\n"
        for one in sources["photos"]
    )
    PAGE.write_text("".join([*parts, SOURCES, *rows]), encoding="utf-8")
    said = [sentence_entry(photo, model, judged) for photo in sources["photos"]]
    SENTENCES.write_text("".join([SENTENCES_HEAD.format(**about), *said]), encoding="utf-8")


def read_sources() -> dict[str, Any]:
    sources: dict[str, Any] = json.loads((HERE / "sources.json").read_text(encoding="utf-8"))
    return sources


def name(photo: dict[str, Any]) -> str:
    return Path(photo["file"]).stem


def entry(photo: dict[str, Any], found: ImageRegions, judged: bool) -> str:
    """The drawn photo, the captions with their figures, and the verdict."""
    picture = HERE / f"{name(photo)}.jpg"
    found.draw().save(picture, quality=78, optimize=True)
    shown = found.shown.at_first(found.regions)
    said = "".join(f"- {line(region, region in shown)}\n" for region in found.regions)
    verdict = f"\n{photo['verdict']}\n" if judged else ""
    return f"## {name(photo)}\n\n![{name(photo)}, drawn on](gallery/{picture.name})\n\n{said}{verdict}\n"


def line(region: Region, shown: bool) -> str:
    mark = "**" if shown else ""
    return f"{mark}{region.caption}{mark} (place {region.score:.2f}, words {region.confidence or 0:.2f})"


def sentence_entry(photo: dict[str, Any], model: Model, judged: bool) -> str:
    """The sentence, laid over the photo's regions, its rivals, and the verdict."""
    file = ROOT / photo["file"]
    best = model.describe(file, alternatives=ALTERNATIVES)
    quick = model.describe(file, beam=1)
    picture = HERE / f"sentence-{name(photo)}.jpg"
    model.align(file, best.sentence).draw().save(picture, quality=70, optimize=True)
    others = "".join(f"- {one.sentence} ({one.logprob:.1f})\n" for one in best.alternatives)
    verdict = f"\n{photo['sentence_verdict']}\n" if judged else ""
    return (
        f"## {name(photo)}\n\n![{name(photo)}, with its sentence](gallery/{picture.name})\n\n"
        f"**{best.sentence}** ({best.logprob:.1f})\n\n"
        f"{others}- quick: {quick.sentence} ({quick.logprob:.1f})\n{verdict}\n"
    )


if __name__ == "__main__":
    main()
