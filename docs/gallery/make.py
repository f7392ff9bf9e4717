"""Writes docs/gallery.md: what the model in the package says of freely licensed photos, right or wrong.

python docs/gallery/make.py [MODEL]

`sources.json` has the photos and where they are from. Its verdicts were given by eye for the model that it
names under `judged`; they are left out for any other.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import regiontalk
from regiontalk.types import ImageRegions

ROOT = Path(__file__).parents[2]
HERE = ROOT / "docs" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
SHOWN = 5

HEAD = """# Gallery

What the model in the package (`{model}`) says of {count} freely licensed photos: its {shown} best regions
of each, whatever they score. No photo was left out because of what was said of it. Most of them are unlike its
training photos, which show people and dogs outdoors; [model-card.md](model-card.md) says what it does not know. A
[score](captioning.md#scores) is about the place, not the words. Made by `python docs/gallery/make.py`.

"""
SOURCES = """## Sources

The photos were made smaller, and those on this page drawn on; that and the words are all that was done to them. They
stay under their authors' terms.

| photo | by | licence | from |
|---|---|---|---|
"""


def main() -> None:
    sources = json.loads((HERE / "sources.json").read_text(encoding="utf-8"))
    model = regiontalk.load(sys.argv[1] if len(sys.argv) > 1 else None)
    judged = sources["judged"] == model.runtime.info.name
    parts = [HEAD.format(model=model.runtime.info.name, count=len(sources["photos"]), shown=SHOWN)]
    for photo in sources["photos"]:
        found = model(ROOT / photo["file"], top=SHOWN)
        parts.append(entry(photo, found, judged))
    rows = (f"| {name(one)} | {one['by']} | {one['licence']} | {one['from']} |\n" for one in sources["photos"])
    PAGE.write_text("".join([*parts, SOURCES, *rows]), encoding="utf-8")


def name(photo: dict[str, Any]) -> str:
    return Path(photo["file"]).stem


def entry(photo: dict[str, Any], found: ImageRegions, judged: bool) -> str:
    """The drawn photo, the captions with their scores, and the verdict."""
    picture = HERE / f"{name(photo)}.jpg"
    found.draw().save(picture, quality=78, optimize=True)
    said = "".join(f"- {region.caption} ({region.score:.2f})\n" for region in found.regions)
    verdict = f"\n{photo['verdict']}\n" if judged else ""
    return f"## {name(photo)}\n\n![{name(photo)}, drawn on](gallery/{picture.name})\n\n{said}{verdict}\n"


if __name__ == "__main__":
    main()
