"""A Ray cluster of several processes on this machine, by the commands that use it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import draw_scene
from postgres_server import Server
from regiontalk.cli.main import run

pytest.importorskip("ray", reason="no Ray: pip install 'regiontalk[cluster]'")
import psutil

PHOTOS = 40
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number in range(PHOTOS):
        draw_scene((64 + number, 64)).save(folder / f"{number:02d}.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    with tarfile.open(folder / "more.tar", "w") as archive:
        archive.add(folder / "00.png", "in/00.png")
    return folder


def lines(folder: Path, pattern: str = "part-*.jsonl") -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in folder.glob(pattern) for line in path.read_text().splitlines()
    ]


def kill_a_worker(of: int) -> None:
    """One that has a model."""
    workers = [
        one
        for one in psutil.Process(of).children(recursive=True)
        if "MapWorker" in " ".join(one.cmdline())
    ]
    os.kill(workers[0].pid, signal.SIGKILL)


def test_a_killed_worker_loses_and_doubles_nothing(
    photos: Path, tmp_path: Path, aligning_model: Path
) -> None:
    out = tmp_path / "out"
    options = ["caption", str(photos), "--model", str(aligning_model), "-j", "2", "-o"]
    command = [sys.executable, "-m", "regiontalk", *options, str(out), "--engine", "ray"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not list(out.glob("_done/*.jsonl")):
            assert process.poll() is None
            time.sleep(0.01)
        kill_a_worker(process.pid)
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert "broken.jpg" in err
    assert f"{PHOTOS + 1} photos" in err
    found = {line["path"]: line for line in lines(out)}
    assert len(found) == len(lines(out)) == PHOTOS + 1
    assert (
        found.pop(f"{photos}/more.tar/in/00.png")["regions"] == found[f"{photos}/00.png"]["regions"]
    )
    assert run([*options, str(tmp_path / "plain.jsonl"), "-q"]) == 0
    plain = [json.loads(line) for line in (tmp_path / "plain.jsonl").read_text().splitlines()]
    assert found == {line["path"]: line for line in plain}
    skipped = [line for line in lines(out, "_done/*.jsonl") if "reason" in line]
    assert [Path(line["path"]).name for line in skipped] == ["broken.jpg"]


def test_a_restart_does_what_is_left(
    photos: Path, tmp_path: Path, aligning_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Photos and results at addresses."""
    out = tmp_path / "out"
    for name in ("00.png", "01.png", "broken.jpg"):
        shutil.copy(photos / name, tmp_path / name)
    places = [f"file://{tmp_path}", "-o", f"file://{out}"]
    command = ["caption", *places, "--model", str(aligning_model), "--engine", "ray"]
    assert run([*command, "--threshold", "0"]) == 0
    assert f"skipped file://{tmp_path}/broken.jpg: a broken photo" in capsys.readouterr().err
    before = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    shutil.copy(photos / "02.png", tmp_path / "02.png")
    assert run([*command, "--threshold", "0"]) == 0
    assert "2 photos were finished" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in out.glob("part-*")}.items() > before.items()
    assert sorted(Path(line["path"]).name for line in lines(out)) == ["00.png", "01.png", "02.png"]
    assert run(command) == 2  # another question
    assert "another command" in capsys.readouterr().err


def test_an_index_is_the_same_by_a_cluster(
    photos: Path,
    tmp_path: Path,
    aligning_model: Path,
    postgres: Server,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, ray = ["--model", str(aligning_model)], ["--engine", "ray", "-j", "2", "--json"]
    places = {
        "plain": ["--index", str(tmp_path / "plain")],
        "ray": ["--index", str(tmp_path / "ray"), *ray],
        "shared": ["--store", postgres.address, "--rebuild", *ray],
    }
    answers = {}
    for name, options in places.items():
        assert run(["index", str(photos), *model, "-q", *options]) == 0
        out, err = capsys.readouterr()
        assert err.count("broken.jpg") == 1
        assert name == "plain" or json.loads(out)["added"] == PHOTOS
        everything = ["--json", "--top", "99", "--threshold", "0"]
        assert run(["search", "red circle", str(photos), *model, *options[:2], *everything]) == 0
        hits = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        answers[name] = {hit["path"]: hit["score"] for hit in hits}
    assert len(answers["plain"]) == PHOTOS
    assert answers["ray"] == pytest.approx(answers["plain"], abs=1e-6)
    assert answers["shared"] == pytest.approx(
        answers["plain"], abs=5e-3
    )  # the other one stores 8 bits
    shared = ["--store", postgres.address]
    for added in (1, 0):  # the second time there is nothing new
        assert run(["index", str(photos / "more.tar"), *model, "-q", *shared, *ray]) == 0
        assert json.loads(capsys.readouterr().out)["added"] == added
    assert (
        run(
            [
                "search",
                "red circle",
                str(photos / "more.tar"),
                *model,
                *shared,
                "--json",
                "--threshold",
                "0",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["path"] == f"{photos}/more.tar/in/00.png"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "ray://127.0.0.1:1"])
def test_a_wrong_address_is_said(
    photos: Path, tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            [
                "caption",
                str(photos),
                "-o",
                str(tmp_path / "x"),
                "--engine",
                "ray",
                "--address",
                address,
            ]
        )
        == 5
    )
    err = capsys.readouterr().err
    assert "no Ray cluster there" in err
    assert err.count("\n") == 1


def test_what_makes_no_sense_is_refused(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = ["caption", str(photos), "--engine", "ray"]
    for options in ([], ["--json"], ["-o", str(tmp_path), "--format", "coco"]):
        assert run([*ray, *options]) == 2
    assert run(["caption", str(photos), "--address", "auto"]) == 2
    assert "--engine ray" in capsys.readouterr().err


def test_no_room_for_rays_own_files_is_said(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    assert run(["caption", str(photos), "-o", str(tmp_path / "x"), "--engine", "ray"]) == 5
    err = capsys.readouterr().err
    assert err.startswith(f"regiontalk: {tmp_path}: no space left on device")
    assert err.count("\n") == 1
