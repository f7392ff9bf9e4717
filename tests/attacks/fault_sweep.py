"""Every call with which a command changes a folder is made to fail once, as SQLite tests itself:
the disk is full, the disk fails, the process is killed before the call or in the middle of a write,
or memory runs out at one of many moments.

After each fault the folder must still answer with the old state or the new one (an index: with
some photos of each), and the same command, run again, must give what a run without faults gives.
Everything else is a loss. Linux only; needs a C compiler.

python tests/attacks/fault_sweep.py --json
python tests/attacks/fault_sweep.py --start FOLDER -- caption photos -o page.html

With a command, it runs in a copy of FOLDER; each of its files must then be the old one, the new
one, or of the form `.*.partial`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from regiontalk.errors import RegionTalkError

SHIM = Path(__file__).with_name("faults.c")
KINDS = {"full": 1, "broken": 2, "killed": 3, "torn": 4}
MEMORY = "memory"
MOST_ALLOCATIONS = 400_000  # of Python's allocator, among which moments without memory are drawn
PRELOADED = "REGIONTALK_FAULTS"  # names the compiled shim, in the process that has it preloaded
FINE = (0, 1, 2, 5, -signal.SIGKILL)  # 1: a lack of memory, 2: cannot be written

State = Any


class Case(NamedTuple):
    """A command, and what is compared before and after it."""

    name: str
    start: Path
    """The folder before."""
    run: Callable[[Path], int]
    """The exit code of the command in a copy of the folder."""
    state: Callable[[Path], State]
    """What the folder says."""
    is_between: Callable[[State, State, State], bool]
    """Whether a state is the old or the new one, or on the way from one to the other."""


class Loss(NamedTuple):
    case: str
    kind: str
    call: int
    reason: str


def compile_shim(folder: Path) -> Path:
    library = folder / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(SHIM), "-ldl"], check=True)
    return library


def preloaded_environment(library: Path) -> dict[str, str]:
    threads = {"REGIONTALK_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **threads, "LD_PRELOAD": str(library), PRELOADED: str(library)}


def sweep(case: Case, place: Path, step: int, moments: int) -> tuple[dict[str, int], list[Loss]]:
    """Number of faults of each kind, and what was lost. Every `step`-th call fails, and memory at
    `moments` moments."""
    old = case.state(case.start)
    work = place / "work"
    calls, code, said = _attempt(case, work, None, 0)
    if code != 0:
        raise RuntimeError(f"{case.name}: ends with {code} without any fault: {said}")
    new = case.state(work)
    tried: dict[str, int] = {}
    losses = []
    for kind, call in _faults(calls, step, moments):
        tried[kind] = tried.get(kind, 0) + 1
        _, code, said = _attempt(case, work, kind, call)
        if reason := _lost(case, work, code, said, old, new):
            losses.append(Loss(case.name, kind, call, reason))
    shutil.rmtree(work)
    return tried, losses


def _faults(calls: int, step: int, moments: int) -> Iterator[tuple[str, int]]:
    for kind in KINDS:
        yield from ((kind, call) for call in range(1, calls + 1, step))
    dice = random.Random(1)
    yield from ((MEMORY, dice.randrange(MOST_ALLOCATIONS)) for _ in range(moments))


def _attempt(case: Case, work: Path, kind: str | None, call: int) -> tuple[int, int, str]:
    """Runs it in a fresh copy of the folder; number of calls, exit code and messages."""
    if work.exists():
        shutil.rmtree(work)
    shutil.copytree(case.start, work)
    return _in_child(lambda: case.run(work), work, kind, call)


def _in_child(
    run: Callable[[], int], work: Path, kind: str | None, call: int
) -> tuple[int, int, str]:
    """A fork: everything is imported already."""
    messages = work.with_name("messages")
    counted = work.with_name("calls")
    child = os.fork()
    if child == 0:
        code = 99
        try:
            output = os.open(messages, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            shim = ctypes.CDLL(os.environ[PRELOADED])
            shim.fault_arm(os.fsencode(work), call, KINDS.get(kind or "", 0))
            if kind == MEMORY:
                import _testcapi

                shim.fault_arm(os.fsencode(work), 0, 0)
                _testcapi.set_nomemory(call, call + 1)
            code = run()
            counted.write_text(str(shim.fault_calls()))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    calls = int(counted.read_text()) if counted.exists() else 0
    counted.unlink(missing_ok=True)
    return calls, os.waitstatus_to_exitcode(status), messages.read_text(errors="replace")


def _lost(case: Case, work: Path, code: int, said: str, old: State, new: State) -> str:
    """Why this is a loss; empty if it is none."""
    if code not in FINE or "Traceback" in said:
        return f"exit code {code}: {said[-300:]}"
    try:
        if not case.is_between(case.state(work), old, new):
            return f"neither the old nor the new state after {code}: {said[-300:]}"
        _, code, said = _in_child(lambda: case.run(work), work, None, 0)
        if code != 0:
            return f"the next run ends with {code}: {said[-300:]}"
        if case.state(work) != new:
            return "the next run does not give the new state"
    except RegionTalkError as error:
        return f"it does not answer: {error.message}"
    return ""


# Cases


def is_old_or_new(state: State, old: State, new: State) -> bool:
    return bool(state in (old, new))


def has_old_or_new_photos(state: State, old: State, new: State) -> bool:
    """Each photo is as before or as it will be; those that stay are there."""
    stays = old.keys() & new.keys()
    return stays <= state.keys() and all(
        photo in (old.get(path), new.get(path)) for path, photo in state.items()
    )


def has_old_or_new_files(state: State, old: State, new: State) -> bool:
    kept = {path: data for path, data in state.items() if not path.endswith(".partial")}
    return has_old_or_new_photos(kept, old, new)


def read_index(folder: Path) -> State:
    from regiontalk.search.sqlite.store import SqliteStore
    from regiontalk.search.store import Where

    if not (folder / ".regiontalk" / "index.sqlite").exists():
        return {}
    try:
        store = SqliteStore(folder / ".regiontalk")
    except RegionTalkError as error:
        if "no index there" in error.message:  # the first transaction was not finished
            return {}
        raise
    with store.reading():
        ids = store.newest(Where(), 0, 1000)
        words = store.vectors(ids[:1].tolist())
        scored = store.word_scores(words[0][:1], Where()) if words else None
        has_a = {} if scored is None else dict(zip(scored.ids, store.said("a", scored)))  # noqa: B905
        rows = zip(store.read(ids.tolist()), store.vectors(ids.tolist()), strict=True)
        found = {
            photo.path: (photo[3:], own.tolist(), bool(has_a[photo.id])) for photo, own in rows
        }
    store.close()
    return found


def read_files(folder: Path) -> State:
    """Bytes of all files but those that a killed run leaves, which the next one deletes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".regiontalk-")
    }


