"""How long eight uploads that just pass all limits, at once, delay searches.

    python tests/attacks/delayed_search.py

Prints one JSON object: seconds of a search alone, the longest during the uploads, and the uploads.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from photo_bombs import jpeg_scans  # noqa: E402

from http_server import RunningServer, serving  # noqa: E402

UPLOADS = 8
SCANS = 88  # of 49 megapixels each; more are refused
PAUSE = 0.3  # seconds between two searches


def seconds_of_search(server: RunningServer) -> float:
    start = time.perf_counter()
    assert server.get("/api/search?q=a+dog").status == 200
    return time.perf_counter() - start


def measure(server: RunningServer) -> dict[str, object]:
    server.wait_for_index()
    alone = max(seconds_of_search(server) for _ in range(5))
    bomb = jpeg_scans(SCANS, 7000)
    statuses: list[int] = []
    uploads = [
        threading.Thread(target=lambda: statuses.append(server.post("/api/caption", bomb).status))
        for _ in range(UPLOADS)
    ]
    start = time.perf_counter()
    for upload in uploads:
        upload.start()
    searches = []
    while any(upload.is_alive() for upload in uploads):
        searches.append(seconds_of_search(server))
        time.sleep(PAUSE)
    return {
        "search_alone": round(alone, 3),
        "longest_search": round(max(searches), 3),
        "searches": len(searches),
        "uploads": statuses,
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        album = Path(folder) / "album"
        shutil.copytree(ROOT / "examples" / "photos", album)
        with serving(album) as server:
            print(json.dumps(measure(server)))


if __name__ == "__main__":
    main()
