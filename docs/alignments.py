"""Draws docs/alignments.jpg: sentences that people might write, laid over four of the example
photos.

python docs/alignments.py
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

import regiontalk

ROOT = Path(__file__).parents[1]
ROWS = (
    {
        "hug": "a young woman in a grey sweater hugs a large brown dog on the grass",
        "bear": "a small child in a blue shirt sits beside a teddy bear",
    },
    {
        "jockey": "a jockey with a green helmet rides a brown horse along a white rail",
        "coffee": "a red cup of coffee and a spoon on a wooden table",
    },
)
WIDTH = 1100


def main() -> None:
    model = regiontalk.load()
    rows = [
        beside(
            [
                model.align(ROOT / f"examples/photos/{name}.jpg", sentence).draw()
                for name, sentence in row.items()
            ]
        )
        for row in ROWS
    ]
    sheet = Image.new("RGB", (WIDTH, sum(row.height for row in rows)))
    top = 0
    for row in rows:
        sheet.paste(row, (0, top))
        top += row.height
    sheet.save(ROOT / "docs" / "alignments.jpg", quality=80, optimize=True)


def beside(pictures: list[Image.Image]) -> Image.Image:
    """The pictures in a row of `WIDTH` pixels, all of the same height."""
    height = round(WIDTH / sum(picture.width / picture.height for picture in pictures))
    row = Image.new("RGB", (WIDTH, height))
    left = 0
    for picture in pictures:
        width = round(picture.width * height / picture.height)
        row.paste(picture.resize((width, height)), (left, 0))
        left += width
    return row


if __name__ == "__main__":
    main()