def command(folder: Path, arguments: Sequence[str]) -> int:
    from regiontalk.cli.main import run

    os.chdir(folder)
    return run(list(arguments))


def corrections(folder: Path) -> int:
    """As the page sends them, one photo after another."""
    from regiontalk.cli import console
    from regiontalk.serve.corrections import Correction, Corrections, PhotoFacts

    kept = Corrections(folder / "corrections")
    try:
        for number in range(3):
            region = {"xyxy": [1, 2, 30, 40], "caption": f"a ball {number}"}
            photo = PhotoFacts(f"../{number}.png", f"{number:032x}", (96, 64))
            kept.save(photo, Correction.of({"regions": [region]}))
        kept.keep((folder / "a.png").read_bytes())
    except RegionTalkError as error:
        console.message(error.message)
        return error.exit_code
    except MemoryError:
        return 1
    return 0


def read_corrections(folder: Path) -> State:
    from regiontalk.lab.data.records import stream_records

    place = folder / "corrections"
    if not (place / "annotations.jsonl").exists():
        return ()
    return tuple(record.to_dict()["image"] for record in stream_records(place))


def teach_and_forget(folder: Path) -> int:
    """A word more and one less in a word book, as `teach` writes them."""
    import numpy as np

    from regiontalk.cli import console
    from regiontalk.models.word_book import Example

    book = open_book(folder)
    examples = [Example("Rex", "a.png", (1.0, 2.0, 30.0, 40.0))]
    try:
        book.change(lambda words: words.with_examples(examples, np.ones((1, 8), np.float32)))
        if "ball" in book.read().words:
            book.change(lambda words: words.without(["ball"]))
    except RegionTalkError as error:
        console.message(error.message)
        return 1 if "not enough memory" in error.message else error.exit_code
    except MemoryError:
        return 1
    return 0


def read_book(folder: Path) -> State:
    return open_book(folder).read().words


def open_book(folder: Path) -> Any:
    from regiontalk.models.word_book import BookFile

    return BookFile(folder / "words.npz", "0" * 64, "a model")


def is_a_step(state: State, old: State, new: State) -> bool:
    """Old, new, or with the new word and the one that is to go."""
    return state in (old, new, (*old, *new))


def is_beginning(state: State, old: State, new: State) -> bool:
    return len(old) <= len(state) and bool(state == new[: len(state)])


