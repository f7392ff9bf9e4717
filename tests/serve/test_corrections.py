"""Corrections are a data set that the other verbs take."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hostile_files import encode

from conftest import draw_scene
from regiontalk.cli.main import run
from regiontalk.errors import DataError, UsageError
from regiontalk.lab.data.records import Dataset
from regiontalk.serve.corrections import Correction, Corrections

CORRECTION = Correction.of({"regions": [{"xyxy": [4, 4, 40, 40], "caption": "a yellow circle"}]})


@pytest.fixture
def corrected(tmp_path: Path) -> Path:
    """The folder of corrections of four photos in `album`, one of which was dropped."""
    album, folder = tmp_path / "album", tmp_path / "album" / ".regiontalk" / "corrections"
    album.mkdir()
    corrections = Corrections(folder)
    for number in range(3):
        photo = album / f"{number}.png"
        draw_scene((64, 48 + number)).save(photo)
        corrections.save(corrections.place_of(photo), (64, 48 + number), CORRECTION)
    corrections.save(corrections.keep(encode(draw_scene((72, 64)), "PNG")), (72, 64), CORRECTION)
    return folder


def test_data_check_finds_nothing_broken(
    corrected: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["data", "check", str(corrected)]) == 0
    assert "4 records, nothing broken" in capsys.readouterr().err


def test_they_move_with_the_photos(corrected: Path) -> None:
    moved = corrected.parents[2] / "moved"
    corrected.parents[1].rename(moved)
    assert run(["data", "check", str(moved / ".regiontalk" / "corrections")]) == 0


def test_a_network_trains_on_them(
    corrected: Path, quick_recipe: Callable[..., Any], tmp_path: Path
) -> None:
    import torch

    from regiontalk.lab.training.detector.task import FCLNTask
    from regiontalk.lab.training.engine import Engine

    class Nobody:
        def step(self, *_: object) -> None: ...
        def say(self, _: str) -> None: ...

    recipe = quick_recipe(f"data.0.path={corrected}", "run.steps=2")
    Engine(FCLNTask.begin(recipe), tmp_path / "run", torch.device("cpu"), Nobody()).train()
    assert (tmp_path / "run" / "checkpoints").exists()


def test_several_at_once_are_all_kept(tmp_path: Path) -> None:
    """From threads of two servers."""
    servers = [Corrections(tmp_path / "corrections") for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda number: servers[number % 2].save(f"{number}.png", (64, 64), CORRECTION),
                range(40),
            )
        )
    assert {record.image for record in Dataset(tmp_path / "corrections")} == {
        f"{n}.png" for n in range(40)
    }


def test_a_refused_correction_and_a_damaged_file_change_nothing(tmp_path: Path) -> None:
    corrections = Corrections(tmp_path)
    corrections.save("a.png", (64, 64), CORRECTION)
    before = (tmp_path / "annotations.jsonl").read_bytes()
    with pytest.raises(UsageError, match="outside the image"):
        corrections.save("a.png", (20, 20), CORRECTION)
    assert (tmp_path / "annotations.jsonl").read_bytes() == before
    (tmp_path / "annotations.jsonl").write_bytes(before[:-20])
    with pytest.raises(DataError):
        corrections.save("b.png", (64, 64), CORRECTION)
    assert (tmp_path / "annotations.jsonl").read_bytes() == before[:-20]
