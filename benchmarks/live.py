"""The live view: pictures a second in Chromium with its fake camera, and memory over many pictures.

`regiontalk live` with the fast model and one worker; the camera shows the example photos in turn,
640×480, 20 pictures a second. `ms_alone`: the model alone, at the size of the live view and at its
own, in turns, after the server has ended. Memory is that of the page (after garbage collection) and
of the server's processes, at a tenth of the pictures and at their end.

python benchmarks/live.py [--pictures 2000] --json
"""

from __future__ import annotations

import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

import regiontalk
from regiontalk.serve.tasks import LIVE_OPTIONS
from report import options_of, report

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Browser  # noqa: E402

SIZE = (640, 480)
REPEATS = 5  # of each photo
PICTURES_EACH = 40  # of a photo, one after another
FLAGS = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
ANSWERS = "Number(document.body.dataset.answers ?? 0)"


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--pictures", type=int, default=200)
    arguments = parser.parse_args()
    photos = [
        ImageOps.pad(Image.open(path).convert("RGB"), SIZE)
        for path in sorted((ROOT / "examples" / "photos").glob("*.jpg"))
    ]
    figures = measure_page(photos, arguments.pictures)
    figures |= {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), **LIVE_OPTIONS}
    report(figures | measure_alone(photos), arguments.json)


def measure_page(photos: list[Image.Image], pictures: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "camera.mjpeg"
        film.write_bytes(b"".join(to_jpeg(photo) * PICTURES_EACH for photo in photos))
        command = [sys.executable, "-m", "regiontalk", "live", "--no-open", "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            address = server.stderr.readline().split()[0]
            video = f"--use-file-for-fake-video-capture={film}"
            browser = Browser(Path(folder) / "profile", (*FLAGS, video))
            try:
                browser.open(address)
                first = max(5, pictures // 10)
                wait_for_answers(browser, first)
                began, before = time.perf_counter(), memory(browser, server.pid)
                wait_for_answers(browser, pictures)
                seconds, after = time.perf_counter() - began, memory(browser, server.pid)
                answers = browser.ask(ANSWERS)
            finally:
                browser.close()
                server.terminate()
    return {
        "pictures": answers,
        "pictures_per_second": round((answers - first) / seconds, 2),
        **{f"{name}_mb_first": size for name, size in before.items()},
        **{f"{name}_mb_last": size for name, size in after.items()},
    }


def to_jpeg(photo: Image.Image) -> bytes:
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def wait_for_answers(browser: Browser, count: int) -> None:
    while browser.ask(ANSWERS) < count:
        time.sleep(0.2)


def memory(browser: Browser, pid: int) -> dict[str, float]:
    """In MB: JavaScript's heap of the page, and what the server's processes hold."""
    browser.call("HeapProfiler.collectGarbage")
    heap = browser.call("Runtime.getHeapUsage")["usedSize"]
    held = sum(private_bytes(process) for process in family(pid))
    return {"page": round(heap / 1e6, 1), "server": round(held / 1e6, 1)}


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]


def private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("Private_")]
    return sum(kilobytes) * 1024


def measure_alone(photos: list[Image.Image]) -> dict[str, float]:
    model = regiontalk.load("fast")
    ways: dict[str, dict[str, int]] = {"live": LIVE_OPTIONS, "own": {}}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for photo in photos:
            for name, options in ways.items():
                began = time.perf_counter()
                model(photo, **options)
                seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    return {
        "ms_alone": round(1000 * medians["live"], 1),
        "ms_alone_at_own_size": round(1000 * medians["own"], 1),
        "share_of_own_size": round(medians["live"] / medians["own"], 3),
    }


if __name__ == "__main__":
    main()