def prepare(place: Path, model: Path) -> Iterator[Case]:
    """`model`: a model folder with the head that indexes."""
    import numpy as np

    from conftest import draw_scene
    from regiontalk.cli.main import run
    from regiontalk.models.word_book import Example

    photos = place / "photos"
    photos.mkdir()
    for number, name in enumerate(("a", "b", "c", "d")):
        draw_scene((96 + 8 * number, 64)).save(photos / f"{name}.png")
    index = ["index", ".", "--model", str(model), "-q", "--prune"]
    yield Case(
        "index, the first time",
        photos,
        lambda folder: command(folder, index),
        read_index,
        has_old_or_new_photos,
    )
    indexed = Path(shutil.copytree(photos, place / "indexed"))
    assert run(["index", str(indexed), *index[2:]]) == 0
    draw_scene((50, 70)).save(indexed / "a.png")
    draw_scene((40, 70)).save(indexed / "new.png")
    (indexed / "b.png").unlink()
    (indexed / "c.png").unlink()
    os.utime(indexed / "d.png", (0, 0))
    yield Case(
        "index, again",
        indexed,
        lambda folder: command(folder, index),
        read_index,
        has_old_or_new_photos,
    )
    corrected = Path(shutil.copytree(photos, place / "corrected"))
    corrections(corrected)
    lines = (corrected / "corrections" / "annotations.jsonl").read_bytes().splitlines(True)
    (corrected / "corrections" / "annotations.jsonl").write_bytes(lines[0])
    yield Case("corrections", corrected, corrections, read_corrections, is_beginning)
    taught = Path(shutil.copytree(photos, place / "taught"))
    ball = [Example("ball", "b.png", (0.0, 0.0, 9.0, 9.0))]
    open_book(taught).change(lambda book: book.with_examples(ball, np.zeros((1, 8), np.float32)))
    yield Case("teach and forget", taught, teach_and_forget, read_book, is_a_step)
    caption = ["caption", "a.png", "b.png", "--model", str(model), "-q", "--force"]
    for name in ("out.jsonl", "out.html", "out.csv", "pictures"):
        outputs = Path(shutil.copytree(photos, place / f"with {name}"))
        os.chdir(outputs)
        assert run([*caption, "-o", name, "--threshold", "0"]) == 0
        again = partial(command, arguments=[*caption, "c.png", "-o", name])
        yield Case(f"caption -o {name}", outputs, again, read_files, has_old_or_new_files)


def sweep_all(
    cases: Iterator[Case], place: Path, step: int, moments: int
) -> tuple[dict[str, dict[str, int]], list[Loss]]:
    tried, losses = {}, []
    for case in cases:
        tried[case.name], lost = sweep(case, place, step, moments)
        losses += lost
        print(f"{case.name}: {tried[case.name]}, {len(lost)} losses", file=sys.stderr, flush=True)
    return tried, losses


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--start", type=Path, help="the folder that the command runs in a copy of")
    parser.add_argument("--model", type=Path, help="default: the package's fast model")
    parser.add_argument("--step", type=int, default=1, help="every so many calls one fails")
    parser.add_argument("--memory", type=int, default=50, help="moments without memory, a case")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--json", action="store_true", help="print the JSON object alone")
    parser.add_argument("arguments", nargs="*", metavar="COMMAND", help="of regiontalk")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        if PRELOADED not in os.environ:
            environment = preloaded_environment(compile_shim(place))
            sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)  # noqa: PLW1510
        sys.path.insert(0, str(Path(__file__).parents[1]))  # conftest: drawn scenes
        from regiontalk.models.packaged import FAST

        import_everything()
        if options.arguments:
            start = options.start.resolve()
            arguments = options.arguments
            one = Case(
                " ".join(arguments),
                start,
                lambda folder: command(folder, arguments),
                read_files,
                has_old_or_new_files,
            )
            cases = iter([one])
        else:
            prepared = prepare(place, options.model or FAST)
            cases = (case for case in prepared if options.only in case.name)
        tried, losses = sweep_all(cases, place, options.step, options.memory)
    faults = sum(sum(kinds.values()) for kinds in tried.values())
    result = {
        "faults": faults,
        "losses": len(losses),
        "cases": tried,
        "lost": [loss._asdict() for loss in losses[:20]],
    }
    if not options.json:
        for loss in losses:
            print(loss)
    print(json.dumps(result))
    sys.exit(1 if losses else 0)


def import_everything() -> None:
    """So that each fork starts at once, and that no import is what fails."""
    import onnxruntime  # noqa: F401
    import PIL.AvifImagePlugin
    import PIL.PngImagePlugin  # noqa: F401

    import regiontalk.cli.caption
    import regiontalk.cli.index
    import regiontalk.lab.data.formats.exports
    import regiontalk.models.word_book
    import regiontalk.search.index
    import regiontalk.serve.corrections
    import regiontalk.show.page  # noqa: F401


if __name__ == "__main__":
    main()
