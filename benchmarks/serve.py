"""The server: one photo against the model alone, and many uploads at once.

Peer of the first: `model(photo)` in this process, in turns with an upload of the same 12-megapixel
photo to a server that has nothing else to do; the ratio is `slower_than_caption`. Then --clients
upload that photo for --seconds, all at once and again as soon as they may (`Retry-After`); one in
ten breaks off. Elsewhere they would be on other machines, so here they run at a low priority.
Meanwhile health is asked for, and the memory of all of the server's processes is added up. Status 0
is a client that broke off.

python benchmarks/serve.py --json
"""

from __future__ import annotations

import argparse
import http.client
import io
import multiprocessing
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image

import regiontalk
from report import options_of, report
from turns import PHOTO, take_turns

SIZE = (4000, 3000)


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    body = to_form(large_photo())
    command = [
        sys.executable,
        "-m",
        "regiontalk",
        "serve",
        "--no-open",
        "--port",
        "0",
        "-j",
        str(arguments.workers),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        port = int(server.stderr.readline().split()[0].rstrip("/").rpartition(":")[2])
        try:
            out = measure_one(port, body, arguments.repeats) | measure_many(
                port, server.pid, body, arguments
            )
        finally:
            began = time.perf_counter()
            server.terminate()
            server.wait()
    out |= {"seconds_to_end": round(time.perf_counter() - began, 2), "exit_code": server.returncode}
    report(out, arguments.json)


def large_photo() -> bytes:
    buffer = io.BytesIO()
    with Image.open(PHOTO) as photo:
        photo.convert("RGB").resize(SIZE, Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=92)
    return buffer.getvalue()


def to_form(photo: bytes) -> bytes:
    head = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a.jpg"\r\n\r\n'
    return head + photo + b"\r\n--x--\r\n"


def measure_one(port: int, body: bytes, repeats: int) -> dict[str, Any]:
    photo, model = large_photo(), regiontalk.load()
    works = {"caption": lambda: model(photo), "serve": lambda: upload(port, body)}
    upload(port, body), upload(port, body)  # both workers have their memory now
    times = take_turns(works, repeats)
    idle = take_turns({"health": lambda: get_health(port)}, repeats)
    return {
        "health_ms_idle": round(idle["health"], 1),
        "caption_ms": round(times["caption"], 1),
        "serve_ms": round(times["serve"], 1),
        "slower_than_caption": round(times["serve"] / times["caption"], 3),
    }


def upload(port: int, body: bytes, break_off: bool = False) -> tuple[int, float]:
    """The status, and the seconds after which to come again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(
            "POST", "/api/caption", body, {"Content-Type": "multipart/form-data; boundary=x"}
        )
        if break_off:
            return 0, 1
        response = connection.getresponse()
        response.read()
        return response.status, float(response.headers.get("Retry-After", 0))
    finally:
        connection.close()


def measure_many(port: int, pid: int, body: bytes, arguments: argparse.Namespace) -> dict[str, Any]:
    """The clients are another process, so that they do not keep this one from asking for health."""
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[dict[int, int]] = context.Queue()
    load = context.Process(
        target=run_clients, args=(port, body, arguments.clients, arguments.seconds, results)
    )
    load.start()
    health, memory = [], []
    while load.is_alive() and results.empty():
        began = time.perf_counter()
        assert get_health(port) == 200
        health.append(1000 * (time.perf_counter() - began))
        memory.append(memory_of(pid))
        time.sleep(0.1)
    statuses = results.get()
    load.join()
    middle = len(memory) // 2
    return {
        "clients": arguments.clients,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "answered_per_second": round(statuses.get(200, 0) / arguments.seconds, 2),
        "health_ms_median": round(statistics.median(health), 1),
        "health_ms_most": round(max(health), 1),
        "memory_mb_first_half": round(max(memory[:middle])),
        "memory_mb_second_half": round(max(memory[middle:])),
    }


def run_clients(
    port: int,
    body: bytes,
    clients: int,
    seconds: float,
    results: multiprocessing.Queue[dict[int, int]],
) -> None:
    os.nice(10)
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        while time.monotonic() < end:
            status, wait = -1, 0.0
            with suppress(OSError, http.client.HTTPException):
                status, wait = upload(port, body, break_off=number % 10 == 0)
            statuses[status] += 1
            time.sleep(wait * random.uniform(1, 1.5) if wait else 0.01)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(dict(statuses))


def get_health(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status
    finally:
        connection.close()


def memory_of(pid: int) -> float:
    """Megabytes of a process and those that it started."""
    children = [
        int(one)
        for file in Path(f"/proc/{pid}/task").glob("*/children")
        for one in file.read_text().split()
    ]
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return (int(found[1]) / 1000 if found else 0.0) + sum(memory_of(child) for child in children)


if __name__ == "__main__":
    main()
