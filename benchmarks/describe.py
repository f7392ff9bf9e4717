"""A photo described in one sentence, against one pass of the same model's backbone over it.

Peer: `Runtime.propose` on the opened and resized photo (backbone and proposals), in turns with
`describe` at beam 1 and 7 in the same process and on as many cores. Opening and resizing the photo
count on both sides. Medians.

python benchmarks/describe.py --model my-model --json
"""

from __future__ import annotations

from collections.abc import Callable

import regiontalk
from regiontalk.images.photo import open_photo, resize, to_input
from regiontalk.model import Model
from report import report
from turns import photo_bytes, read_options, take_turns


def backbone_pass(model: Model, photo: bytes) -> None:
    info = model.runtime.info
    resized = resize(open_photo(photo), info.input_size)
    height, width = resized.pixels.shape[:2]
    model.runtime.propose(to_input(resized.pixels, info.pad_to)[None], (width, height))


def main() -> None:
    arguments = read_options(__doc__)
    model, photo = regiontalk.load(arguments.model, threads=arguments.threads), photo_bytes()
    works: dict[str, Callable[[], object]] = {
        "backbone": lambda: backbone_pass(model, photo),
        "beam_1": lambda: model.describe(photo, beam=1),
        "beam_7": lambda: model.describe(photo, beam=7),
    }
    times = take_turns(works, arguments.repeats)
    out = {f"{name}_ms": round(value, 2) for name, value in times.items()}
    out |= {
        f"{name}_over_backbone": round(times[name] / times["backbone"], 3)
        for name in ("beam_1", "beam_7")
    }
    report(out, arguments.json)


if __name__ == "__main__":
    main()
