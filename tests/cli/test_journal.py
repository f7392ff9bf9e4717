"""Long runs: what is finished is kept, and the same command continues."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regiontalk.cli.journal import keeping
from regiontalk.cli.main import run
from regiontalk.results import AltText, Description, ImageRegions, Region, Sentence, Shown

REGIONS = ImageRegions(
    "a.jpg", 9, 8, "m", (Region((0.1, 1 / 3, 5, 6), 0.123456789, "a \ud800 mug", -1.5),)
)
RESULTS = [
    REGIONS,
    Description("a.jpg", 9, 8, "m", "a dog", -2.5, (Sentence("a cat", -3.25),)),
    AltText("a.jpg", 9, 8, "m", "a dog", REGIONS.regions),
]


@pytest.fixture
def desk(
    tmp_path: Path,
    make_scene: Callable[..., Image.Image],
    monkeypatch: pytest.MonkeyPatch,
    stand_in: Any,
) -> Path:
    (tmp_path / "in").mkdir()
    for number in range(6):
        make_scene((90 + number, 60)).save(tmp_path / "in" / f"{number}.jpg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch, stand_in: Any) -> Callable[[int], None]:
    """Makes the model answer so many photos, and then be stopped by Ctrl-C; 0: no longer."""
    answer = type(stand_in).__call__

    def stop(photos: int) -> None:
        stand_in.asked.clear()

        def answer_or_stop(model: Any, photo: str, **options: Any) -> ImageRegions:
            if photos and len(model.asked) >= photos:
                raise KeyboardInterrupt
            return answer(model, photo, **options)

        monkeypatch.setattr(type(stand_in), "__call__", answer_or_stop)

    return stop


def asked_for(stand_in: Any) -> list[str]:
    return [Path(one["photo"]).stem for one in stand_in.asked]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_results_come_back_as_they_were(result: Any, desk: Path) -> None:
    with suppress(KeyError), keeping(desk / "x.json", {}, quiet=True) as journal:
        journal.add("in/0.jpg", result)
        raise KeyError
    with keeping(desk / "x.json", {}, quiet=True) as journal:
        assert journal.finished == {"in/0.jpg": result}
        assert getattr(journal.finished["in/0.jpg"], "shown", Shown()) == getattr(
            result, "shown", Shown()
        )
    assert not list(desk.glob("*.partial"))


@pytest.mark.parametrize(
    "output", ["x.jsonl", "x.json", "x.csv", "page.html", "pictures", "deep/x.jsonl"]
)
def test_finding_b17_the_same_command_continues(
    output: str, desk: Path, stop_after: Any, stand_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = f"whole-{Path(output).name}"
    assert run(["caption", "in", "-o", whole, "-q"]) == 0
    stop_after(4)
    assert run(["caption", "in", "-o", output]) == 130
    place = f"{output}.partial" if Path(output).suffix else f"{output}/regiontalk.partial"
    assert (
        f"finished photos kept in {place}: the same command continues there"
        in capsys.readouterr().err
    )
    kept = len(Path(place).read_text().splitlines()) - 1
    assert kept in (2, 3, 4), "one or two were on their way"
    assert not Path(output).is_file()
    stop_after(0)
    assert run(["caption", "in", "-o", output]) == 0
    assert f"{output}: {kept} of 6 photos were finished" in capsys.readouterr().err
    assert asked_for(stand_in) == [str(number) for number in range(kept, 6)]
    assert not Path(place).exists()
    if Path(output).is_dir():
        assert contents(Path(output)) == contents(Path(whole))
    elif "/" not in output:
        assert Path(output).read_bytes() == Path(whole).read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_finding_b17_changed_photos_and_other_questions_are_asked_again(
    desk: Path,
    stop_after: Any,
    stand_in: Any,
    scene: Image.Image,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stop_after(5)
    assert run(["caption", "in", "-o", "x.jsonl"]) == 130
    kept = len(Path("x.jsonl.partial").read_text().splitlines()) - 1
    scene.save("in/0.jpg")
    stop_after(0)
    assert run(["caption", "in", "-o", "x.jsonl"]) == 0
    assert asked_for(stand_in) == ["0", *(str(number) for number in range(kept, 6))]
    assert json.loads(Path("x.jsonl").read_text().splitlines()[0])["width"] == scene.width
    stop_after(5)
    assert run(["caption", "in", "-o", "x.jsonl"]) == 130
    stop_after(0)
    assert run(["caption", "in", "-o", "x.jsonl", "--top", "1"]) == 0
    assert len(stand_in.asked) == 6
    assert (
        "x.jsonl.partial: of another command, model or version; starting again"
        in capsys.readouterr().err
    )


def test_a_torn_line_costs_one_photo(desk: Path, stop_after: Any, stand_in: Any) -> None:
    stop_after(5)
    assert run(["caption", "in", "-o", "x.jsonl"]) == 130
    partial = Path("x.jsonl.partial")
    kept = len(partial.read_bytes().splitlines()) - 1
    partial.write_bytes(partial.read_bytes()[:-20])
    stop_after(5 - kept + 2)
    assert run(["caption", "in", "-o", "x.jsonl"]) in (0, 130)
    stop_after(0)
    assert run(["caption", "in", "-o", "x.jsonl"]) == 0
    assert [json.loads(line)["path"] for line in Path("x.jsonl").read_text().splitlines()] == [
        f"in/{number}.jpg" for number in range(6)
    ]


def test_a_file_of_that_name_which_is_not_ours(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in ("mine\n", '{"a": 1}\n'):
        Path("x.jsonl.partial").write_text(content)
        assert run(["caption", "in", "-o", "x.jsonl"]) == 2
        assert (
            "x.jsonl.partial: already exists and was not written by regiontalk"
            in capsys.readouterr().err
        )
        assert Path("x.jsonl.partial").read_text() == content


def test_one_photo_needs_no_journal_and_failures_leave_none(desk: Path, stop_after: Any) -> None:
    stop_after(1)
    assert run(["caption", "in/0.jpg", "-o", "x.json"]) == 0
    assert run(["caption", "in", "-o", "y/x.json"]) == 130
    assert not list(desk.rglob("*.partial"))


def test_stdin_is_another_photo_the_next_time(
    desk: Path, stop_after: Any, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for photos, code in ((4, 130), (0, 0)):
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("in/3.jpg").read_bytes()))
        )
        stop_after(photos)
        assert run(["caption", "-", "in", "-o", "x.jsonl"]) == code
    assert isinstance(stand_in.asked[0]["photo"], bytes)


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_finding_b17_kill_9_keeps_what_is_finished(desk: Path, tiny_model: Path) -> None:
    for number in range(60):
        os.link("in/0.jpg", f"in/more-{number}.jpg")
    command = [
        sys.executable,
        "-m",
        "regiontalk",
        "caption",
        "in",
        "--model",
        str(tiny_model),
        "-o",
    ]
    process = subprocess.Popen([*command, "x.jsonl"], stderr=subprocess.DEVNULL)
    partial = Path("x.jsonl.partial")
    while process.poll() is None and (
        not partial.exists() or partial.read_bytes().count(b"\n") < 5
    ):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert partial.exists(), "the machine was quicker than this test"
    done = subprocess.run([*command, "x.jsonl"], capture_output=True, text=True, check=True)
    assert " of 66 photos were finished" in done.stderr
    subprocess.run([*command, "whole.jsonl", "-q"], check=True)
    assert Path("x.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


@pytest.mark.parametrize("left", [b"", b'{"re'])
def test_a_journal_without_its_first_line_is_begun_again(desk: Path, left: bytes) -> None:
    """As a run leaves it whose disk is full, or that is killed, at its first write."""
    (desk / "x.jsonl.partial").write_bytes(left)
    assert run(["caption", "in", "-o", "x.jsonl", "-q"]) == 0
    assert len((desk / "x.jsonl").read_bytes().splitlines()) == 6
    assert not (desk / "x.jsonl.partial").exists()
