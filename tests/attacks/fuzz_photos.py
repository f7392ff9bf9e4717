"""Thousands of broken photos, made by a seeded recipe from the example photos, through `regiontalk
caption`.

Every file must be captioned or refused with one line of ours, every good one be captioned, within
bounds of memory; and each bomb of `photo_bombs`, at the size that hurts, must be opened or refused
within bounds of memory and time.

python tests/attacks/fuzz_photos.py --files 5000 --json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hostile_files import encode
from photo_bombs import BOMBS
from PIL import Image

ROOT = Path(__file__).parents[2]
MOST_MB, MOST_BOMB_MB, MOST_BOMB_SECONDS = 600, 1000, 10
GOOD_EVERY = 19  # of the files one is left as it is
FOREIGN = ("Traceback", "unexpected", "Error:")

OPEN_ONE = """
import sys, time
from regiontalk.errors import ImageError
from regiontalk.images.photo import Photo
began = time.perf_counter()
try:
    Photo(sys.argv[1]).resized(448)
    said = "opened"
except ImageError as error:
    said = error.message.partition(": ")[2]
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(f"{time.perf_counter() - began:.2f} {int(peak) / 1024:.0f} {said}")
"""


def seeds() -> list[bytes]:
    """The example photos in every format, and in the variants that take other paths through the
    decoders."""
    found = []
    for path in sorted((ROOT / "examples" / "photos").glob("*.jpg")):
        with Image.open(path) as opened:
            photo = opened.convert("RGB")
        photo.thumbnail((320, 320))
        kinds: list[tuple[str, str, dict[str, Any]]] = [
            *(("RGB", kind, {}) for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")),
            *(
                ("RGB", "TIFF", {"compression": name})
                for name in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits")
            ),
            *(
                ("RGB", "JPEG", {"progressive": True}),
                ("CMYK", "JPEG", {}),
                ("L", "JPEG", {"optimize": True}),
            ),
            *(
                ("RGBA", "PNG", {}),
                ("P", "PNG", {}),
                ("I;16", "PNG", {}),
                ("RGBA", "WEBP", {"lossless": True}),
            ),
        ]
        for mode, kind, options in kinds:
            grey = np.asarray(photo.convert("L")).astype(np.uint16) * 257
            found.append(
                encode(
                    Image.fromarray(grey) if mode == "I;16" else photo.convert(mode),
                    kind,
                    **options,
                )
            )
    return found


def broken(data: bytes, dice: np.random.Generator) -> bytes:
    """Bits flipped in the header or anywhere; cut off; a piece gone, doubled or replaced; a number
    made large."""
    changed = bytearray(data)
    start, stop = sorted(int(place) for place in dice.integers(0, len(data), 2))
    match int(dice.integers(7)):
        case 0 | 1 as where:
            for _ in range(dice.integers(1, 8)):
                changed[dice.integers(len(data) if where else min(len(data), 300))] ^= (
                    1 << dice.integers(8)
                )
        case 2:
            del changed[stop:]
        case 3:
            del changed[start:stop]
        case 4:
            changed[start:start] = changed[start:stop]
        case 5:
            changed[start:stop] = dice.bytes(stop - start)
        case 6:
            place = int(dice.integers(min(len(data), 300)))
            changed[place : place + 4] = b"\xff" * 4 if dice.integers(2) else b"\x7f\0\0\0"
    return bytes(changed)


def files(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Name and content; small bombs among them, and the good ones named so."""
    dice, whole = np.random.default_rng(seed), seeds()
    for number in range(count):
        data = whole[number % len(whole)]
        if number % GOOD_EVERY == 0:
            yield f"{number:05}-good.jpg", data
        elif number % GOOD_EVERY == 1:
            bomb = BOMBS[int(dice.integers(len(BOMBS)))]
            yield f"{number:05}-bomb.jpg", bomb.make(int(dice.choice([0, 1, 16, 300, 3000])))
        else:
            yield f"{number:05}-broken.jpg", broken(data, dice)


def peak_megabytes(process: subprocess.Popen[bytes]) -> float:
    """Of a process, until it ends."""
    peak = 0.0
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(
                [
                    peak,
                    *(
                        int(line.split()[1]) / 1024
                        for line in status.splitlines()
                        if "VmHWM" in line
                    ),
                ]
            )
        except OSError:
            break
        time.sleep(0.05)
    process.wait()
    return peak


def caption_all(folder: Path, workers: int) -> tuple[float, dict[str, Any]]:
    """Peak megabytes and what came of the files, by the shipping program."""
    out, err = folder.parent / "out.jsonl", folder.parent / "err.txt"
    command = [
        sys.executable,
        "-m",
        "regiontalk",
        "caption",
        str(folder),
        "--json",
        "-q",
        "-j",
        str(workers),
    ]
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        peak = peak_megabytes(process)
    captioned = {Path(json.loads(line)["path"]).name for line in out.read_text().splitlines()}
    lines = err.read_text(errors="replace").splitlines()
    ours = [line for line in lines if line.startswith(f"regiontalk: skipped {folder}/")]
    foreign = [line for line in lines if line not in ours or any(word in line for word in FOREIGN)]
    names = {path.name for path in folder.iterdir()}
    good = {name for name in names if "good" in name}
    return peak, {
        "exit_code": process.returncode,
        "files": len(names),
        "captioned": len(captioned),
        "refused": len(ours),
        "unanswered": len(names) - len(captioned) - len(ours),
        "good_files": len(good),
        "good_captioned": len(good & captioned),
        "foreign_errors": len(foreign),
        "first_foreign": foreign[:3],
    }


def open_bombs(folder: Path) -> Iterator[dict[str, Any]]:
    """Every bomb at its full size, and as large as it may be; each in a process of its own."""
    path = folder / "bomb"
    for bomb, count in [*((one, one.most) for one in BOMBS), *((one, one.real) for one in BOMBS)]:
        path.write_bytes(bomb.make(count))
        done = subprocess.run(
            [sys.executable, "-c", OPEN_ONE, str(path)], capture_output=True, text=True, check=False
        )
        seconds, megabytes, said = (done.stdout.strip() or f"inf inf {done.stderr[-200:]}").split(
            " ", 2
        )
        yield {
            "bomb": bomb.make.__name__,
            "count": count,
            "file_mb": round(path.stat().st_size / 1e6, 2),
            "seconds": float(seconds),
            "mb": float(megabytes),
            "said": said,
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=2015)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-bombs", action="store_true", help="leave the bombs of full size out")
    parser.add_argument("--keep", type=Path, help="a folder to keep the files in")
    parser.add_argument("--json", action="store_true", help="print the JSON object alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = (options.keep or Path(name)) / "photos"
        folder.mkdir(parents=True)
        for file, data in files(options.files, options.seed):
            (folder / file).write_bytes(data)
        began = time.perf_counter()
        peak, result = caption_all(folder, options.workers)
        result |= {"seconds": round(time.perf_counter() - began, 1), "peak_mb": round(peak)}
        result["bombs"] = [] if options.no_bombs else list(open_bombs(Path(name)))
    slow = [
        one
        for one in result["bombs"]
        if one["seconds"] > MOST_BOMB_SECONDS or one["mb"] > MOST_BOMB_MB
    ]
    result["bombs_out_of_bounds"] = len(slow)
    if not options.json:
        for key, value in result.items():
            print(f"{key}: {value}")
    print(json.dumps(result))
    held = result["good_captioned"] == result["good_files"] and peak < MOST_MB and not slow
    sys.exit(0 if held and not result["foreign_errors"] and not result["unanswered"] else 1)


if __name__ == "__main__":
    main()
