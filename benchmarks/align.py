"""A sentence aligned with a photo, against the captions of the same photo by the same model.

Peer: `model(photo)` with its default settings, in turns with `model.align` of a short and of a long
sentence, in the same process and on as many cores. Opening and resizing the photo count on both
sides. Medians.

python benchmarks/align.py --model my-model --json
"""

from __future__ import annotations

import regiontalk
from report import report
from turns import photo_bytes, read_options, take_turns

SHORT = "a cup of coffee stands on a wooden table"
LONG = " and ".join([SHORT] * 6)  # several windows of 24 words


def main() -> None:
    arguments = read_options(__doc__)
    model, photo = regiontalk.load(arguments.model, threads=arguments.threads), photo_bytes()
    times = take_turns(
        {
            "caption": lambda: model(photo),
            "align": lambda: model.align(photo, SHORT),
            "align_long": lambda: model.align(photo, LONG),
        },
        arguments.repeats,
    )
    out = {f"{name}_ms": round(value, 2) for name, value in times.items()}
    out |= {
        f"{name}_over_caption": round(times[name] / times["caption"], 3)
        for name in ("align", "align_long")
    }
    report(out, arguments.json)


if __name__ == "__main__":
    main()
