"""How the code is built, in figures: what `caption` runs through, the modules at the root, heavy
lines, words of docs.

Nothing here is a verdict. The figures show whether a change made the code easier to read or only
moved it.

python benchmarks/house.py --json
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import regiontalk
from regiontalk.cli.main import run
from report import options_of, report

ROOT = Path(__file__).parents[1]
PACKAGE = Path(regiontalk.__file__).parent
PHOTO = ROOT / "examples" / "photos" / "coffee.jpg"
WIDE = 100  # characters of a line
GENERATED = (
    "results.md",
    "results-details.md",
    "results-old.md",
    "recipe-keys.md",
    "python-reference.md",
    "http-api.md",
    "gallery.md",
    "gallery-sentences.md",
    "gallery-weak-labels.md",
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Trace:
    """The package's functions that are called, and how many of them are on a thread's stack at
    most."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, int]] = set()
        self.deepest = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not is_ours(frame):
            return
        self.functions.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))
        self.deepest = max(self.deepest, sum(map(is_ours, stack(frame))))


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(PACKAGE)) and frame.f_code.co_name != "<module>"


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def trace_caption() -> dict[str, int]:
    """`regiontalk caption PHOTO --json` in a process that ran it before, so that imports do not
    count."""
    trace, command = Trace(), ["caption", str(PHOTO), "--json"]
    with contextlib.redirect_stdout(io.StringIO()):
        run(command)
        threading.setprofile(trace)
        sys.setprofile(trace)
        exit_code = run(command)
        sys.setprofile(None)
        threading.setprofile(None)
    assert exit_code == 0
    files = {file for file, _ in trace.functions}
    return {
        "caption_files": len(files),
        "caption_functions": len(trace.functions),
        "caption_frames": trace.deepest,
    }


def count_lines() -> dict[str, Any]:
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    lines = [line for text in texts for line in text.splitlines()]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    wide = sum(len(line) > WIDE for line in lines)
    parallel = sum(is_parallel_assignment(node) for node in nodes)
    nested = sum(is_nested_comprehension(node) for node in nodes)
    return {
        "root_modules": len(list(PACKAGE.glob("*.py"))),
        "modules": len(texts),
        "lines": len(lines),
        "lines_over_100": wide,
        "parallel_assignments_per_1000": round(1000 * parallel / len(lines), 1),
        "nested_comprehensions_per_1000": round(1000 * nested / len(lines), 1),
    }


def is_parallel_assignment(node: ast.AST) -> bool:
    """`a, b = c, d`; a tuple that a function returned is none."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    )


def is_nested_comprehension(node: ast.AST) -> bool:
    """A comprehension with another one in it, or with two loops."""
    if not isinstance(node, COMPREHENSIONS):
        return False
    inner = (child for child in ast.walk(node) if child is not node)
    return len(node.generators) > 1 or any(isinstance(child, COMPREHENSIONS) for child in inner)


def pages() -> Iterator[Path]:
    yield from (path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED)
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))


def main() -> None:
    arguments = options_of(__doc__).parse_args()
    words = sum(len(re.findall(r"\S+", page.read_text(encoding="utf-8"))) for page in pages())
    figures = {**trace_caption(), **count_lines(), "docs_words": words}
    report(figures, arguments.json)


if __name__ == "__main__":
    main()
