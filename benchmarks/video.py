"""Indexing a video: seconds and memory, frames taken, and how long a search takes.

The video shows the example photos in turn, each for some seconds with a slow pan, 1280×720 at 25
frames a second (H.264). `decode_seconds`: of these, finding the frames that show something new.

python benchmarks/video.py [--minutes 10] --json
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image, ImageOps

import regiontalk
from regiontalk.images.video import key_frames
from report import options_of, report

PHOTOS = sorted((Path(__file__).parents[1] / "examples" / "photos").glob("*.jpg"))
SIZE = (1280, 720)
RATE = 25
SCENE_SECONDS = 8
PAN = 160  # pixels of a scene


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--minutes", type=int, default=10)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        film = Path(place) / "film.mp4"
        write_film(film, arguments.minutes)
        out = measure(film)
    out |= {"minutes": arguments.minutes, "cores": os.cpu_count()}
    report(out | {"load": round(os.getloadavg()[0], 1)}, arguments.json)


def write_film(path: Path, minutes: int) -> None:
    width, height = SIZE
    wide = [
        np.asarray(ImageOps.fit(Image.open(photo).convert("RGB"), (width + PAN, height)))
        for photo in PHOTOS
    ]
    frames = SCENE_SECONDS * RATE
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"preset": "ultrafast"})
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        for number in range(minutes * 60 * RATE):
            scene, frame = divmod(number, frames)
            left = PAN * frame // frames
            view = wide[scene % len(wide)][:, left : left + width]
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(view), "rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


def measure(film: Path) -> dict[str, Any]:
    began = time.perf_counter()
    frames = key_frames(film)
    decoded = time.perf_counter() - began
    model = regiontalk.load(words_book=False)
    index = regiontalk.Index.open(film.parent, model=model)
    began, used = time.perf_counter(), time.process_time()
    index.update()
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    began = time.perf_counter()
    index.search("a cat")
    searched = time.perf_counter() - began
    index.close()
    return {
        "frames": len(frames),
        "decode_seconds": decoded,
        "index_seconds": seconds,
        "index_processor_seconds": processor,
        "search_seconds": searched,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    main()
